"""The limits of sockets at their edges: what just fits, what counts and what does not, and that all is given back.

That each limit has an answer at all is told by `test_abuse_limits.py`; those of HTTP are in `test_limits_http.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.limits import Allowances
from leaseway_server.runtime.clock import Clock
from leaseway_server.web import socket as socket_module
from leaseway_server.web.site import Site
from support.clock import ManualClock
from support.faulty_store import Faults, FaultyStore
from support.matrix import NONE, Caller, Line, bearer
from support.raw import TEXT, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

PATIENCE: Final = 10
MEMBERS: Final = '[queues.members]\naccess = { admin = ["root"] }\n'


def limits(queue: str = "", server: str = "", **keys: object) -> str:
    """The open queue `demo` and `members`, with these limits."""
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    return f"[server]\n{server}\n[server.limits]\n{lines}\n{open_queue()}{queue}\n{MEMBERS}"


@asynccontextmanager
async def serving(
    folder: Path, toml: str, *users: str, clock: Clock | None = None
) -> AsyncIterator[tuple[TestServer, Site]]:
    """The server, at whose end nobody has anything of what is given back."""
    async with running_server(folder, toml, users={user: [] for user in users}, clock=clock) as server:
        site = server.running.site
        assert site is not None
        yield server, site
        await given_back(site.connections_of_address, site.connections_of_token, site.waiting_claims)


async def given_back(*counted: Allowances) -> None:
    """Waits until nobody has any of these any more."""
    await until(lambda: not any(map(len, counted)))


async def until(true: Callable[[], bool]) -> None:
    """Waits until it is so, while the server goes on."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  It is many things, of which none tells when it changes.
            await asyncio.sleep(0)


async def greeted(socket: RawSocket) -> RawSocket:
    """The socket, which the server has admitted."""
    assert (await socket.ask({"hello": {}}))["type"] == "hello"
    return socket


def at(address: str) -> dict[str, str]:
    """The header of a request that the trusted proxy forwards."""
    return {"X-Forwarded-For": address}


# ── Messages ──


async def test_the_least_rate_takes_a_full_batch(tmp_path: Path) -> None:
    """And then a hundred a second: one more, on its own or as an empty batch, is too much."""
    clock = ManualClock()
    async with serving(tmp_path, limits(messages_per_second=100), clock=clock) as (server, _):
        ends: list[object] = [{"renew": {"id": NONE}}, {"batch": []}]
        for last in ends:
            async with raw_socket(f"{server.ws_url}/demo/work") as socket:
                socket.say({"batch": [{"hello": {}, "ref": number} for number in range(1_000)]})
                assert [(await socket.hear())["ref"] for _ in range(1_000)] == list(range(1_000))
                clock.advance(1_000)
                for _ in range(100):
                    await greeted(socket)
                socket.say(last)
                assert await socket.closed() == 1008


async def test_the_least_rate_takes_the_largest_message(tmp_path: Path) -> None:
    """And to the byte as much as fills up again."""
    clock = ManualClock()
    toml = limits(server="max_message_bytes = 327_680", bytes_per_second=32_768)
    async with serving(tmp_path, toml, clock=clock) as (server, _), raw_socket(f"{server.ws_url}/demo/work") as socket:

        async def say(size: int) -> RawSocket:
            text = json.dumps({"hello": {}, "x": ""})
            socket.frame(TEXT, text.replace('""', f'"{"x" * (size - len(text))}"').encode())
            return socket

        assert (await (await say(327_680)).hear())["type"] == "hello"
        clock.advance(2_000)
        assert (await (await say(65_536)).hear())["type"] == "hello"
        clock.advance(1)
        assert await (await say(34)).closed() == 1008


BAD: Final[list[object]] = [1, {}, {"no": "verb"}, {"claim": 1}, {"hello": {}, "claim": {}}, {"batch": [{}]}]
NOT_BAD: Final[list[object]] = [
    {"result": {"id": NONE, "value": 1}},
    {"progress": {"id": NONE, "value": "x" * 40_000}},
    {"batch": [{"hello": {}}] * 1_001},
    {"claim": {}},
]


