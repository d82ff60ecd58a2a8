"""Every request and both sockets × every kind of caller × every kind of queue, against tables written by hand from
PROTOCOL.md §2 to §5. A cell is what the protocol says, not what the code computes.

A row stands for all callers of its kind (`Cast`); a column for all requests that its right lets through (`COLUMNS`).
`ok` is the request's own success. Whatever is refused has changed nothing.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest

from support.matrix import ACCESS, LIMITS, NONE, PUBLIC, Caller, Closed, Stage, rows, stage, talk
from support.wire import check_response, check_server

# What each column asks. {mine} is an item that the caller's user posted, {other} another user's; for who has no user,
# {mine} is one that nobody posted. An id that does not exist is as good as any where only the right is asked for.
BODY: Final = {"id": NONE, "value": 1, "error": {"message": "no"}, "criteria": {"there is": "none"}}
CANCEL: Final[dict[str, object]] = {"action": "cancel", "filter": {"postedBy": "nobody at all"}}
COLUMNS: Final[dict[str, Sequence[tuple[str, str, int]]]] = {
    "post": [("POST", "/items", 201)],
    "look": [("GET", f"/items/{{mine}}{what}", 200) for what in ("", "/item", "?waitMs=1", "/attempts", "/why")],
    "look2": [("GET", f"/items/{{other}}{what}", 200) for what in ("", "/item", "/attempts", "/why")],
    "cancel": [("POST", "/items/{mine}/cancel", 200)],
    "cancel2": [("POST", "/items/{other}/cancel", 200)],
    "work": [("POST", f"/{verb}", 200) for verb in ("claim", "progress", "result", "fail", "release", "renew")],
    "admin": [("GET", "/items", 200), ("GET", "/items?status=dead&limit=1", 200), ("POST", "/bulk", 200)],
    "ticket": [("POST", "/tickets", 201)],
}

# `monitor` and `worker` are the two handshakes; `sees` is of which of {mine} and {other} a monitor is told, `says` what
# it hears when it posts.
TABLES: Final = {
    # Everything open, admin too: who comes without a token may do what anybody may. An invalid token may nothing.
    "public": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           ok   ok   ok    ok     ok      ok   ok    401    | ok      both posted      ok
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    alice:post       ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    alice:elsewhere  ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    root             ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    """,
    # Open to post and to fetch; work for users, admin for root. A token, however narrow, has what is open.
    "drop": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           ok   ok   ok    ok     403     401  401   401    | ok      both posted      4401
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            ok   ok   ok    ok     403     ok   403   ok     | ok      both posted      ok
    alice:post       ok   ok   ok    ok     403     403  403   ok     | ok      both posted      4403
    alice:fetch      ok   ok   ok    ok     403     403  403   ok     | ok      both posted      4403
    alice:work       ok   ok   ok    ok     403     ok   403   ok     | ok      both posted      ok
    alice:elsewhere  ok   ok   ok    ok     403     403  403   ok     | ok      both posted      4403
    root             ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    root:post        ok   ok   ok    ok     403     403  403   ok     | ok      both posted      4403
    root:admin       ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    """,
    # Rights that nobody named are all users', admin is root's. Who may not fetch is not told whether {other} exists.
    "members": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           401  401  401   401    401     401  401   401    | 4401    -    -           4401
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            ok   ok   ok    ok     403     ok   403   ok     | ok      both posted      ok
    alice:post       ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    alice:fetch      403  ok   ok    403    403     403  403   ok     | ok      both not-allowed 4403
    alice:work       403  403  403   403    403     ok   403   ok     | 4403    -    -           ok
    alice:admin      ok   ok   ok    ok     403     ok   403   ok     | ok      both posted      ok
    alice:elsewhere  404  404  404   404    404     404  404   404    | 4404    -    -           4404
    root             ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    root:post        ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    root:fetch       403  ok   ok    403    403     403  403   ok     | ok      both not-allowed 4403
    root:work        403  403  403   403    403     ok   403   ok     | 4403    -    -           ok
    root:admin       ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    """,
    # Each right for the users of a list. For who is on none there is no such queue.
    "lists": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           401  401  401   401    401     401  401   401    | 4401    -    -           4401
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            404  404  404   404    404     404  404   404    | 4404    -    -           4404
    alice:admin      404  404  404   404    404     404  404   404    | 4404    -    -           4404
    alice:elsewhere  404  404  404   404    404     404  404   404    | 4404    -    -           4404
    poster           ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    poster:post      ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    poster:fetch     404  404  404   404    404     404  404   404    | 4404    -    -           4404
    reader           403  ok   ok    403    403     403  403   ok     | ok      both not-allowed 4403
    worker           403  403  403   403    403     ok   403   ok     | 4403    -    -           ok
    root             ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    root:post        ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    root:fetch       403  ok   ok    403    403     403  403   ok     | ok      both not-allowed 4403
    root:work        403  403  403   403    403     ok   403   ok     | 4403    -    -           ok
    root:admin       ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    """,
    # `visibility = "own"`: what others posted is not there, but for who has work or admin.
    "own": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           401  401  401   401    401     401  401   401    | 4401    -    -           4401
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            ok   ok   404   ok     404     403  403   ok     | ok      mine posted      4403
    alice:post       ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    alice:fetch      403  ok   404   403    403     403  403   ok     | ok      mine not-allowed 4403
    alice:elsewhere  404  404  404   404    404     404  404   404    | 4404    -    -           4404
    worker           ok   ok   ok    ok     403     ok   403   ok     | ok      both posted      ok
    worker:fetch     403  ok   404   403    403     403  403   ok     | ok      mine not-allowed 4403
    worker:work      403  403  403   403    403     ok   403   ok     | 4403    -    -           ok
    root             ok   ok   ok    ok     ok      ok   ok    ok     | ok      both posted      ok
    root:post        ok   403  403   ok     404     403  403   ok     | 4403    -    -           4403
    root:fetch       403  ok   404   403    403     403  403   ok     | ok      mine not-allowed 4403
    """,
    # A queue that does not exist; the ids are those of `members`.
    "nowhere": """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           401  401  401   401    401     401  401   401    | 4401    -    -           4401
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            404  404  404   404    404     404  404   404    | 4404    -    -           4404
    alice:elsewhere  404  404  404   404    404     404  404   404    | 4404    -    -           4404
    root             404  404  404   404    404     404  404   404    | 4404    -    -           4404
    root:admin       404  404  404   404    404     404  404   404    | 4404    -    -           4404
    """,
}
ALL_OPEN: Final = """
    who              post look look2 cancel cancel2 work admin ticket | monitor sees says        worker
    nobody           404  404  404   404    404     404  404   404    | 4404    -    -           4404
    invalid          401  401  401   401    401     401  401   401    | 4401    -    -           4401
    alice            404  404  404   404    404     404  404   404    | 4404    -    -           4404
"""
"""A queue that does not exist, on a server all of whose queues are open."""


