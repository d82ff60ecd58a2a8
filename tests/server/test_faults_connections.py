"""Sockets and requests that end at the worst moment, stand still, or come too late (`faults.md`, 1, 2, 4, 5, 8, 13)."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.commands import Answer, Command, Drop
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.submission import nobody
from leaseway_server.store.base import Store, Turn
from support.clock import ManualClock
from support.process import server_process
from support.raw import PONG, TEXT, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server
from support.tokens import TokenFile

Message = dict[str, Any]

SHORT = '[server]\nping_interval = "1s"\nping_timeout = "1s"\n' + open_queue(
    lease='"2s"', retry='{ delays = ["1ms"], jitter = 0.0 }'
)
"""Leases so short that a jump of a manual clock over their end does not look like a pause of the process (§7.3)."""
LEASE = 2_000


async def post(server: TestServer, item: object = 1) -> str:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        return str((await monitor.ask({"post": {"item": item}}))["id"])


async def view(server: TestServer, item_id: str) -> Message:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        return dict(await monitor.ask({"subscribe": [item_id]}))


# ── 1. A claim whose client goes away, at every point where the server waits ──


class Gate:
    """A store that stops once, at the await of the number `at`, for whatever is to happen just then."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.passed = 0
        self._at = 0
        self._meanwhile: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def arm(self, at: int, meanwhile: Callable[[], Awaitable[object]]) -> None:
        """Counts from now; `at` 0 stops nowhere."""
        self.passed, self._at, self._meanwhile = 0, at, meanwhile

    async def let_through(self) -> None:
        """One await."""
        self.passed += 1
        if self.passed == self._at and self._meanwhile is not None:
            await self._meanwhile()

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator[Turn]:
        """A transaction, each verb of which passes the gate; and once more when it is committed."""
        async with self.store.turn(durable=durable) as turn:
            yield GatedTurn(turn, self)
        await self.let_through()


class GatedTurn:
    """A turn behind the gate."""

    def __init__(self, turn: Turn, gate: Gate) -> None:
        self._turn = turn
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._turn, name)
        if not callable(verb):
            return verb

        async def gated(*arguments: Any, **options: Any) -> Any:
            await self._gate.let_through()
            return await verb(*arguments, **options)

        return gated


def gate_of(server: TestServer) -> tuple[Gate, asyncio.Event]:
    """The gate before the queue's store, and an event that is set when the engine is told of a lost claimant."""
    engine = server.engine("demo")
    gate = Gate(engine._store)
    engine._store = gate
    lost = asyncio.Event()
    submit = engine.submit

    def note(command: Command, answer: Answer = nobody) -> None:
        submit(command, answer)
        if isinstance(command, Drop) or type(command).__name__ == "Withdraw":
            lost.set()

    engine.submit = note  # type: ignore[method-assign]  # a tap, that tells when the disconnect is known
    return gate, lost


async def claims_cut_at(server: TestServer, gate: Gate, lost: asyncio.Event, at: int) -> int:
    """A claim whose socket is cut at one await. The item must come to the next worker at once. Gives the awaits."""
    item_id = await post(server)
    async with raw_socket(f"{server.ws_url}/demo/work") as doomed, raw_socket(f"{server.ws_url}/demo/work") as next_one:

        async def cut() -> None:
            lost.clear()
            doomed.cut()
            await lost.wait()

        gate.arm(at, cut)
        doomed.say({"claim": {"worker": "doomed"}})
        if not at:
            assert (await doomed.hear())["id"] == item_id
            passed = gate.passed
            doomed.cut()
        item = await next_one.ask({"claim": {"waitMs": 60_000}})
        assert item["id"] == item_id
        seen = await view(server, item_id)
        assert seen["losses"] == item["attempts"] - 1, "a claim that was committed is a loss, another is nothing"
        assert (await next_one.ask({"result": {"id": item_id, "value": at}}))["accepted"]
    return passed if not at else item["attempts"]


@pytest.mark.protocol("4.25")
async def test_a_socket_that_drops_at_any_await_of_a_claim_loses_nothing(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        gate, lost = gate_of(server)
        awaits = await claims_cut_at(server, gate, lost, 0)
        attempts = [await claims_cut_at(server, gate, lost, at) for at in range(1, awaits + 1)]
    assert awaits >= 4
    assert set(attempts) == {2}, "the engine's turn went on, whoever left, and the item was requeued from its lease"


@pytest.mark.protocol("5.41")
async def test_a_request_that_is_left_at_any_await_of_a_claim_is_released_at_once(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        gate, lost = gate_of(server)
        for at in range(1, 6):
            item_id = await post(server)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))

            async def leave(writer: asyncio.StreamWriter = writer) -> None:
                lost.clear()
                writer.transport.abort()
                await lost.wait()

            gate.arm(at, leave)
            writer.write(
                b"POST /demo/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 2\r\n\r\n{}"
            )
            async with raw_socket(f"{server.ws_url}/demo/work") as next_one:
                assert (await reader.read()) == b""
                item = await next_one.ask({"claim": {"waitMs": 60_000}})
                assert (item["id"], item["attempts"]) == (item_id, 2)
                assert (await view(server, item_id))["losses"] == 0
                assert (await next_one.ask({"result": {"id": item_id, "value": at}}))["accepted"]