@pytest.mark.protocol("6.3")
async def test_bad_messages_are_forgiven_with_time_and_others_are_none(tmp_path: Path) -> None:
    """Refused for its size, its place or what it is about, a message is still one of the protocol."""
    clock = ManualClock()
    async with (
        serving(tmp_path, limits(bad_messages=6), clock=clock) as (server, _),
        raw_socket(f"{server.ws_url}/demo/work") as socket,
    ):
        for _ in range(20):
            for message in NOT_BAD:
                await socket.ask(message)
        for _ in range(3):
            for message in BAD:
                assert (await socket.ask(message))["code"] == "bad-message"
            clock.advance(10_000)
        socket.say({"batch": BAD[:5] + BAD[:2]})
        assert await socket.closed() == 1008


async def test_what_may_not_be_is_no_bad_message(tmp_path: Path) -> None:
    """Nor is what a schema or a limit refuses: those who make such mistakes are not thrown out."""
    toml = "[server]\n[server.limits]\nbad_messages = 1\nsubscriptions = 1\n[queues.demo]\naccess = { post = [] }\n"
    async with (
        serving(tmp_path, toml, "ann") as (server, _),
        raw_socket(f"{server.ws_url}/demo/monitor", bearer(server.tokens["ann"]).named_headers) as monitor,
    ):
        for _ in range(5):
            assert (await monitor.ask({"post": {"item": 1}}))["code"] == "not-allowed"
            assert (await monitor.ask({"subscribe": [NONE, "x"]}))["code"] == "limit"


