"""The disk: no answer before its commit is durable, none that is false when a sync fails, no harm when it is full."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from leaseway_server.store.sqlite.store import SqliteStore
from support.process import ServerProcess, server_process, strace
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

Message = dict[str, Any]
SYNCED = re.compile(r"f(data)?sync(\(\d+\)| resumed>\)) += 0")
ANSWER = re.compile(r"HTTP/1.1 20[01] |\"type\\?\":\\?\"(posted|item|result-ack|fail-ack|release-ack|resume-ack)")


@pytest.fixture
def tmp_path(disk: Path) -> Path:
    """Here all files are on the disk."""
    return disk


@dataclass(slots=True)
class Clients:
    """One of each kind, who say one thing at a time; and what they were told last, by item."""

    name: str
    http: httpx.AsyncClient
    monitor: RawSocket
    work: RawSocket
    promised: dict[str, str]

    async def round(self) -> None:
        """Three items through both doors, and all that is promised to be durable: ten answers, one after the other."""
        done = await self._claimed(await self._post_over_http())
        await self._report("result", {"id": done, "value": 1})
        failed = await self._claimed(await self._post_on_the_socket())
        await self._report("fail", {"id": failed, "error": {"message": "no"}, "retryable": False})
        given_back = await self._claimed(await self._post_over_http())
        await self._report("release", {"id": given_back})
        answer = await self.http.post(f"/demo/items/{given_back}/cancel")
        assert answer.status_code == 200
        self.promised[given_back] = "cancelled"

    async def _claimed(self, item_id: str) -> str:
        claimed = await self.work.ask({"claim": {"criteria": {"by": self.name}}})
        assert claimed["id"] == item_id
        return item_id

    async def _report(self, verb: str, report: Message) -> None:
        ack = await self.work.ask({verb: report})
        assert ack["accepted"]
        self.promised[report["id"]] = ack["status"]

    async def _post_over_http(self) -> str:
        answer = await self.http.post("/demo/items", json={"item": {"by": self.name}})
        assert answer.status_code == 201
        return self._posted(answer.json()["id"])

    async def _post_on_the_socket(self) -> str:
        return self._posted((await self.monitor.ask({"post": {"item": {"by": self.name}}}))["id"])

    def _posted(self, item_id: str) -> str:
        self.promised[item_id] = "pending"
        return item_id


@asynccontextmanager
async def clients(base_url: str, name: str = "me") -> AsyncIterator[Clients]:
    ws_url = base_url.replace("http://", "ws://")
    async with (
        httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=30) as http,
        raw_socket(f"{ws_url}/demo/monitor") as monitor,
        raw_socket(f"{ws_url}/demo/work") as work,
    ):
        yield Clients(name, http, monitor, work, {})


@pytest.mark.protocol("7.1")
async def test_no_answer_leaves_before_its_commit_is_on_disk(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    prefix = strace("-s", "200", "-o", str(trace), "-e", "trace=fdatasync,fsync,write,writev,sendto,sendmsg")
    async with server_process(tmp_path, open_queue(), prefix) as server:
        async with clients(server.base_url) as each:
            before = len(trace.read_text(errors="replace").splitlines())
            await each.round()
            await each.round()
        assert (await server.stop()).status == 0
    answers = synced = 0
    for line in trace.read_text(errors="replace").splitlines()[before:]:
        if SYNCED.search(line):
            synced += 1
        elif ANSWER.search(line):
            answers += 1
            assert synced, f"an answer left before anything was synced since the last one: {line}"
            synced = 0
    assert answers == 20


@pytest.mark.parametrize("number", [1, 8, 14, 16, 19])
async def test_a_sync_that_fails_gives_no_false_answer(number: int, tmp_path: Path) -> None:
    """The server says so and ends, not with status 0; and from the file it keeps all that it had promised."""
    prefix = strace("-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:error=EIO:when={number}")
    server = ServerProcess(tmp_path, open_queue(), prefix)
    promised = await promised_until_it_ends(server)
    ended = await server.ended()
    assert ended.status == 1
    assert re.search(rb" critical (the store is lost|cannot start).*I/O error", server.output), server.output.decode()
    async with server_process(tmp_path, open_queue()) as again, clients(again.base_url, "again") as each:
        for item_id, status in promised.items():
            answer = await each.http.get(f"/demo/items/{item_id}")
            assert answer.status_code == 200, "an acknowledged post is gone"
            assert status in ("pending", answer.json()["status"]), "an acknowledged end is gone"
        await each.round()


async def promised_until_it_ends(server: ServerProcess) -> dict[str, str]:
    """Starts the server, and says things until it is no more."""
    await server.spawn()
    if not await server.serves():
        return {}
    async with clients(server.base_url) as each:
        try:
            for _ in range(20):
                await each.round()
        except (httpx.TransportError, asyncio.IncompleteReadError, ConnectionError):
            return each.promised
    pytest.fail("no sync failed, so the test has not shown what it is for")


# ── A full disk ──


@pytest.mark.protocol("5.52")
async def test_a_full_disk_refuses_clearly_shows_on_and_recovers_by_itself(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, clients(server.base_url) as each:
        watched = (await each.http.post("/demo/items", json={"item": "small"})).json()["id"]
        held = await each.work.ask({"claim": {}})
        fill_up(server)

        answer = await each.http.post("/demo/items", json={"item": "x" * 500_000})
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        refused = await each.monitor.ask({"post": {"item": "x" * 500_000}, "ref": 1})
        assert (refused["type"], refused["code"], refused["ref"]) == ("error", "unavailable", 1)
        refused = await each.work.ask({"result": {"id": held["id"], "value": "x" * 500_000}})
        assert (refused["type"], refused["code"], refused["id"]) == ("error", "unavailable", held["id"])

        assert (await each.http.get("/_health")).status_code == 200
        assert (await each.http.get("/_ready")).status_code == 503
        assert (await each.http.get(f"/demo/items/{watched}")).json()["status"] == "processing"
        assert (await each.http.get(f"/demo/items/{watched}/item")).json() == "small"
        assert (await each.monitor.ask({"subscribe": [watched]}))["status"] == "processing"

        make_space(server)
        async with asyncio.timeout(1):  # faults.md: by itself, within a second of space
            while (await each.http.get("/_ready")).status_code != 200:
                pass
        assert (await each.http.post("/demo/items", json={"item": "x" * 500_000})).status_code == 201
        assert (await each.work.ask({"result": {"id": held["id"], "value": 1}}))["accepted"]
        assert (await each.monitor.hear())["status"] == "finished"


async def test_who_drops_while_the_disk_is_full_is_requeued_when_there_is_space(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, clients(server.base_url) as each:
        await each.http.post("/demo/items", json={"item": "small"})
        async with raw_socket(f"{server.ws_url}/demo/work") as doomed:
            held = await doomed.ask({"claim": {}})
            fill_up(server)
            assert (await each.http.post("/demo/items", json={"item": "x" * 500_000})).status_code == 503
        each.work.say({"claim": {"waitMs": 60_000}})
        while (await each.http.post("/demo/items", json={"item": "x" * 500_000})).status_code != 503:
            pass
        make_space(server)
        item = await each.work.hear()
        assert (item["id"], item["attempts"]) == (held["id"], 2)


def store_of(server: TestServer) -> SqliteStore:
    store = server.engine("demo")._store
    assert isinstance(store, SqliteStore)
    return store


def fill_up(server: TestServer) -> None:
    """Lets the file grow no more: SQLite answers as on a full disk."""
    connection = store_of(server).connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_space(server: TestServer) -> None:
    store_of(server).connection.execute("PRAGMA max_page_count = 1000000000")