# ── 2 and 5. What comes too late, and what comes at once ──


@pytest.mark.protocol("1.48")
@pytest.mark.parametrize("end", ["drop", "release", "fail", "lapse"])
async def test_nothing_that_an_old_attempt_says_counts_after_the_next_claim(end: str, tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, SHORT, clock=clock) as server:
        item_id = await post(server)
        async with raw_socket(f"{server.ws_url}/demo/work") as old, raw_socket(f"{server.ws_url}/demo/work") as new:
            assert (await old.ask({"claim": {"worker": "a"}}))["attempts"] == 1
            if end == "drop":
                old.cut()
            elif end == "lapse":
                clock.advance(LEASE)
            else:
                error = {"error": {"message": "no"}, "retryInMs": 0} if end == "fail" else {}
                assert (await old.ask({end: {"id": item_id} | error}))["accepted"]
            new.say({"claim": {"worker": "a", "waitMs": 10_000}})
            clock.advance(1)
            assert (await new.hear())["attempts"] == 2
            async with raw_socket(f"{server.ws_url}/demo/work") as again:
                for speaker in [again] if end == "drop" else [old, again]:
                    await check_stale(speaker, item_id)
            assert (await new.ask({"result": {"id": item_id, "value": "new"}}))["accepted"]
        assert (await view(server, item_id))["result"] == "new"


async def check_stale(socket: RawSocket, item_id: str) -> None:
    """Each report with the old number is answered, and not accepted."""
    old = {"id": item_id, "attempts": 1}
    for verb, more in (
        ("result", {"value": "old"}),
        ("progress", {"value": "old"}),
        ("renew", {}),
        ("release", {}),
        ("fail", {"error": {"message": "old"}}),
    ):
        ack = await socket.ask({verb: old | more})
        assert (ack["type"], ack["accepted"], ack["status"], ack["reason"]) == (
            f"{verb}-ack",
            False,
            "processing",
            "fence",
        )
    resumed = await socket.ask({"resume": {"worker": "a", "leases": [old]}})
    assert [lease["accepted"] for lease in resumed["leases"]] == [False]


@pytest.mark.protocol("7.5")
async def test_a_result_a_drop_and_a_sweep_at_once_give_one_end(tmp_path: Path) -> None:
    """The result comes over a new socket, while the old one drops or its lease ends, and another worker waits."""
    clock = ManualClock()
    ends: Counter[str] = Counter()
    async with running_server(tmp_path, SHORT, clock=clock) as server:
        for number in range(28):
            item_id = await post(server, number)
            async with AsyncExitStack() as stack:
                first, late, second = [
                    await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/work")) for _ in range(3)
                ]
                await first.ask({"claim": {}})
                second.say({"claim": {"waitMs": 600_000}})
                await second.ask({"renew": {"id": item_id}})  # When this is answered, the claim waits.
                result = {"result": {"id": item_id, "attempts": 1, "value": "first"}}
                end: Callable[[], None] = first.cut if number % 2 else partial(clock.advance, LEASE)
                if number % 3 == 0:
                    late.say(result)
                end()
                for _ in range(number % 7):
                    await asyncio.sleep(
                        0
                    )  # So many looks of the event loop later: the order is to come out in all ways.
                if number % 3:
                    late.say(result)
                accepted = (await late.hear())["accepted"]
                second.say({"unclaim": True})
                handed = (await second.hear())["type"] == "item"
                if handed:
                    ack = await second.ask({"result": {"id": item_id, "attempts": 2, "value": "second"}})
                    assert ack["accepted"] != accepted, "one result counts, not two, and not none"
                else:
                    assert accepted
            seen = await view(server, item_id)
            assert (seen["status"], seen["result"]) == ("finished", "first" if accepted else "second")
            ends[f"{handed} {accepted}"] += 1
    assert len(ends) > 1, f"the races went only one way: {ends}"


# ── 4. A monitor that stands still ──


