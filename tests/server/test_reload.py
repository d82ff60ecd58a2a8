"""Reading the configuration anew while it runs: all or nothing, at once, and without loss (docs/configuration.md).

Which key is of which kind is told by `test_config_changes.py`.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.commands import Post
from leaseway_server.core.model import NewItem
from support.clock import ManualClock
from support.logged import Logged, logged
from support.matrix import NONE, Caller, Line, bearer
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

OTHERS: Final = "[queues.other]\n"
"""So that not all queues are open, and a caller without a token is asked for one."""


class Desk:
    """A server whose file an operator changes."""

    def __init__(self, server: TestServer, line: Line, clock: ManualClock, folder: Path, stack: AsyncExitStack) -> None:
        self.server = server
        self.line = line
        self.clock = clock
        self.file = folder / "leaseway.toml"
        self._stack = stack

    def change(self, old: str, new: str) -> None:
        """The file says something else; it is read."""
        text = self.file.read_text()
        assert text.count(old) == 1, text
        self.file.write_text(text.replace(old, new))
        self.server.running.reload()

    async def socket(self, kind: str, user: str = "", queue: str = "demo") -> RawSocket:
        """A further socket."""
        headers = bearer(self.server.tokens[user]).named_headers if user else {}
        return await self._stack.enter_async_context(raw_socket(f"{self.server.ws_url}/{queue}/{kind}", headers))

    async def post(self, item: object = 1, status: int = 201) -> str:
        """Posts without a token; "" where it is refused as it should be."""
        answer = await self.line.ask("POST", "/demo/items", body={"item": item})
        assert answer.status == status, answer
        return str(answer.json.get("id", ""))


@asynccontextmanager
async def desk(folder: Path, toml: str, *users: str) -> AsyncIterator[Desk]:
    clock = ManualClock()
    async with (
        running_server(folder, toml, users={user: [] for user in users}, clock=clock) as server,
        Line(server.base_url) as line,
        AsyncExitStack() as stack,
    ):
        yield Desk(server, line, clock, folder, stack)


def said(log: Logged, event: str) -> list[dict[str, Any]]:
    return [entry for entry in log.entries if entry["event"] == event]


# ── A file with a mistake ──

MISTAKES: Final[dict[str, tuple[str, str, list[str | None]]]] = {
    "one": ('lease = "5m"', 'lease = "five"', ["queues.demo.lease"]),
    "several": (
        'lease = "5m"',
        'lease = "1s"\nmax_pending = -1\nleese = 1\nretry.jitter = 2',
        ["queues.demo.lease", "queues.demo.max_pending", "queues.demo.leese", "queues.demo.retry.jitter"],
    ),
    "no TOML": ('lease = "5m"', "lease = ", [None]),
    "a schema": ('lease = "5m"', 'lease = "1h"\nschemas = "schemas"', ["/type"]),
    "a folder that is not there": ('lease = "5m"', 'lease = "1h"\nschemas = "elsewhere"', ["queues.demo.schemas"]),
    "open to post, and own": ('lease = "5m"', 'lease = "1h"\nvisibility = "own"', ["queues.demo.visibility"]),
    "beside something good": (
        'lease = "5m"',
        'lease = "1h"\nretry.max_attempts = 0',
        ["queues.demo.retry.max_attempts"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_a_file_with_a_mistake_changes_nothing_and_all_is_told(name: str, tmp_path: Path) -> None:
    old, new, faults = MISTAKES[name]
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "item.json").write_text('{"type": "nonsense"}')
    async with desk(tmp_path, open_queue(lease='"5m"')) as at:
        monitor, work = await at.socket("monitor"), await at.socket("work")
        with logged() as log:
            at.change(old, new)
        assert {(entry["event"], entry["level"]) for entry in log.entries} == {("config.refused", "error")}
        assert {entry.get("key") for entry in log.entries} == set(faults), "each has a line"
        assert all(entry["fault"] and entry["file"].startswith(str(tmp_path)) for entry in log.entries)
        await monitor.ask({"post": {"item": 1}})
        assert (await work.ask({"claim": {}}))["leaseMs"] == 300_000
        with logged() as log:
            at.change(new, 'lease = "2h"')
        assert said(log, "admin.config_changed")[0]["changed"] == "queues.demo.lease"
        await monitor.ask({"post": {"item": 1}})
        assert (await work.ask({"claim": {}}))["leaseMs"] == 7_200_000


async def test_a_file_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, open_queue(lease='"5m"')) as at:
        text = at.file.read_text()
        at.file.unlink()
        with logged() as log:
            at.server.running.reload()
        assert said(log, "config.refused")[0]["file"] == str(at.file)
        assert (await at.post()) != ""
        at.file.write_text(text)
        with logged() as log:
            at.server.running.reload()
        (entry,) = said(log, "admin.config_unchanged")
        assert entry["text"] == "the configuration was read anew: nothing has changed"
        assert not entry.keys() & {"changed", "restart"}


async def test_what_needs_a_restart_is_named_each_time_and_not_done(tmp_path: Path) -> None:
    async with desk(tmp_path, f"[server]\n{open_queue()}{OTHERS}") as at:
        keys = 'resume_grace = "1s"\nmax_message_bytes = 2_000_000\nping_interval = "7s"\n'
        text = at.file.read_text()
        changed = text.replace("[server]\n", f"[server]\n{keys}").replace(OTHERS, "[queues.new]\n")
        at.file.write_text(changed.replace(f'"sqlite:{tmp_path / "data"}"', '"sqlite:elsewhere"'))
        for _ in range(2):
            with logged() as log:
                at.server.running.reload()
            (entry,) = said(log, "admin.config_unchanged")
            assert "changed" not in entry
            assert "waits for a restart" in entry["text"]
            assert sorted(entry["restart"].split(", ")) == [
                "queues.new",
                "queues.other",
                "server.max_message_bytes",
                "server.ping_interval",
                "server.resume_grace",
                "server.store",
            ]
        assert (await (await at.socket("work")).ask({"hello": {}}))["maxMessageBytes"] == 1_048_576
        assert (await at.line.ask("POST", "/other/claim")).status == 401, "it is there, and closed to others"
        assert not (tmp_path / "elsewhere").exists()
        at.file.write_text(text)
        with logged() as log:
            at.server.running.reload()
        assert "restart" not in said(log, "admin.config_unchanged")[0]


# ── Rights ──

# What the queue granted and what it grants now, to whom, on which socket, and how that is closed: `-` is not at all.
GRANTS: Final = """
work=["ann"]                 work=[]                      ann monitor 1012
work=["ann"]                 work=["ann"],admin=["bob"]   ann monitor -
work=["ann"]                 work=["ann","bob"]           ann work    -
work=["ann"],fetch=["ann"]   work=[],fetch=["ann"]        ann work    4403
work=["ann"],fetch=["ann"]   work=["ann"],fetch=[]        ann monitor 4403
work=["ann"],fetch=["ann"]   work=["ann"],fetch=[]        ann work    1012
work=[],post=["ann"]         work=["ann"],post=["ann"]    ann monitor 1012
work=["ann"],admin=["ann"]   work=["ann"],admin=[]        ann work    1012
work="users"                 work=["bob"]                 ann work    4403
work="users"                 work=["bob"],fetch=[],post=[] ann work   4404
fetch="users"                fetch=[],post=[],work=[]     ann monitor 4404
work="open"                  work="users"                 -   work    4401
work="open",fetch="open"     work="users",fetch="open"    -   work    4401
work="open",fetch="open"     work="users",fetch="open"    -   monitor 1012
work="open",post="open"      work="open",post="users"     -   work    1012
work="open"                  work="open",fetch="open"     ann work    -
work="open"                  work="users"                 ann work    -
"""


@pytest.mark.parametrize("row", GRANTS.strip().splitlines())
async def test_a_socket_whose_rights_change_is_closed_as_a_new_one_is(row: str, tmp_path: Path) -> None:
    """What it holds is requeued at once. Where it may come again, it comes to what it may do now."""
    before, after, user, kind, code = row.split()
    user = user.replace("-", "")
    expected = int(code.replace("-", "0"))
    toml = f"[queues.demo]\naccess = {{ {before} }}\n{OTHERS}"
    async with desk(tmp_path, toml, "ann", "bob") as at:
        socket = await at.socket(kind, user)
        if kind == "work":
            engine = at.server.engine("demo")
            await engine.ask(Post(NewItem("1", "bob")))
            assert (await socket.ask({"claim": {"worker": "w"}}))["attempts"] == 1
        assert (await socket.ask({"hello": {}}))["type"] == "hello"
        at.change(before, after)
        again = await at.socket(kind, user)
        if expected:
            assert await socket.closed() == expected
        else:
            assert (await socket.ask({"hello": {}}))["type"] == "hello"
        if expected in (0, 1012):
            assert (await again.ask({"hello": {}}))["type"] == "hello"
        else:
            assert await again.closed() == expected
        if kind == "work" and expected:
            at.change(after, 'work="open"')
            item = await (await at.socket("work")).ask({"claim": {"waitMs": 60_000}})
            assert item["attempts"] == 2


# ── What takes effect at once ──


async def test_numbers_of_a_queue(tmp_path: Path) -> None:
    """For the sockets and requests that are there, from the next message on; a lease that was given keeps its end."""
    keys = {"lease": '"5m"', "max_pending": "1", "retry": '{ max_attempts = 5, delays = ["30s"], jitter = 0.0 }'}
    async with desk(tmp_path, open_queue(**keys)) as at:
        monitor, work = await at.socket("monitor"), await at.socket("work")
        item_id = await at.post()
        await at.post(status=429)
        claimed = await work.ask({"claim": {}})
        at.change('lease = "5m"\nmax_pending = 1', 'lease = "1h"\nmax_pending = 2')
        at.change('max_attempts = 5, delays = ["30s"]', 'max_attempts = 2, delays = ["10s"]')
        assert (await work.ask({"hello": {}}))["leaseMs"] == 3_600_000
        assert claimed["leaseUntil"] == at.clock.now() + 300_000
        renewed = await work.ask({"renew": {"id": item_id}})
        assert (renewed["leaseUntil"], renewed["leaseMs"]) == (at.clock.now() + 3_600_000, 3_600_000)
        failed = await work.ask({"fail": {"id": item_id, "error": {"message": "no"}}})
        assert (failed["status"], failed["dueAt"]) == ("pending", at.clock.now() + 10_000)
        second = await at.post()
        await at.post(status=429)
        assert (await monitor.ask({"post": {"item": 1}}))["code"] == "limit"
        assert (await work.ask({"claim": {}}))["id"] == second
        failed = await work.ask({"fail": {"id": second, "error": {"message": "no"}, "retryInMs": 0}})
        assert failed["status"] == "pending"
        assert (await work.ask({"claim": {}}))["id"] == second
        assert (await work.ask({"fail": {"id": second, "error": {"message": "no"}}}))["status"] == "dead"


@pytest.mark.protocol("7.7")
@pytest.mark.parametrize("new", ["off", "1h"])
async def test_progress_by_of_leases_that_are_there(new: str, tmp_path: Path) -> None:
    """It is lifted without a turn after another for leases that are not over, and set for those that were given."""
    async with desk(tmp_path, open_queue(lease='"10h"', progress_by='"2s"')) as at:
        monitor, work, other = await at.socket("monitor"), await at.socket("work"), await at.socket("work")
        engine, steps, step = at.server.engine("demo"), 0, at.server.engine("demo").step

        async def counted() -> None:
            nonlocal steps
            steps += 1
            await step()

        engine.step = counted  # type: ignore[method-assign]  # a tap, that counts the turns
        item_id = await at.post()
        assert (await work.ask({"claim": {}}))["id"] == item_id
        assert (await monitor.ask({"subscribe": [item_id]}))["status"] == "processing"
        at.change('progress_by = "2s"', f'progress_by = "{new}"')
        at.clock.advance(2_000)
        steps = 0
        for _ in range(20):
            assert (await other.ask({"claim": {}}))["type"] == "empty"
        assert steps <= 45, "one for each claim, and for what the clock wakes"
        other.say({"claim": {"waitMs": 600_000}})
        at.change(f'progress_by = "{new}"', 'progress_by = "2s"')
        at.clock.advance(1)
        assert (await monitor.hear())["losses"] == 1
        assert (await other.hear())["attempts"] == 2
        assert (await work.ask({"result": {"id": item_id, "attempts": 1, "value": 1}}))["reason"] == "fence"


async def test_schemas(tmp_path: Path) -> None:
    """For requests and for sockets that are open; what waits already is handed out as it is."""
    schemas = {"one": {"type": "integer"}, "two": {"type": "string"}}
    for name, document in schemas.items():
        (tmp_path / name).mkdir()
        for kind in ("item", "progress", "result"):
            (tmp_path / name / f"{kind}.json").write_text(json.dumps(document))
    async with desk(tmp_path, open_queue(schemas='"one"')) as at:
        monitor, work = await at.socket("monitor"), await at.socket("work")
        old = await at.post(1)
        await at.post("x", status=422)
        at.change('schemas = "one"', 'schemas = "two"')
        await at.post(1, status=422)
        assert (await monitor.ask({"post": {"item": 1}}))["code"] == "schema"
        assert (await monitor.ask({"post": {"item": "x"}}))["type"] == "posted"
        assert (await work.ask({"hello": {}}))["schemas"]["result"] == schemas["two"]
        assert (await work.ask({"claim": {}}))["item"] == 1
        for verb in ("progress", "result"):
            assert (await work.ask({verb: {"id": old, "value": 1}}))["code"] == "schema"
            assert (await work.ask({verb: {"id": old, "value": "x"}}))["accepted"]
        (tmp_path / "two" / "item.json").write_text("{}")
        at.server.running.reload()
        assert (await monitor.ask({"post": {"item": 1}}))["type"] == "posted", "another file, under the same name"
        at.change('schemas = "two"', "")
        assert (await work.ask({"hello": {}}))["schemas"] == {"item": None, "progress": None, "result": None}


async def test_visibility(tmp_path: Path) -> None:
    """A monitor that is open is told no more of what others posted, and all again when all may see it."""
    toml = '[queues.demo]\nvisibility = "all"\naccess = { work = ["box"] }\n'
    async with desk(tmp_path, toml, "ann", "bob", "box") as at:
        ann = bearer(at.server.tokens["ann"])
        item_id = (await at.line.ask("POST", "/demo/items", ann, {"item": 1})).json["id"]
        monitor, own, work = (
            await at.socket("monitor", "bob"),
            await at.socket("monitor", "ann"),
            await at.socket("work", "box"),
        )
        for socket in (monitor, own):
            assert (await socket.ask({"subscribe": [item_id]}))["status"] == "pending"
        at.change('visibility = "all"', 'visibility = "own"')
        assert (await work.ask({"claim": {}}))["id"] == item_id
        assert (await own.hear())["status"] == "processing"
        assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        assert (await at.line.ask("GET", f"/demo/items/{item_id}", bearer(at.server.tokens["bob"]))).status == 404
        at.change('visibility = "own"', 'visibility = "all"')
        assert (await work.ask({"result": {"id": item_id, "value": 1}}))["accepted"]
        assert (await monitor.hear())["status"] == (await own.hear())["status"] == "finished"


async def test_whose_keys_count(tmp_path: Path) -> None:
    """What ann holds stays hers, and counts for bob only while keys are everybody's."""
    toml = '[queues.demo]\nvisibility = "all"\naccess = { work = [] }\n'
    async with desk(tmp_path, toml, "ann", "bob") as at:

        async def post(user: str) -> tuple[int, str]:
            answer = await at.line.ask("POST", "/demo/items", bearer(at.server.tokens[user]), {"item": 1, "key": "k"})
            return answer.status, answer.json["id"]

        _, anns = await post("ann")
        assert await post("bob") == (200, anns)
        at.change('visibility = "all"', 'visibility = "own"')
        assert await post("ann") == (200, anns)
        status, bobs = await post("bob")
        assert status == 201
        at.change('visibility = "own"', 'visibility = "all"')
        assert [await post("ann"), await post("bob")] == [(200, anns), (200, bobs)]


