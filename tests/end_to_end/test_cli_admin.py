"""An administrator's commands, as processes, on a real server: what they do there, and not only what they print."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.process import ServerProcess, server_process

COMMAND = "from leaseway.cli import main; main()"
TOML = """
[queues.demo]
access = { post = ["alice"], fetch = ["alice"], work = ["box"], admin = ["root"] }
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, parsed."""
        return json.loads(self.out)


class Scene:
    """A server, its users' tokens, and the commands of `root`."""

    def __init__(self, server: ServerProcess, http: httpx.AsyncClient, tokens: Mapping[str, str]) -> None:
        self.server = server
        self.tokens = tokens
        self._http = http

    async def run(self, *words: str, user: str = "root", encoding: str = "utf-8") -> Ended:
        """One command of this user, with address and token in the environment."""
        given = {"LEASEWAY_URL": f"{self.server.base_url}/demo", "LEASEWAY_TOKEN": self.tokens.get(user, "")}
        given["PYTHONIOENCODING"] = encoding
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COMMAND, *words, stdout=pipe, stderr=pipe, env=kept | given
        )
        out, err = (text.decode(encoding) for text in await process.communicate())
        assert process.returncode is not None
        assert not [token for token in self.tokens.values() if token in out + err]
        assert "Traceback" not in err, err
        return Ended(process.returncode, out, err)

    async def ask(self, user: str, path: str, body: object) -> Any:
        """A request of this user."""
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        answer = await self._http.post(f"/demo/{path}", json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def post(self, value: object = 1, **options: object) -> str:
        """An item of alice's; gives its id."""
        return str((await self.ask("alice", "items", {"item": value, **options}))["id"])

    async def claim(self) -> Any:
        """What the worker gets."""
        return await self.ask("box", "claim", {"worker": "box-1"})

    async def fail(self, value: object = 1) -> str:
        """An item that failed for good."""
        item_id = await self.post(value)
        claimed = await self.claim()
        error = {"message": "no luck"}
        report = {"id": item_id, "attempts": claimed["attempts"], "error": error, "retryable": False}
        assert (await self.ask("box", "fail", report))["status"] == "failed"
        return item_id


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    async with server_process(folder, TOML) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        yield Scene(server, http, server.add_tokens({"alice": [], "box": [], "root": []}))


async def test_items_lists_what_is_there(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        failed = await there.fail()
        posted = [await there.post(number) for number in range(5)]
        later = await there.post(delayMs=3_600_000)
        everything = (await there.run("items", "--json")).json
        assert [view["id"] for view in everything] == [later, *reversed(posted), failed]
        assert [view["label"] for view in everything] == ["scheduled", *["pending"] * 5, "failed"]
        two = await there.run("items", "--status", "failed", "--label", "failed", "--posted-by", "alice")
        assert two.status == 0
        assert [line.split()[0] for line in two.out.splitlines()] == ["ID", failed]
        assert two.out.splitlines()[1].endswith("no luck")
        some = await there.run("items", "--limit", "2", "--json")
        assert [view["id"] for view in some.json] == [later, posted[-1]]
        assert some.err == "There are more than these 2; --limit shows them.\n"
        assert (await there.run("items", "--posted-by", "nobody")).err == "There are no such items in demo.\n"


async def test_why_says_what_an_item_waits_for_and_who_holds_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        held = await there.post()
        assert (await there.claim())["id"] == held
        waits = await there.post()
        told = await there.run("why", waits, "--json")
        assert told.json["waiting"]
        assert "no-worker" in [reason["code"] for reason in told.json["reasons"]]
        assert (await there.run("why", waits)).out.startswith(f"{waits} waits:\n  ")
        told = await there.run("why", held)
        assert told.status == 0
        assert told.out.startswith(f"{held} does not wait:\n  held ")
        assert "box" in told.out
        assert (await there.run("why", "0" * 16)).status == 1


async def test_retry_and_cancel_do_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        failed = await there.fail()
        assert await there.run("retry", failed) == Ended(0, f"{failed} is pending\n", "")
        again = await there.run("retry", failed, "0" * 16)
        assert (again.status, again.out, len(again.err.splitlines())) == (1, "", 2)
        assert (await there.claim())["id"] == failed, "it is handed out again"
        other = await there.post()
        done = await there.run("cancel", failed, other, other, "--json")
        assert done.json == [{"id": each, "status": "cancelled", "error": None} for each in (failed, other, other)]
        assert (await there.claim())["type"] == "empty"


async def test_pause_stops_what_is_given_out_and_unpause_begins_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        posted = await there.post()
        assert (await there.run("pause")).status == 0
        assert (await there.claim())["type"] == "empty"
        assert "paused" in [reason["code"] for reason in (await there.run("why", posted, "--json")).json["reasons"]]
        await there.server.restart()
        assert (await there.claim())["type"] == "empty", "over a restart too"
        assert (await there.run("unpause", "--json")).json["paused"] is False
        assert (await there.claim())["id"] == posted


async def test_who_may_not_is_told_so(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        item_id = await there.post()
        for user in ("box", "nobody"):
            for words in (["items"], ["why", item_id], ["retry", item_id], ["cancel", item_id], ["pause"], ["unpause"]):
                told = await there.run(*words, user=user)
                assert (told.status, told.out) == (3, ""), (user, words)
                assert told.err.startswith(
                    "Error: the server refuses: " if user == "box" else "Error: a token is needed"
                )
        assert (await there.run("cancel", item_id, user="alice")).status == 0, "her own"


async def test_a_terminal_that_has_not_all_letters_is_told_all_the_same(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        await there.post(key="日本é😀")
        told = await there.run("items", encoding="latin-1")
        assert told.status == 0
        assert "\\u65e5\\u672cé\\U0001f600" in told.out