@pytest.mark.protocol("3.13", "3.14", "3.15")
async def test_a_monitor_that_never_reads_costs_its_subscriptions_and_no_more(tmp_path: Path) -> None:
    """20,000 changes: others see them at once, memory stays flat, and when it reads again it gets the newest states."""
    async with server_process(tmp_path, open_queue()) as server, AsyncExitStack() as stack:
        stalled = await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/monitor", receive_buffer=4_096))
        monitor = await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/monitor"))
        worker = await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/work"))
        await worker.ask({"hello": {"batch": True}})
        ids = [(await monitor.ask({"post": {"item": number}}))["id"] for number in range(20)]
        stalled.say({"subscribe": ids})
        monitor.say({"subscribe": ids[-1:]})
        worker.say({"claim": {"count": 20}})
        assert len(await worker.hear_all(20)) == 20
        await changes(worker, ids, range(100))  # So many that the buffers between us are full.
        before = server.memory()
        await changes(worker, ids, range(100, 1_100))
        while (await monitor.hear())["progress"] != {"step": 1_099, "filling": "x" * 200}:
            pass
        assert server.memory() - before < 16 * 1024 * 1024
        newest: dict[str, Message] = {}
        heard = 0
        while len(newest) < 20 or any(view["progress"]["step"] != 1_099 for view in newest.values()):
            message = await stalled.hear()
            heard += 1
            assert message["rev"] > newest.get(message["id"], {"rev": 0})["rev"], "an older state came later"
            if message["progress"]:
                newest[message["id"]] = message
        assert heard < 20_000, "nothing was conflated, so the test has not shown what it is for"


async def changes(worker: RawSocket, ids: list[str], steps: range) -> None:
    """A progress record for each item and step, and all acks."""
    for step in steps:
        value = {"step": step, "filling": "x" * 200}
        worker.say({"batch": [{"progress": {"id": item_id, "value": value}} for item_id in ids]})
        assert all(ack["accepted"] for ack in await worker.hear_all(len(ids)))


# ── 8. Half-open, and 13. thrown out ──


async def test_the_items_of_a_worker_that_vanished_come_back_within_the_pings(tmp_path: Path) -> None:
    toml = '[server]\nping_interval = "200ms"\nping_timeout = "300ms"\n' + open_queue()
    async with running_server(tmp_path, toml) as server:
        await post(server)
        async with (
            raw_socket(f"{server.ws_url}/demo/work") as vanished,  # It answers no ping.
            raw_socket(f"{server.ws_url}/demo/work") as waiting,
        ):
            assert (await vanished.ask({"claim": {}}))["attempts"] == 1
            waiting.say({"claim": {"waitMs": 60_000}})
            async with asyncio.timeout(0.2 + 0.3 + 1.0):
                answering = asyncio.create_task(answer_pings(waiting))
                item = await answering
            assert item["attempts"] == 2
            assert await vanished.closed() in (1006, 1011)


async def answer_pings(socket: RawSocket) -> Message:
    """Pongs until a message comes."""
    while (frame := await socket.next()).opcode != TEXT:
        socket.frame(PONG, frame.data)
    return dict(json.loads(frame.data))


@pytest.mark.protocol("2.17")
@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_token_that_ends_takes_its_sockets_with_it(how: str, tmp_path: Path) -> None:
    clock = ManualClock()
    toml = '[queues.demo]\naccess = { post = "open", fetch = "open", work = "users" }\n'
    async with running_server(tmp_path, toml, users={"box": []}, clock=clock) as server:
        data = tmp_path / "data"
        with TokenFile(data) as store:
            token, secret = store.add("box", None, None, clock.now() + 1_000 if how == "expired" else 0, 0)
        item_id = await post(server)
        async with (
            raw_socket(f"{server.ws_url}/demo/work?token={secret}") as doomed,
            raw_socket(f"{server.ws_url}/demo/monitor?token={secret}") as monitor,
            raw_socket(f"{server.ws_url}/demo/work?token={server.tokens['box']}") as other,
        ):
            assert (await doomed.ask({"claim": {}}))["id"] == item_id
            monitor.say({"subscribe": [item_id]})
            assert (await monitor.hear())["status"] == "processing"
            other.say({"claim": {"waitMs": 60_000}})
            if how == "revoked":
                with TokenFile(data) as store:
                    assert store.revoke(token.id)
            else:
                clock.advance(1_000)
            async with asyncio.timeout(5):  # PROTOCOL.md §2
                assert await doomed.closed() == 4401
                assert await monitor.closed() == 4401
            assert (await other.hear())["attempts"] == 2


# ── A fault in the server's own handling of one message ──


class FaultyDice(Clock):
    """A clock whose chance fails: a fault in the middle of handling a `fail`."""

    def chance(self) -> float:
        """Never comes."""
        raise RuntimeError("the dice are gone")


@pytest.mark.protocol("6.4", "7.9")
async def test_a_fault_in_a_message_ends_its_socket_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path, clock=FaultyDice()) as server:
        item_id = await post(server)
        async with (
            raw_socket(f"{server.ws_url}/demo/work") as doomed,
            raw_socket(f"{server.ws_url}/demo/work") as other,
        ):
            await doomed.ask({"claim": {}})
            other.say({"claim": {"waitMs": 60_000}})
            doomed.say({"fail": {"id": item_id, "error": {"message": "no"}}})
            assert await doomed.closed() == 1011
            assert (await other.hear())["attempts"] == 2
            assert (await other.ask({"result": {"id": item_id, "value": 1}}))["accepted"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["a socket failed"]