async def test_the_dedupe_window(tmp_path: Path) -> None:
    async with desk(tmp_path, open_queue(dedupe_window='"3s"', keep='{ cancelled = "1s" }')) as at:

        async def ended(key: str) -> str:
            answer = await at.line.ask("POST", "/demo/items", body={"item": 1, "key": key})
            assert answer.status == 201
            item_id = str(answer.json["id"])
            assert (await at.line.ask("POST", f"/demo/items/{item_id}/cancel")).status == 200
            return item_id

        held = await ended("k")
        at.change('dedupe_window = "3s"', 'dedupe_window = "24h"')
        for _ in range(3):
            at.clock.advance(10_000)
            assert (await at.line.ask("POST", "/demo/items", body={"item": 1, "key": "k"})).json["id"] == held
        at.change('dedupe_window = "24h"', 'dedupe_window = "3s"')
        assert await ended("k") != held


async def test_origins_and_proxies(tmp_path: Path) -> None:
    toml = f'[server]\nallowed_origins = ["https://a.example"]\n[server.limits]\ntrusted_proxies = []\n{open_queue()}'
    async with desk(tmp_path, toml) as at:

        async def may(origin: str) -> bool:
            status = (await at.line.ask("GET", f"/demo/items/{NONE}", Caller(headers=(f"Origin: {origin}",)))).status
            assert status in (403, 404)
            return status == 404

        assert [await may("https://a.example"), await may("https://b.example")] == [True, False]
        at.change('["https://a.example"]', '["https://b.example"]')
        assert [await may("https://a.example"), await may("https://b.example")] == [False, True]
        site = at.server.running.site
        assert site is not None
        assert set(site.connections_of_address._taken) == {"127.0.0.1"}
        at.change("trusted_proxies = []", 'trusted_proxies = ["127.0.0.1"]')
        headers = {"X-Forwarded-For": "192.0.2.1"}
        async with raw_socket(f"{at.server.ws_url}/demo/work", headers) as socket:
            await socket.ask({"hello": {}})
            assert "192.0.2.1" in site.connections_of_address._taken
        at.line.cut()


