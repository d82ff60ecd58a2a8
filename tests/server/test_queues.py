"""What the transcripts do not tell of a queue's own page of facts, its pause, its attempts and its retention."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from leaseway_schemas import example
from support.clock import ManualClock
from support.logged import logged
from support.matrix import NONE, Line, bearer
from support.process import server_process
from support.raw import raw_socket
from support.server import open_queue, resize_queue, running_server
from support.tokens import TokenFile
from support.wire import check_http

# ── Facts ──


@pytest.mark.protocol("5.42", "5.45", "5.82", "5.112")
async def test_the_facts_are_those_of_the_configuration(tmp_path: Path) -> None:
    toml = "[server]\nmax_message_bytes = 2_000_000\nlimits.subscriptions = 5\nlimits.ids_per_message = 6\n"
    queue = resize_queue(lease='"90s"', max_bulk_items="11", max_pending="7")
    async with running_server(tmp_path, toml + queue) as server, Line(server.base_url) as line:
        answer = await line.ask("GET", "/resize")
        check_http("queue", answer.json)
        assert answer.json == {
            "queue": "resize",
            "paused": False,
            "counts": dict.fromkeys(("pending", "processing", "finished", "failed", "dead", "cancelled", "expired"), 0),
            "oldestReadyAt": None,
            "rights": ["post", "fetch", "work", "admin"],
            "leaseMs": 90_000,
            "limits": {
                "maxMessageBytes": 2_000_000,
                "maxValueBytes": 2_000_000 - 128 * 1024,
                "maxBatch": 1_000,
                "maxIds": 6,
                "maxSubscriptions": 5,
                "maxCount": 1_000,
                "maxWaitMs": 600_000,
                "maxBulkItems": 11,
                "maxPending": 7,
            },
            "schemas": {kind: example("resize", kind) for kind in ("item", "progress", "result")},
        }
        for kind in ("item", "progress", "result"):
            assert (await line.ask("GET", f"/resize/schemas/{kind}.json")).json == example("resize", kind)
        head = await line.ask("HEAD", "/resize")
        assert (head.status, head.body) == (200, b"")


@pytest.mark.protocol("5.119", "5.120")
async def test_the_oldest_that_is_ready(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, Line(server.base_url) as line:

        async def post(**options: Any) -> dict[str, Any]:
            answer = await line.ask("POST", "/demo/items", body={"item": 1, **options})
            return dict(answer.json)

        async def oldest() -> Any:
            answer = await line.ask("GET", "/demo")
            check_http("queue", answer.json)
            return answer.json["oldestReadyAt"]

        await post(delayMs=3_600_000)
        assert await oldest() is None, "what is not due is not ready"
        first, _ = await post(), await post(priority=9)
        assert await oldest() == first["dueAt"], "whatever its priority"
        for _ in range(2):
            await line.ask("POST", "/demo/claim", body={})
        assert await oldest() is None, "what is held does not wait"


@pytest.mark.protocol("5.115")
async def test_a_queue_without_schemas_has_none_to_show(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "item.json").write_text("true")
    toml = open_queue() + open_queue("other", schemas='"some"')
    async with running_server(tmp_path, toml) as server, Line(server.base_url) as line:
        for kind in ("item", "progress", "result"):
            problem = await line.ask("GET", f"/demo/schemas/{kind}.json")
            assert (problem.status, problem.json["code"]) == (404, "not-found")
            assert kind in problem.json["detail"]
        assert (await line.ask("GET", "/other/schemas/item.json")).json is True, "a schema may be a boolean"
        assert (await line.ask("GET", "/other/schemas/result.json")).status == 404


@pytest.mark.protocol("5.111")
async def test_who_administers_the_server_is_read_anew(tmp_path: Path) -> None:
    toml = '[server]\nadmins = ["ann"]\n[queues.closed]\naccess = { post = [], fetch = [], work = [] }\n'
    async with (
        running_server(tmp_path, toml, users={"ann": [], "bob": []}) as server,
        Line(server.base_url) as line,
    ):
        everything = {"queues": [{"queue": "closed", "rights": []}]}
        callers = {user: bearer(token) for user, token in server.tokens.items()}
        for admin, other in (("ann", "bob"), ("bob", "ann")):
            assert (await line.ask("GET", "/_queues", callers[admin])).json == everything
            assert (await line.ask("GET", "/_queues", callers[other])).json == {"queues": []}
            assert (await line.ask("GET", "/closed", callers[admin])).status == 404, "it gives no right"
            file = tmp_path / "leaseway.toml"
            file.write_text(file.read_text().replace(f'["{admin}"]', f'["{other}"]'))
            server.running.reload()


async def test_a_token_whose_time_is_over_is_told_of_no_queue(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue(), users={"ann": []}) as server, Line(server.base_url) as line:
        ann = bearer(server.tokens["ann"])
        assert len((await line.ask("GET", "/_queues", ann)).json["queues"]) == 1
        with TokenFile(tmp_path / "data") as store:
            assert store.revoke(store.all()[0].id)
        assert server.running.site is not None
        await server.running.site.refresh()
        assert (await line.ask("GET", "/_queues", ann)).status == 401


# ── The pause ──


async def test_a_pause_is_in_the_audit_log_once_with_who_did_it(tmp_path: Path) -> None:
    toml = '[queues.demo]\naccess = { admin = ["root"] }\n'
    async with running_server(tmp_path, toml, users={"root": []}) as server, Line(server.base_url) as line:
        root = bearer(server.tokens["root"])
        with logged() as log:
            for verb in ("pause", "pause", "unpause", "unpause"):
                assert (await line.ask("POST", f"/demo/{verb}", root)).status == 200
        told = [entry for entry in log.entries if entry["event"].startswith("admin.")]
        assert [entry["event"] for entry in told] == ["admin.queue_paused", "admin.queue_unpaused"]
        assert all((entry["by"], entry["queue"]) == ("root", "demo") and entry["token_id"] for entry in told)


async def test_a_pause_asks_for_no_body_and_minds_none(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False, timeout=30) as http,
    ):
        for body in (b"", b"{", b"null", b'{"paused": false}', b"\xff" * 100_000):
            for verb in ("pause", "unpause"):
                answer = await http.post(f"/demo/{verb}?paused=no", content=body)
                assert (answer.status_code, answer.json()["paused"]) == (200, verb == "pause"), body


@pytest.mark.protocol("5.46")
async def test_claims_wait_through_a_pause_on_sockets_and_over_http(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path) as server,
        Line(server.base_url) as line,
        Line(server.base_url) as other,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        assert (await line.ask("POST", "/demo/pause")).json == {"queue": "demo", "paused": True}
        work.say({"claim": {"waitMs": 60_000}})
        work.say({"claim": {}, "ref": 1})
        assert await work.hear() == {"type": "empty", "ref": 1}
        posted = (await line.ask("POST", "/demo/items", body={"item": 1})).json
        assert posted["status"] == "pending"
        assert (await other.ask("POST", "/demo/claim", body={"count": 2})).json == [{"type": "empty"}]
        assert (await line.ask("POST", "/demo/unpause")).json == {"queue": "demo", "paused": False}
        assert (await work.hear())["id"] == posted["id"]


@pytest.mark.protocol("5.48")
async def test_a_pause_survives_a_kill(tmp_path: Path) -> None:
    async with (
        server_process(tmp_path, open_queue()) as server,
        httpx.AsyncClient(trust_env=False, timeout=30) as http,
    ):
        for paused in (True, False):
            verb = "pause" if paused else "unpause"
            assert (await http.post(f"{server.base_url}/demo/{verb}")).json()["paused"] is paused
            item = (await http.post(f"{server.base_url}/demo/items", json={"item": 1})).json()["id"]
            await server.kill()
            await server.start()
            facts = (await http.get(f"{server.base_url}/demo")).json()
            assert facts["paused"] is paused
            assert facts["counts"]["pending"] == 1
            claimed = (await http.post(f"{server.base_url}/demo/claim", json={})).json()
            assert claimed["type"] == ("empty" if paused else "item")
            cancelled = await http.post(f"{server.base_url}/demo/items/{item}/cancel")
            assert cancelled.status_code == 200


# ── Attempts and retention ──


async def test_attempts_of_what_is_no_item_are_not_found(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, Line(server.base_url) as line:
        for item_id in (NONE, NONE.upper(), "x", "%00", "%ff%fe", "f" * 5_000):
            answer = await line.ask("GET", f"/demo/items/{item_id}/attempts")
            assert (answer.status, answer.json["code"]) == (404, "not-found")


async def test_what_was_pruned_is_not_there_and_its_watchers_hear_nothing_more(tmp_path: Path) -> None:
    clock = ManualClock()
    toml = open_queue(keep='{ cancelled = "10s" }')
    async with (
        running_server(tmp_path, toml, clock=clock) as server,
        Line(server.base_url) as line,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        gone, stays = [(await line.ask("POST", "/demo/items", body={"item": n})).json["id"] for n in range(2)]
        monitor.say({"subscribe": [gone, stays]})
        assert [(await monitor.hear())["id"] for _ in range(2)] == [gone, stays]
        assert (await line.ask("POST", f"/demo/items/{gone}/cancel")).status == 200
        assert (await monitor.hear())["status"] == "cancelled"
        assert (await status_of(line, gone)) == "cancelled"
        clock.advance(15_000)
        assert await status_of(line, stays) == "pending", "whoever asks for it, that turn has it go"
        assert await status_of(line, gone) is None
        for path in ("/item", "/attempts", "?waitMs=60000"):
            assert (await line.ask("GET", f"/demo/items/{gone}{path}")).status == 404
        again = (await line.ask("POST", f"/demo/items/{gone}/cancel")).status
        assert again == 404
        assert (await line.ask("GET", "/demo")).json["counts"]["cancelled"] == 0
        monitor.say({"subscribe": [gone]})
        assert (await line.ask("POST", f"/demo/items/{stays}/cancel")).status == 200
        assert (await monitor.hear())["id"] == stays


async def test_a_shorter_time_in_the_file_counts_for_what_ended_before(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, open_queue(keep='{ failed = "1d" }'), clock=clock) as server,
        Line(server.base_url) as line,
    ):
        item = (await line.ask("POST", "/demo/items", body={"item": 1})).json["id"]
        await line.ask("POST", "/demo/claim", body={})
        fail = {"id": item, "attempts": 1, "error": {"message": "no"}, "retryable": False}
        assert (await line.ask("POST", "/demo/fail", body=fail)).json["status"] == "failed"
        file = tmp_path / "leaseway.toml"
        file.write_text(file.read_text().replace('"1d"', '"5s"'))
        with logged() as log:
            server.running.reload()
        assert log.entry["changed"] == "queues.demo.keep.failed"
        clock.advance(10_000)
        await status_of(line, NONE)
        assert await status_of(line, item) is None


async def status_of(line: Line, item_id: str) -> Any:
    """The status of an item over HTTP; None where it is not there."""
    answer = await line.ask("GET", f"/demo/items/{item_id}")
    return answer.json["status"] if answer.status == 200 else None
