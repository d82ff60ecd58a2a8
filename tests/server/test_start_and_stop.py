"""Starting and stopping a real process: what stops a start, and a planned stop with clients of every kind (§6)."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.process import ServerProcess, server_process, strace
from support.raw import CLOSE, RawSocket, raw_socket
from support.server import open_queue

Message = dict[str, Any]


@asynccontextmanager
async def client(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.base_url, trust_env=False, timeout=30) as http:
        yield http


async def post(http: httpx.AsyncClient, item: object) -> str:
    answer = await http.post("/demo/items", json={"item": item})
    assert answer.status_code == 201
    return str(answer.json()["id"])


# ── A planned stop ──


@pytest.mark.protocol("6.5", "6.8", "6.11", "6.12")
async def test_a_stop_with_clients_of_every_kind(tmp_path: Path) -> None:
    """Idle, busy, waiting, never reading, never answering, and over HTTP: it ends in time, and nothing is requeued."""
    async with server_process(tmp_path, open_queue()) as server, client(server) as http, AsyncExitStack() as stack:
        deaf = await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/monitor", receive_buffer=4_096))
        await fill(server, deaf)
        ids = [await post(http, number) for number in range(3)]

        async def open_socket() -> RawSocket:
            return await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/work"))

        idle, busy, silent = [await open_socket() for _ in range(3)]
        held = [(await socket.ask({"claim": {"worker": name}}))["id"] for socket, name in ((busy, "b"), (silent, "s"))]
        over_http = (await http.post("/demo/claim", json={"worker": "h"})).json()["id"]
        waiting = await open_socket()
        waiting.say({"claim": {"waitMs": 60_000}})
        await asyncio.gather(*(http.get("/_health") for _ in range(2)))  # Two connections that are open already.
        watch = asyncio.create_task(http.get(f"/demo/items/{ids[0]}", params={"waitMs": 60_000}))
        claim = asyncio.create_task(http.post("/demo/claim", json={"waitMs": 60_000, "criteria": {"never": True}}))
        while await waiting_claims(http) < 2:  # And the watch was said before them.
            pass

        goodbyes = asyncio.gather(*(socket.closed() for socket in (idle, busy, waiting)), goodbye(silent))
        ended = await server.stop()
        assert ended.status == 0
        assert ended.seconds < 6
        codes = await goodbyes
        assert codes == [1012, 1012, 1012, 1012]
        assert (await watch).json()["status"] == "processing"
        assert (await claim).json() == {"type": "empty"}
        assert b"Traceback" not in server.output

        await server.start()
        for item_id in ids:
            seen = (await http.get(f"/demo/items/{item_id}")).json()
            assert (seen["status"], seen["attempts"], seen["losses"]) == ("processing", 1, 0)
        for name, item_id in zip("bs", held, strict=True):
            back = await open_socket()
            resumed = await back.ask({"resume": {"worker": name, "leases": [{"id": item_id, "attempts": 1}]}})
            assert resumed["leases"][0]["accepted"]
            assert (await back.ask({"result": {"id": item_id, "value": name}}))["accepted"]
        ack = (await http.post("/demo/result", json={"id": over_http, "attempts": 1, "value": "h"})).json()
        assert ack["accepted"]


async def waiting_claims(http: httpx.AsyncClient) -> float:
    """How many claims wait on the server."""
    metrics = (await http.get("/_metrics")).text
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("leaseway_waiting_claims{"))


async def fill(server: ServerProcess, deaf: RawSocket) -> None:
    """Has 12 MB sent to the deaf socket: more than the buffers between it and the server hold."""
    async with (
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
    ):
        ids = [(await monitor.ask({"post": {"item": "large"}}))["id"] for _ in range(40)]
        for _ in ids:
            item = await worker.ask({"claim": {}})
            assert (await worker.ask({"result": {"id": item["id"], "value": "x" * 300_000}}))["accepted"]
        deaf.say({"subscribe": ids})
        monitor.say({"subscribe": ids[:1]})
        await monitor.hear()


async def goodbye(socket: RawSocket) -> int:
    """The close code, from a client that never answers a close."""
    while (frame := await socket.next()).opcode != CLOSE:
        pass
    return frame.close_code


def can_make_read_only(folder: Path) -> bool:
    """Whether a file system can be mounted read-only here, for one process."""
    command = ["unshare", "-rm", "sh", "-c", read_only(folder)]
    return bool(shutil.which("unshare")) and subprocess.run(command, check=False, capture_output=True).returncode == 0


def read_only(folder: Path) -> str:
    return f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_without_clients_is_quick(number: signal.Signals, tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        server.signal(number)
        ended = await server.ended()
        assert ended.status == 0
        assert ended.seconds < 3
        assert server.output.count(b" stopped") == 1


@pytest.mark.protocol("6.10")
async def test_reports_under_way_are_let_in(tmp_path: Path) -> None:
    """What was said before the stop is answered before the close; what was answered is there after the start."""
    async with server_process(tmp_path, open_queue()) as server:
        async with client(server) as http, raw_socket(f"{server.ws_url}/demo/work") as worker:
            ids = [await post(http, number) for number in range(100)]
            worker.say({"claim": {"count": 100, "worker": "w"}})
            for _ in ids:
                await worker.hear()
            worker.say({"batch": [{"result": {"id": item_id, "value": 1}} for item_id in ids]})
            stopped = asyncio.create_task(server.stop())
            acks = [await worker.hear() for _ in ids]
            assert all(ack["accepted"] for ack in acks)
            assert await worker.closed() == 1012
            assert (await stopped).status == 0
        await server.start()
        async with client(server) as http:
            for item_id in ids:
                assert (await http.get(f"/demo/items/{item_id}")).json()["status"] == "finished"


@pytest.mark.protocol("6.14", "6.15")
async def test_what_nobody_resumes_comes_back_after_the_grace_at_no_charge(tmp_path: Path) -> None:
    toml = '[server]\nresume_grace = "200ms"\n' + open_queue()
    async with server_process(tmp_path, toml) as server:
        async with client(server) as http, raw_socket(f"{server.ws_url}/demo/work") as worker:
            item_id = await post(http, 1)
            assert (await worker.ask({"claim": {"worker": "w"}}))["attempts"] == 1
            await server.restart()
        async with client(server) as http, raw_socket(f"{server.ws_url}/demo/work") as other:
            assert (await other.ask({"claim": {"waitMs": 60_000}}))["attempts"] == 2
            seen = (await http.get(f"/demo/items/{item_id}")).json()
            assert (seen["losses"], seen["failures"]) == (0, 0)


async def test_who_comes_back_while_the_old_server_still_stops_is_not_served(tmp_path: Path) -> None:
    """No new connection is taken once the stop began, so nobody's work is taken in and then cut."""
    async with server_process(tmp_path, open_queue()) as server, raw_socket(f"{server.ws_url}/demo/work") as silent:
        stopped = asyncio.create_task(server.stop())
        assert await goodbye(silent) == 1012
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
        assert (await stopped).status == 0