LIMITS: Final = """connections_per_address = {0}
waiting_claims_per_token = {0}
subscriptions = {0}
ids_per_message = {0}
failed_tokens_per_minute = {0}
"""


async def test_limits(tmp_path: Path) -> None:
    """Raised, there is place at once; lowered, nothing is taken away from who has more."""
    toml = f"[server]\n[server.limits]\n{LIMITS.format(2)}{open_queue()}{OTHERS}"
    async with desk(tmp_path, toml) as at:
        monitor, work = await at.socket("monitor"), await at.socket("work")
        ids = [await at.post() for _ in range(3)]

        async def reach(limit: int) -> list[str | int]:
            """All of them are reached: what is one more answered?"""
            for _ in range(2):
                work.say({"claim": {"criteria": {"no": "such"}, "waitMs": 60_000}})
            refused = [await work.hear(), await monitor.ask({"subscribe": [*ids, NONE][: limit + 1]})]
            closed = await (await at.socket("monitor")).closed()
            guesses = [(await at.line.ask("GET", f"/other/items/{NONE}", bearer("x"))).status for _ in range(limit + 1)]
            return [*(message["code"] for message in refused), closed, guesses.count(401)]

        work.say({"claim": {"criteria": {"no": "such"}, "waitMs": 60_000}})
        monitor.say({"subscribe": ids[:2]})
        assert [(await monitor.hear())["id"] for _ in range(2)] == ids[:2]
        assert await reach(2) == ["limit", "limit", 1013, 2]
        at.change(LIMITS.format(2), LIMITS.format(3))
        third = await at.socket("monitor")
        assert (await third.ask({"hello": {}}))["type"] == "hello"
        monitor.say({"subscribe": ids})
        assert {(await monitor.hear())["id"] for _ in range(3)} == set(ids)
        assert await reach(3) == ["limit", "limit", 1013, 1]
        at.change(LIMITS.format(3), LIMITS.format(1))
        for _ in range(2):
            assert (await at.line.ask("GET", f"/other/items/{NONE}", bearer("x"))).status == 429
        work.say({"unclaim": True})
        assert [(await work.hear())["type"] for _ in range(3)] == ["empty"] * 3
        work.say({"claim": {"criteria": {"no": "such"}, "waitMs": 60_000}})
        assert (await work.ask({"claim": {"waitMs": 60_000}}))["code"] == "limit"
        assert (await monitor.ask({"subscribe": ids[:2]}))["code"] == "limit"
        assert await (await at.socket("monitor")).closed() == 1013
        assert (await third.ask({"hello": {}}))["type"] == "hello"


async def test_what_a_socket_may_say_is_what_it_could_when_it_came(tmp_path: Path) -> None:
    """The rates, and how long it may be deaf, are those of its opening; a new socket has the new ones."""
    toml = f"[server]\n[server.limits]\nbad_messages = 2\n{open_queue()}"
    async with desk(tmp_path, toml) as at:
        old = await at.socket("work")
        assert (await old.ask({}))["code"] == "bad-message"
        at.change("bad_messages = 2", "bad_messages = 1")
        new = await at.socket("work")
        for socket in (new, old):
            assert (await socket.ask({}))["code"] == "bad-message"
        for socket in (new, old):
            socket.say({})
            assert await socket.closed() == 1008