async def test_ids_depth_and_sizes_have_bounds_and_the_socket_lives(tmp_path: Path) -> None:
    toml = limits(server="max_message_bytes = 262_144", ids_per_message=3, subscriptions=4)
    async with (
        serving(tmp_path, toml) as (server, _),
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        largest = "x" * (262_144 - 131_072 - 2)
        depth: Any = 1
        for _ in range(64):
            depth = [depth]
        for item, code in (([depth], "bad-json"), (largest + "x", "too-large")):
            assert (await monitor.ask({"post": {"item": item}}))["code"] == code
        ids = [(await monitor.ask({"post": {"item": item}}))["id"] for item in (depth, largest, 1, 1, 1)]
        for verb in ("subscribe", "unsubscribe"):
            assert (await monitor.ask({verb: ids[:4]}))["code"] == "limit"
        monitor.say({"subscribe": ids[:3]})
        assert [(await monitor.hear())["id"] for _ in range(3)] == ids[:3]
        assert (await monitor.ask({"subscribe": ids[3:]}))["code"] == "limit"
        monitor.say({"unsubscribe": ids[:1]})
        monitor.say({"subscribe": ids[3:]})
        assert [(await monitor.hear())["id"] for _ in range(2)] == ids[3:]
        leases = [{"id": NONE, "attempts": 1}] * 4
        assert (await work.ask({"resume": {"worker": "w", "leases": leases}}))["code"] == "limit"
        assert (await work.ask({"resume": {"worker": "w", "leases": leases[:3]}}))["type"] == "resume-ack"
        work.frame(TEXT, b" " * 262_145)
        assert await work.closed() == 1009


# ── A socket that does not read ──


async def stall(server: TestServer, deaf: RawSocket, monitor: RawSocket) -> list[str]:
    """A worker holds four items, more than the buffers take, and has still something to be told."""
    ids = [(await monitor.ask({"post": {"item": "x" * 900_000}}))["id"] for _ in range(4)]
    monitor.say({"subscribe": ids})
    deaf.say({"claim": {"count": 4}})
    claimed: set[str] = set()
    while len(claimed) < 4:
        view = await monitor.hear()
        claimed |= {view["id"]} if view["status"] == "processing" else set()
    deaf.say({"hello": {}})
    return ids


@pytest.mark.protocol("6.6")
@pytest.mark.parametrize("late", [False, True])
async def test_a_worker_that_reads_too_late_or_never(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed with 1013 where it reads at last, and cut where it does not; its items go to the next at once."""
    if not late:
        monkeypatch.setattr(socket_module, "CLOSE_SECONDS", 0.1)
    async with (
        serving(tmp_path, limits(request_timeout="200ms")) as (server, site),
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work", receive_buffer=4_096) as deaf,
        raw_socket(f"{server.ws_url}/demo/work") as other,
    ):
        ids = await stall(server, deaf, monitor)
        other.say({"claim": {"count": 4, "waitMs": 60_000}})
        if late:
            open_sockets = site.queues["demo"].sockets
            await until(lambda: any(vars(each)["_closing"] is not None for each in open_sockets))
            assert await deaf.closed() == 1013
        taken = [await other.hear() for _ in range(4)]
        assert sorted(item["id"] for item in taken) == sorted(ids)
        assert {item["attempts"] for item in taken} == {2}
        if not late:
            assert await deaf.closed() == 1006
        assert len(site.queues["demo"].sockets) == 2


# ── Connections ──


@pytest.mark.protocol("2.13")
async def test_an_upgrade_is_counted_once_and_each_end_gives_back(tmp_path: Path) -> None:
    """Three fit. However a socket ends, another has its place: closed, cut, thrown out, refused at the door."""
    toml = limits(trusted_proxies=[], connections_per_address=3, bad_messages=1)
    async with serving(tmp_path, toml) as (server, site), AsyncExitStack() as stack:

        async def open_socket(target: str = "/demo/work") -> RawSocket:
            return await stack.enter_async_context(raw_socket(server.ws_url + target))

        async def close(socket: RawSocket) -> None:
            socket.frame(8)
            await socket.closed()

        async def cut(socket: RawSocket) -> None:
            socket.cut()

        async def misbehave(socket: RawSocket) -> None:
            socket.say({"batch": [1, 2, 3]})
            assert await socket.closed() == 1008

        for _ in range(2):
            await greeted(await open_socket())
        ends: list[Callable[[RawSocket], Awaitable[None]]] = [close, cut, misbehave]
        for end in ends * 3:
            await end(await greeted(await open_socket()))
            await until(lambda: len(site.queues["demo"].sockets) == 2)
            for refused, code in (("/members/work", 4401), ("/none/monitor", 4401), ("/demo/work?token=x", 4401)):
                assert await (await open_socket(refused)).closed() == code
        await greeted(await open_socket())
        with pytest.raises((ConnectionError, AssertionError, asyncio.IncompleteReadError)):
            await open_socket()


async def test_who_has_all_its_connections_takes_nobody_elses(tmp_path: Path) -> None:
    """By address, and by token: from wherever it is used, with a ticket of it too. What is refused costs nothing."""
    toml = limits(connections_per_address=5, connections_per_token=2)
    async with (
        serving(tmp_path, toml, "ann", "bob") as (server, _),
        Line(server.base_url) as line,
        AsyncExitStack() as stack,
    ):
        ann, bob = bearer(server.tokens["ann"]), bearer(server.tokens["bob"])

        async def knock(address: str, caller: Caller, target: str = "/demo/monitor") -> int:
            """0 where the socket opens, which then stays, else its close code."""
            headers = caller.named_headers | at(address)
            socket = await stack.enter_async_context(raw_socket(server.ws_url + caller.at(target), headers))
            socket.say({"hello": {}})
            frame = await socket.next()
            return 0 if frame.opcode == TEXT else frame.close_code

        ticket = (await line.ask("POST", "/members/tickets", ann, {})).json["ticket"]
        assert await knock("192.0.2.1", ann, "/members/work") == 0
        assert await knock("192.0.2.2", Caller(f"ticket={ticket}"), "/members/monitor") == 0
        for _ in range(9):
            assert await knock("192.0.2.1", ann) == 1013
        for _ in range(2):
            assert await knock("192.0.2.1", bob) == 0
        for _ in range(2):
            assert await knock("192.0.2.1", Caller()) == 0, "those that the token's limit refused are not the address's"
        assert await knock("192.0.2.1", Caller()) == 1013
        assert await knock("192.0.2.3", Caller()) == 0
        assert (await line.ask("GET", f"/demo/items/{NONE}", ann)).status == 404, "a request is no socket"


# ── Waiting claims ──

WAIT: Final = {"claim": {"waitMs": 60_000}}


async def all_taken(socket: RawSocket) -> bool:
    """Whether a further claim would be one too many; where not, it is withdrawn again, with all others."""
    socket.say({"claim": {"criteria": {"no": "such"}, "waitMs": 60_000}, "ref": "one more"})
    socket.say({"hello": {}})
    first = await socket.hear()
    if first["type"] == "hello":
        return False
    assert (first["code"], (await socket.hear())["type"]) == ("limit", "hello")
    return True


async def test_waiting_claims_are_given_back_when_they_are_over(tmp_path: Path) -> None:
    """Handed out, ended by their time, withdrawn: each way frees as many as it ended, and no more."""
    clock = ManualClock()
    toml = limits(waiting_claims_per_token=2)
    async with (
        serving(tmp_path, toml, clock=clock) as (server, _),
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        for _ in range(2):
            for _ in range(2):
                work.say(WAIT)
            assert await all_taken(work)
            await monitor.ask({"post": {"item": 1}})
            assert (await work.hear())["type"] == "item"
            work.say(WAIT)
            assert await all_taken(work)
            clock.advance(60_000)
            assert [(await work.hear())["type"] for _ in range(2)] == ["empty"] * 2
            work.say({"claim": {"waitMs": 60_000, "count": 2}})
            work.say(WAIT)
            await monitor.ask({"post": {"item": 1}})
            assert (await work.hear())["type"] == "item"
            assert await all_taken(work), "half of what it asked for does not end a claim"
            await monitor.ask({"post": {"item": 1}})
            assert (await work.hear())["type"] == "item"
            work.say(WAIT)
            assert await all_taken(work)
            work.say({"unclaim": True})
            assert [(await work.hear())["type"] for _ in range(2)] == ["empty"] * 2


async def test_claims_that_do_not_wait_are_not_counted(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits(waiting_claims_per_token=1)) as (server, _),
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        work.say(WAIT)
        work.say({"batch": [{"claim": {}}] * 100})
        assert [(await work.hear())["type"] for _ in range(100)] == ["empty"] * 100
        assert await all_taken(work)


async def test_a_claim_that_is_refused_is_not_counted(tmp_path: Path) -> None:
    """Also where it waits already and the server cannot do it after all."""
    async with (
        serving(tmp_path, limits(waiting_claims_per_token=2)) as (server, _),
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        for wrong in ({"criteria": 1}, {"criteria": {"a": {"$no": 1}}}, {"count": 0}, {"worker": 1}):
            assert (await work.ask({"claim": {"waitMs": 60_000} | wrong}))["code"] == "bad-message"
        engine = server.engine("demo")
        engine._store = FaultyStore(engine._store, Faults(at_commit=["full", "full"]))
        for _ in range(2):
            assert (await work.ask(WAIT))["code"] == "unavailable"
        for _ in range(2):
            work.say(WAIT)
        assert await all_taken(work)


async def test_sockets_that_end_give_back_what_waits_once(tmp_path: Path) -> None:
    """Also where items come to them in the very turn that learns of their end, and answers after it."""
    async with (
        serving(tmp_path, limits(waiting_claims_per_token=3)) as (server, site),
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as stays,
    ):
        stays.say({"claim": {"criteria": {"no": "such"}, "waitMs": 60_000}})
        await greeted(stays)
        for number in range(20):
            async with raw_socket(f"{server.ws_url}/demo/work") as goes:
                for _ in range(2):
                    goes.say({"claim": {"criteria": {"n": number}, "waitMs": 60_000}})
                await greeted(goes)
                monitor.say({"batch": [{"post": {"item": {"n": number}}}] * 2})
                goes.cut()
                assert [(await monitor.hear())["type"] for _ in range(2)] == ["posted"] * 2
            await until(lambda: len(site.queues["demo"].sockets) == 2)
            assert list(site.waiting_claims._taken.values()) == [1], "that of the one that stays"