# ── The tables, held against the server ──


class Cells:
    """Runs one table's cells. `wrong` names those that are not as the table says."""

    def __init__(self, on: Stage, queue: str, home: str) -> None:
        self.wrong: list[str] = []
        self.posted: Counter[str] = Counter()
        """What was posted with success, by caller."""
        self._on = on
        self._queue = queue
        self._home = home  # Where the items are.
        self._items: dict[str, str] = {}

    async def run(self, table: str) -> None:
        for kind, cells in rows(table):
            for name, caller in self._on.cast.callers[kind].items():
                who = f"{kind} ({name})" if name else kind
                user = self._on.cast.user(kind)
                for column in COLUMNS:
                    await self._requests(who, caller, user, column, cells[column])
                await self._monitor(who, caller, user, cells)
                await self._worker(who, caller, cells["worker"])
        for user, item_id in self._items.items():
            changes = await self._on.rev(self._home, item_id) - 1
            self._check(f"changes of the item of {user or 'nobody'}", str(changes), "0")

    async def _requests(self, who: str, caller: Caller, user: str, column: str, cell: str) -> None:
        for method, path, success in COLUMNS[column]:
            mine, other = await self._item(user), await self._item("bob")
            target = f"/{self._queue}{path.format(mine=mine, other=other)}"
            posted = CANCEL if path == "/bulk" else {"item": {"from": who}} | BODY
            body = posted if method == "POST" else None
            if method == "GET" and path.partition("?")[0] == "/items" and says_more(caller):
                success = 422  # A list refuses what it does not know, once it is known who asks.
            answer = await self._on.line.ask(method, target, caller, body)
            self._check(f"{who}: {method} {path}", str(answer.status), str(success) if cell == "ok" else cell)
            if not path.endswith(("/item", "/tickets")) and "?" not in path:
                check_response(method, path.format(mine=mine, other=other), answer.status, answer.json)
            if answer.status == 201 and path == "/items":
                self.posted[who] += 1
            if path.endswith("/cancel") and answer.status == 200:
                del self._items["bob" if "other" in path else user]

    async def _monitor(self, who: str, caller: Caller, user: str, cells: dict[str, str]) -> None:
        mine, other = await self._item(user), await self._item("bob")
        messages = [{"hello": {}}, {"subscribe": [mine, other, NONE, "", "x" * 5_000]}, {"unsubscribe": [NONE]}]
        post = {"post": {"item": {"from": who}}}
        heard = await talk(self._on.server.ws_url, f"/{self._queue}/monitor", caller, [*messages, post])
        if isinstance(heard, Closed):
            self._check(f"{who}: monitor", str(heard.code), cells["monitor"])
            return
        for message in heard:
            check_server("monitor", message)
        self._check(f"{who}: monitor", "ok", cells["monitor"])
        seen = {message["id"] for message in heard if message["type"] == "status"}
        told = {(mine, other): "both", (mine,): "mine", (other,): "other", (): "none"}
        self._check(f"{who}: sees", told[tuple(one for one in (mine, other) if one in seen)], cells["sees"])
        says = [message.get("code", message["type"]) for message in heard if message["type"] in ("posted", "error")]
        self._check(f"{who}: says", ",".join(says), cells["says"])
        self.posted[who] += says == ["posted"]

    async def _worker(self, who: str, caller: Caller, cell: str) -> None:
        heard = await talk(self._on.server.ws_url, f"/{self._queue}/work", caller, [said for said, _ in WORK_TALK])
        if isinstance(heard, Closed):
            self._check(f"{who}: worker", str(heard.code), cell)
            return
        for message in heard:
            check_server("work", message)
        self._check(f"{who}: worker", "ok", cell)
        self._check(f"{who}: worker hears", str([message["type"] for message in heard]), str(WORK_HEARD))

    async def _item(self, user: str) -> str:
        if user not in self._items:
            self._items[user] = await self._on.item(self._home, user)
        return self._items[user]

    def _check(self, what: str, found: str, expected: str) -> None:
        if found != expected:
            self.wrong.append(f"/{self._queue}: {what}: {found}, and the table says {expected}")


