"""`leaseway top`, as a process, on a real server: what is pushed and asked for, a server that dies and comes back."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner
from websockets.asyncio.client import connect

from docs.screens import LEASEWAY, shot
from leaseway.cli.top.command import top as command
from support.child import ended_after
from support.process import ServerProcess, server_process
from support.server import open_queue

COMMAND = "from leaseway.cli import main; main()"
OPEN = 'access = { post = "users", fetch = "users", work = "users", admin = ["root"] }\n'
TOML = f'[queues.demo]\n{OPEN}[queues.mail]\n{OPEN}[queues.own]\nvisibility = "own"\naccess = {{ work = [] }}\n'


@asynccontextmanager
async def top(*words: str, token: str = "") -> AsyncIterator[Process]:
    """The command with its outputs in pipes; killed at the end, where it still runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, "top", *words), stdout=PIPE, stderr=PIPE, env=kept | {"LEASEWAY_TOKEN": token}
    )
    async with ended_after(process):
        yield process


async def until(process: Process, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first document of which that is true; the queue's part of it, by name."""
    assert process.stdout is not None
    async for printed in process.stdout:
        document = json.loads(printed)
        queues = {each["queue"]: each for each in document["queues"]}
        if holds(queues):
            return queues
    raise AssertionError((await process.communicate())[1].decode())


async def ended(process: Process) -> tuple[int | None, str, str]:
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[tuple[ServerProcess, httpx.AsyncClient, dict[str, str]]]:
    """A server with an item in its queue demo."""
    async with server_process(folder, TOML) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        tokens = server.add_tokens({"root": [], "alice": []})
        http.headers["Authorization"] = f"Bearer {tokens['root']}"
        assert (await http.post("/demo/items", json={"item": 1})).status_code == 201
        yield server, http, tokens


async def test_all_queues_of_a_server_live_over_its_death(tmp_path: Path) -> None:
    async with scene(tmp_path) as (server, http, tokens):
        words = [server.base_url, "--json", "--every", "0.1"]
        async with top(*words, token=tokens["root"]) as process:
            queues = await until(process, lambda queues: queues["demo"]["counts"]["pending"] == 1)
            assert sorted(queues) == ["demo", "mail"], "of the third it may see nothing"
            assert queues["demo"]["oldestReadyAt"] > 0
            assert queues["mail"]["oldestReadyAt"] is None
            async with connect(f"{server.ws_url}/demo/work?token={tokens['root']}", proxy=None) as worker:
                await worker.send(json.dumps({"claim": {"worker": "box-1"}}))
                held = json.loads(await worker.recv())["id"]
                queues = await until(process, lambda queues: bool(queues["demo"]["connections"]))
                (box,) = queues["demo"]["connections"]
                assert (box["worker"], [each["id"] for each in box["holds"]]) == ("box-1", [held])
                queues = await until(process, lambda queues: queues["demo"]["counts"]["processing"] == 1)
                assert queues["demo"]["workers"] == 1
                assert queues["demo"]["perMinute"]["claimed"] == 1
            await http.post("/demo/pause")
            await until(process, lambda queues: queues["demo"]["paused"])
            await server.kill()
            queues = await until(process, lambda queues: not queues["demo"]["connected"])
            assert queues["demo"]["trouble"]
            await server.start()
            await http.post("/mail/items", json={"item": 1})
            queues = await until(process, lambda queues: queues["mail"]["counts"]["pending"] == 1)
            await until(process, lambda queues: all(each["connected"] for each in queues.values()))
            process.send_signal(signal.SIGINT)
            status, _, err = await ended(process)
            assert (status, err) == (0, "")


async def test_once_prints_lines_and_ends_and_workers_are_for_administrators(tmp_path: Path) -> None:
    async with scene(tmp_path) as (server, _, tokens):
        demo, mail = f"{server.ws_url}/demo", f"{server.base_url}/mail"
        async with top(demo, mail, "--once", token=tokens["alice"]) as process:
            status, out, err = await ended(process)
        assert (status, err) == (0, "")
        first, second = out.splitlines()
        assert first.split()[1:4] == ["demo", "pending=1", "processing=0"]
        assert "workers=0" in first
        assert "oldest=" in first
        assert second.split()[1:3] == ["mail", "pending=0"]
        async with top(demo, "--once", "--json", token=tokens["alice"]) as process:
            (queue,) = json.loads((await ended(process))[1])["queues"]
        assert (queue["connections"], queue["counts"]["pending"], queue["connected"]) == (None, 1, True)


async def test_what_cannot_be_watched_is_said_at_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as (server, _, tokens):
        for words, token, status, said in (
            ([], "", 2, "which queue?"),
            ([f"{server.base_url}/a/b/?x=1"], "", 2, "a queue's address"),
            ([server.base_url], "", 3, "there is no queue there that may be looked at"),
            ([f"{server.base_url}/demo"], "", 3, "a token is needed"),
            ([f"{server.base_url}/nothing"], tokens["root"], 3, "the server refuses"),
            ([f"{server.base_url}/own"], tokens["alice"], 3, "the figures of own are for those who work there"),
            (["http://127.0.0.1:1/demo"], "", 3, "nobody listens there"),
        ):
            environment = {"LEASEWAY_TOKEN": token, "LEASEWAY_URL": ""}
            told = await asyncio.to_thread(CliRunner(env=environment).invoke, command, [*words, "--once"])
            assert (told.exit_code, told.stdout) == (status, ""), told
            assert said in told.stderr


async def test_on_a_narrow_terminal_it_says_that_it_reconnects_and_ctrl_c_ends_it_well(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        seen: list[str] = []

        def moment(text: str) -> bool:
            if not seen and "OUT/M" in text:
                seen.append(text)
                server.kill_now()
            return "demo: reconnecting: " in text

        terminal, status = await asyncio.to_thread(shot, [*LEASEWAY, "top", f"{server.base_url}/demo"], moment, 60)
    assert status == 0
    assert seen[0].splitlines()[0].split() == ["QUEUE", "PEND", "WORK", "DONE", "BAD", "IN/M", "OUT/M", "WRK", "OLD"]
    assert terminal.text.splitlines()[1].split()[:3] == ["demo", "0", "0"], "what was known stays"
    assert max(map(len, terminal.text.splitlines())) <= 60


async def test_a_token_that_is_revoked_ends_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as (server, _, tokens):
        async with top(f"{server.base_url}/demo", "--json", "--every", "0.1", token=tokens["alice"]) as process:
            await until(process, lambda queues: queues["demo"]["workers"] == 0)
            await server.kill()
            (server.data / "_access.db").unlink()
            await server.start()
            status, _, err = await ended(process)
        assert (status, err.startswith("Error: the server refuses: ")) == (3, True), err
