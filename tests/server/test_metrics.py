"""`GET /_metrics`: who may ask, what is counted, and that nothing of what clients send is in it (docs/metrics.md)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leaseway_server.core.commands import Answer, Command, Oldest
from leaseway_server.core.errors import LeasewayError, Refused
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.runtime.submission import nobody
from leaseway_server.web import oldest as oldest_module
from leaseway_server.web.meters import Histogram, Talk, Traffic, TurnMeter
from support.logged import logged
from support.matrix import LIMITS, NONE, Cast, Line, bearer, rows
from support.matrix import Answer as Answered
from support.model import NOW, POLICY
from support.plain_http import exchange, request
from support.raw import CLOSE, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

TOML: Final = (
    LIMITS.replace("[server]\n", '[server]\nadmins = ["root", "reader"]\n') + open_queue() + "[queues.other]\n"
)
FAR: Final = "X-Forwarded-For: 192.0.2.7"


class Desk:
    """A server, and somebody on its machine who looks at the metrics."""

    def __init__(self, server: TestServer, line: Line) -> None:
        self.server = server
        self.line = line
        self.port = int(server.base_url.rpartition(":")[2])

    async def text(self) -> str:
        """All that is told."""
        answer = await self.line.ask("GET", "/_metrics")
        assert answer.status == 200, answer
        assert answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
        return answer.body.decode()

    async def samples(self) -> dict[tuple[str, ...], float]:
        """Each sample by its name and the values of its labels, these in the order of their names."""
        families = text_string_to_metric_families(await self.text())
        samples = [sample for family in families for sample in family.samples]
        return {(each.name, *(value for _, value in sorted(each.labels.items()))): each.value for each in samples}

    async def of(self, name: str) -> dict[Any, float]:
        """The samples of one name that are not 0, by the values of their labels; a single one by itself."""
        found = {key[1:]: value for key, value in (await self.samples()).items() if key[0] == name and value}
        return {key[0] if len(key) == 1 else key: value for key, value in found.items()}

    async def ask(self, method: str, path: str, body: object = None) -> Answered:
        """A request to the queue that is open."""
        return await self.line.ask(method, f"/demo{path}", body=body)

    def socket(self, kind: str) -> Any:
        """A further socket."""
        return raw_socket(f"{self.server.ws_url}/demo/{kind}")


@asynccontextmanager
async def desk(folder: Path, toml: str = TOML) -> AsyncIterator[Desk]:
    async with running_server(folder, toml) as server, Line(server.base_url) as line:
        yield Desk(server, line)


# ── Who may ask ──

WHO: Final = """
who              here far
nobody           200  401
invalid          401  401
alice            200  403
alice:elsewhere  200  403
alice:admin      200  403
root             200  200
root:admin       200  200
root:post        200  403
root:fetch       200  403
reader           200  200
reader:work      200  403
"""


@pytest.mark.protocol("5.53")
async def test_who_may_ask(tmp_path: Path) -> None:
    wrong = []
    async with desk(tmp_path) as at:
        cast = Cast(tmp_path / "data")
        with logged() as log:
            for kind, cells in rows(WHO):
                for name, caller in cast.callers[kind].items():
                    for where, headers in (("here", ()), ("far", (FAR,))):
                        answer = await at.line.ask("GET", "/_metrics", caller, headers=headers)
                        if answer.status != int(cells[where]) or (b"leaseway_" in answer.body) is not (
                            answer.status == 200
                        ):
                            wrong.append(f"{kind} ({name}) {where}: {answer}")
    assert not wrong, "\n".join(wrong)
    refused = [entry for entry in log.entries if entry["event"] == "access.refused"]
    assert {(entry["queue"], entry["right"]) for entry in refused if "queue" in entry} == {("_metrics", "admin")}
    assert "unauthorized" in {entry["reason"] for entry in refused}, "as many as are told of one address"


@pytest.mark.protocol("5.53")
async def test_a_token_that_is_narrowed_to_a_queue_is_not_for_the_server(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        assert at.server.running.site is not None
        _, secret = await at.server.running.site.tokens.add("root", frozenset({"demo"}), None, 0, 0)
        assert (await at.line.ask("GET", "/_metrics", bearer(secret), headers=[FAR])).status == 403


@pytest.mark.protocol("5.53")
@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For: 127.0.0.1", "x-forwarded-for: ", "X-Forwarded-Proto: https", "X-Forwarded-Host: localhost",
        "Forwarded: for=127.0.0.1", "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1",
    ],
)  # fmt: skip
async def test_what_a_proxy_passes_on_is_not_from_this_machine(header: str, tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        assert (await at.line.ask("GET", "/_metrics", headers=[header])).status == 401


@pytest.mark.protocol("5.53")
@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:80", 200), ("evil.example", 401), ("192.0.2.7", 401), ("", 401)],
)
async def test_a_page_under_another_name_is_not_this_machine(host: str, status: int, tmp_path: Path) -> None:
    """A name that an attacker's DNS leads to loopback: the browser sends no origin with a page's own GET."""
    async with desk(tmp_path) as at:
        assert (await exchange(at.port, request("GET /_metrics", host))).status == status
        two = request("GET /_metrics", host, "Host: evil.example")
        assert (await exchange(at.port, two)).status in (400, 401)


async def test_invalid_tokens_are_limited_here_too(tmp_path: Path) -> None:
    async with desk(tmp_path, TOML.replace("1_000_000", "3")) as at:
        statuses = [(await at.line.ask("GET", "/_metrics", bearer("lw_wrong"))).status for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert (await at.line.ask("GET", "/_metrics")).status == 200, "who needs none is let in"


async def test_administrators_may_change_while_it_runs(tmp_path: Path) -> None:
    async with running_server(tmp_path, TOML, users={"root": [], "new": []}) as server, Line(server.base_url) as line:

        async def statuses() -> list[int]:
            callers = [bearer(server.tokens[user]) for user in ("root", "new")]
            return [(await line.ask("GET", "/_metrics", caller, headers=[FAR])).status for caller in callers]

        assert await statuses() == [200, 403]
        file = tmp_path / "leaseway.toml"
        file.write_text(file.read_text().replace('["root", "reader"]', '["new"]'))
        server.running.reload()
        assert await statuses() == [403, 200]


async def test_only_get(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        assert (await at.line.ask("HEAD", "/_metrics")).status == 200
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await at.line.ask(method, "/_metrics")).status == 405
        for path in ("/_metrics/", "/_metrics/x", "/_METRICS", "/demo/_metrics"):
            assert (await at.line.ask("GET", path)).status == 404, path


# ── What is counted ──


async def finish(worker: RawSocket) -> None:
    """An item is claimed and finished."""
    item = await worker.ask({"claim": {}})
    assert (await worker.ask({"result": {"id": item["id"], "value": 1}}))["accepted"]


async def test_the_way_of_items(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        ids = [(await at.ask("POST", "/items", {"item": 1})).json["id"] for _ in range(6)]
        assert await at.of("leaseway_posts_total") == {"demo": 6}
        assert await at.of("leaseway_items") == {("demo", "pending"): 6}
        assert (await at.of("leaseway_oldest_ready_seconds"))["demo"] > 0
        assert await at.of("leaseway_writable") == {"demo": 1, "other": 1}
        async with at.socket("work") as worker:
            await finish(worker)
            item = await worker.ask({"claim": {}})
            await worker.ask({"fail": {"id": item["id"], "error": {"message": "no"}, "retryable": False}})
            item = await worker.ask({"claim": {}})
            await worker.ask({"fail": {"id": item["id"], "error": {"message": "no"}, "retryInMs": 60_000}})
            item = await worker.ask({"claim": {}})
            await worker.ask({"release": {"id": item["id"], "delayMs": 60_000}})
            await worker.ask({"claim": {}})
            assert (await at.ask("POST", f"/items/{ids[5]}/cancel")).status == 200
            worker.say({"claim": {"waitMs": 60_000}})
            await worker.ask({"ref": "read by now"})
            samples = await at.samples()
        assert samples["leaseway_claims_total", "demo"] == 5
        assert samples["leaseway_leases", "demo"] == samples["leaseway_items", "demo", "processing"] == 1
        assert samples["leaseway_items", "demo", "pending"] == 2
        assert samples["leaseway_waiting_claims", "demo"] == 1
        assert samples["leaseway_oldest_ready_seconds", "demo"] == 0, "what is due later does not wait"
        ends = {("demo", "finished"): 1, ("demo", "failed"): 1, ("demo", "cancelled"): 1}
        assert await at.of("leaseway_ends_total") == ends
        await lost(at)
        requeues = {("failed", "demo"): 1, ("released", "demo"): 1, ("lost", "demo"): 1}
        assert await at.of("leaseway_requeues_total") == requeues


async def lost(at: Desk) -> None:
    """Until the socket that was closed holds nothing any more."""
    while await at.of("leaseway_leases"):
        pass


async def test_turns_and_commits(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        before = await at.samples()
        for _ in range(5):
            await at.ask("POST", "/items", {"item": 1})
        after = await at.samples()

        def rise(*key: str) -> float:
            return after[key] - before[key]

        assert rise("leaseway_commit_seconds_count", "demo") == 5
        assert rise("leaseway_commit_seconds_sum", "demo") > 0
        assert rise("leaseway_commit_seconds_bucket", "+Inf", "demo") == 5
        assert rise("leaseway_turn_seconds_count", "demo") == rise("leaseway_turn_commands_sum", "demo") >= 6
        assert rise("leaseway_turn_seconds_sum", "demo") > rise("leaseway_commit_seconds_sum", "demo")
        assert rise("leaseway_commit_seconds_count", "other") == 0, "what only reads is not synced"


async def test_sockets_and_what_they_say(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        async with at.socket("work") as worker, at.socket("monitor") as monitor, at.socket("monitor") as other:
            await worker.ask({"hello": {}})
            await monitor.ask({"batch": [{"hello": {}}, {"nonsense": 1}, {"post": {"item": 1, "subscribe": "x"}}]})
            for _ in range(2):
                await monitor.hear()
            await other.ask({"hello": {}})
            assert await at.of("leaseway_sockets") == {("work", "demo"): 1, ("monitor", "demo"): 2}
            received = {("work", "demo"): 1, ("monitor", "demo"): 4}
            assert await at.of("leaseway_messages_received_total") == received
            refused = {("bad-message", "monitor"): 2}
            assert await at.of("leaseway_refused_total") == refused
            for socket in (worker, monitor, other):
                socket.frame(CLOSE, b"\x03\xe8")
                await socket.closed()
        assert await at.of("leaseway_messages_received_total") == received, "what was said stays said"
        assert await at.of("leaseway_refused_total") == refused
        assert sum((await at.of("leaseway_messages_sent_total")).values()) == 5
        assert await at.of("leaseway_sockets") == {}
        assert await at.of("leaseway_sockets_closed_total") == {("1000", "work"): 1, ("1000", "monitor"): 2}


async def test_what_is_not_taken_by_a_client_is_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        item_id = (await at.ask("POST", "/items", {"item": 1, "meta": {"x": "y" * 1_900}})).json["id"]
        async with at.socket("monitor") as deaf:
            for _ in range(20):
                deaf.say({"batch": [{"subscribe": [item_id]}] * 500})
            while not (await at.of("leaseway_unsent_bytes")).get(("monitor", "demo"), 0):
                pass


async def test_what_is_refused_over_http_and_at_the_door(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.ask("POST", "/items", {})
        await at.ask("GET", f"/items/{NONE}")
        await at.ask("PUT", "/items")
        await at.line.ask("GET", "/nowhere/at/all")
        await at.line.ask("POST", "/other/items", body={"item": 1})
        await at.line.ask("GET", "/_health", headers=["Origin: https://evil.example"])
        async with raw_socket(f"{at.server.ws_url}/other/work") as refused:
            assert await refused.closed() == 4401
        assert await at.of("leaseway_refused_total") == {
            ("bad-message", "http"): 2,
            ("not-found", "http"): 2,
            ("unauthorized", "http"): 1,
            ("not-allowed", "http"): 1,
            ("unauthorized", "work"): 1,
        }
        assert await at.of("leaseway_sockets_closed_total") == {("4401", "work"): 1}
        long = await exchange(at.port, request("GET /_health", "x", f"X-Filling: {'x' * 100_000}"))
        assert long.status == 431
        assert await at.of("leaseway_connections_cut_total") == {"431": 1}


# ── What is never in it ──


async def test_nothing_that_a_client_sends_makes_a_series(tmp_path: Path) -> None:
    secret = "canary"
    async with desk(tmp_path) as at:
        for number in range(30):
            name = f"{secret}-{number}"
            for path in (f"/{name}/items", f"/demo/items/{name}", f"/demo/{name}", f"/_{name}"):
                await at.line.ask("GET", path, headers=[f"X-Request-Id: {name}", f"Origin: http://{name}"])
            async with at.socket("work") as worker:
                worker.say({"hello": {"worker": name, "client": name, "labels": {name: name}}})
                worker.say({name: name, "ref": name})
                worker.say({"claim": {"worker": name, "criteria": {name: {f"${name}": 1}}}})
                worker.frame(CLOSE, (3_000 + number).to_bytes(2, "big") + name.encode())
                await worker.closed()
        assert await at.of("leaseway_sockets_closed_total") == {("other", "work"): 30}
        text = await at.text()
        assert secret not in text
        codes = {kind.code for kind in _kinds(Refused)}
        assert {key[0] for key in await at.of("leaseway_refused_total")} <= codes
        assert len(text.splitlines()) < 300


def _kinds(kind: type[LeasewayError]) -> Iterator[type[Refused]]:
    assert issubclass(kind, Refused)
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


async def test_servers_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with desk(tmp_path / "a") as one, desk(tmp_path / "b", open_queue("mine")) as other:
        await one.ask("POST", "/items", {"item": 1})
        assert await one.of("leaseway_posts_total") == {"demo": 1}
        assert await other.of("leaseway_posts_total") == {}
        assert 'queue="mine"' in await other.text()
        assert 'queue="demo"' not in await other.text()


# ── In trouble ──


@pytest.mark.protocol("5.120")
async def test_an_engine_that_is_stuck_does_not_keep_the_rest_from_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oldest_module, "PATIENCE_SECONDS", 0.01)
    async with desk(tmp_path) as at:
        await at.ask("POST", "/items", {"item": 1})
        engine = at.server.engine("demo")
        submit = engine.submit

        def stuck(command: Command, answer: Answer = nobody) -> None:
            if not isinstance(command, Oldest):
                submit(command, answer)

        monkeypatch.setattr(engine, "submit", stuck)
        samples = await at.samples()
        assert ("leaseway_oldest_ready_seconds", "demo") not in samples
        assert samples["leaseway_writable", "demo"] == 1
        facts = (await at.ask("GET", "")).json
        assert (facts["oldestReadyAt"], facts["counts"]["pending"]) == (None, 1)


async def test_an_engine_that_fails_at_it_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path) as at:

        async def fail(_turn: object) -> int:
            raise RuntimeError("it is gone")

        with logged():
            monkeypatch.setattr("leaseway_server.store.sqlite.turn.SqliteTurn.oldest_ready", fail)
            samples = await at.samples()
        assert ("leaseway_oldest_ready_seconds", "demo") not in samples
        assert ("leaseway_items", "demo", "pending") in samples


# ── The meters themselves ──


def test_a_histogram_counts_by_the_first_bound_that_a_value_does_not_pass() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 2.1, 100.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.sum) == ([2, 2, 2], 106.6)


def test_a_meter_times_turns_and_synced_commits() -> None:
    times = iter([10.0, 12.0, 15.0, 20.0, 21.0, 21.5])
    meter = TurnMeter(lambda: next(times))
    for commands, durable in ((3, True), (1, False)):
        meter.began()
        meter.committing()
        meter.committed(commands, durable)
    assert (meter.turns.sum, meter.commits.sum, sum(meter.commits.counts)) == (6.5, 3.0, 1)
    assert (meter.commands.sum, sum(meter.commands.counts)) == (4, 2)


def item(**members: Any) -> Item:
    made = create(NewItem("1"), NONE, 1, NOW, POLICY)
    for name, value in members.items():
        setattr(made, name, value)
    return made


HELD: Final = {"status": "processing", "attempts": 1, "ending": "open"}


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (None, {}, "posted"),
        (None, HELD, "posted claimed"),
        (None, HELD | {"status": "finished"}, "posted claimed finished"),
        ({}, {"status": "cancelled"}, "cancelled"),
        ({}, HELD, "claimed"),
        ({}, {"ready": 0}, ""),
        (HELD, HELD | {"rev": 9}, ""),
        (HELD, HELD | {"status": "finished"}, "finished"),
        ({"attempts": 1}, {"attempts": 1, "status": "finished"}, "finished"),
        (HELD, {"attempts": 1, "losses": 1, "ending": "lost"}, "lost"),
        (HELD, HELD | {"attempts": 2, "losses": 1}, "claimed lost"),
        (HELD, {"attempts": 1, "failures": 1, "ending": "failed"}, "failed"),
        (HELD, HELD | {"attempts": 2, "failures": 1}, "claimed failed"),
        (HELD, {"attempts": 1, "ending": "released"}, "released"),
        (HELD, {"attempts": 1, "ending": "parted"}, "parted"),
        (HELD, HELD | {"attempts": 2}, "claimed released"),
        (HELD, {"attempts": 1, "losses": 5, "status": "dead"}, "dead"),
        ({"status": "dead"}, {"status": "pending"}, ""),
        ({"status": "dead"}, HELD, "claimed"),
        ({"status": "dead"}, {"status": "dead", "fetched_at": 5}, ""),
    ],
)
def test_what_a_change_counts_as(before: dict[str, Any] | None, after: dict[str, Any], counted: str) -> None:
    meter = TurnMeter()
    meter.changed([(None if before is None else item(**before), item(**after))])
    found = ["posted"] * meter.posted + ["claimed"] * meter.claimed
    assert [*found, *(+meter.ended).elements(), *(+meter.requeued).elements()] == counted.split()


def test_traffic_adds_up_and_knows_no_code_but_ours() -> None:
    traffic = Traffic()
    for talk in (Talk(2, 3, 5, {"limit": 1}), Talk(1, 1, 0, {"limit": 2, "schema": 1})):
        traffic.add("demo", "work", talk)
    traffic.refuse("work", "limit")
    for code in (1000, 1012, 4999, 0, None):
        traffic.close("work", code)
    assert (traffic.received, traffic.sent) == ({("demo", "work"): 3}, {("demo", "work"): 4})
    assert traffic.refused == {("work", "limit"): 4, ("work", "schema"): 1}
    assert traffic.closed == {("work", "1000"): 1, ("work", "1012"): 1, ("work", "other"): 3}