# Every message of a work socket, with what answers it.
WORK_TALK: Final[list[tuple[dict[str, Any], list[str]]]] = [
    ({"hello": {"worker": "w"}}, ["hello"]),
    ({"claim": {"criteria": {"there is": "none"}}}, ["empty"]),
    ({"progress": {"id": NONE, "value": 1}}, ["progress-ack"]),
    ({"result": {"id": NONE, "value": 1}}, ["result-ack"]),
    ({"fail": {"id": NONE, "error": {"message": "no"}}}, ["fail-ack"]),
    ({"release": {"id": NONE}}, ["release-ack"]),
    ({"renew": {"id": NONE}}, ["renew-ack"]),
    ({"resume": {"leases": [{"id": NONE, "attempts": 1}]}}, ["resume-ack"]),
    ({"claim": {"criteria": {"there is": "none"}, "waitMs": 60_000}}, []),
    ({"unclaim": True}, ["empty"]),
]
WORK_HEARD: Final = [answer for _, answers in WORK_TALK for answer in answers]


def says_more(caller: Caller) -> bool:
    """Whether the caller's query says anything but its token."""
    return any(name != "token" for name, _ in parse_qsl(caller.query, keep_blank_values=True))


async def all_posted(on: Stage, queue: str) -> Counter[str]:
    """What the queue holds, by who posted it in a cell: everything is claimed, whatever the answers said."""
    found: Counter[str] = Counter()
    root = on.cast.callers["root"][""]
    while True:
        items = (await on.line.ask("POST", f"/{queue}/claim", root, {"count": 1_000})).json
        found.update(one["item"]["from"] for one in items if one["type"] == "item" and one["item"] != "ours")
        if items[-1]["type"] == "empty":
            return found


@pytest.mark.protocol("2.1", "2.2", "2.3", "2.5", "2.7", "2.9", "2.10", "2.11", "2.12", "2.14", "2.21", "2.26")
@pytest.mark.parametrize("queue", TABLES)
async def test_each_caller_gets_what_the_table_says(queue: str, tmp_path: Path) -> None:
    async with stage(tmp_path, ACCESS) as on:
        home = "members" if queue == "nowhere" else queue
        cells = Cells(on, queue, home)
        await cells.run(TABLES[queue])
        assert not cells.wrong, "\n".join(cells.wrong)
        assert await all_posted(on, home) == +cells.posted, "what was refused is there, or what was answered is not"


@pytest.mark.protocol("2.8")
async def test_where_all_queues_are_open_one_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    async with stage(tmp_path, LIMITS + PUBLIC) as on:
        cells = Cells(on, "nowhere", "public")
        await cells.run(ALL_OPEN)
        assert not cells.wrong, "\n".join(cells.wrong)