# ── What stops a start ──


async def refused_start(server: ServerProcess) -> str:
    """What a server says that does not start; its exit status is 1, and it shows no traceback."""
    await server.spawn()
    ended = await server.ended()
    said = server.output.decode()
    assert ended.status == 1, said
    assert "Traceback" not in said
    return said


async def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        said = await refused_start(ServerProcess(tmp_path, open_queue()))
        assert f"{server.data / 'demo.db'} is served by another process (id {server.pid})" in said
        async with client(server) as http:
            await post(http, "the first one works on")


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with server_process(tmp_path / "one", open_queue()) as server:
        second = ServerProcess(tmp_path / "two", open_queue())
        second.base_url = server.base_url
        address = server.base_url.removeprefix("http://")
        assert f"cannot listen on {address}: Address already in use" in await refused_start(second)


async def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    assert str(tmp_path / "data") in await refused_start(ServerProcess(tmp_path, open_queue()))


async def test_a_read_only_file_system_stops_the_start_and_is_named(tmp_path: Path) -> None:
    if not can_make_read_only(tmp_path):
        pytest.skip("no file system can be made read-only here: unshare is missing or not allowed")
    async with server_process(tmp_path, open_queue()) as server:
        assert (await server.stop()).status == 0
    prefix = ["unshare", "-rm", "sh", "-c", f'{read_only(tmp_path)} && exec "$@"', "sh"]
    said = await refused_start(ServerProcess(tmp_path, open_queue(), prefix))
    assert str(tmp_path / "data") in said


@pytest.mark.parametrize("name", ["demo.db", "_access.db"])
async def test_a_file_that_is_not_ours_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / name
    file.write_text("a letter to somebody, and longer than a header of SQLite: " * 4)
    before = file.read_bytes()
    assert str(file) in await refused_start(ServerProcess(tmp_path, open_queue()))
    assert file.read_bytes() == before


@pytest.mark.parametrize("write", [1, 3, 6, 10, 14, 18])
async def test_a_start_that_was_killed_half_way_is_no_hindrance(write: int, tmp_path: Path) -> None:
    """Killed at one of the writes with which a first start makes its files: the next one serves."""
    inject = strace("-e", "trace=pwrite64", "-e", f"inject=pwrite64:signal=KILL:when={write}")
    doomed = ServerProcess(tmp_path, open_queue(), inject)
    await doomed.spawn()
    assert (await doomed.ended()).status == -signal.SIGKILL
    assert (tmp_path / "data").exists()
    async with server_process(tmp_path, open_queue()) as server, client(server) as http:
        await post(http, 1)
