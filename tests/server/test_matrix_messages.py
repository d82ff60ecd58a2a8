"""Every report × who makes it × with which number, against tables written by hand from PROTOCOL.md §1, §4 and §5.

The item is held by a socket of alice's, worker `w`, with the number 1. Who may speak on a socket at all is told by
`test_matrix.py`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.matrix import ACCESS, NONE, Caller, Stage, hasty, rows, stage
from support.raw import RawSocket, raw_socket
from support.wire import check_client, check_server

# `yes` is accepted; all else is the reason of an ack that says no, or `error`. `twin` is another socket of alice's,
# `namesake` one of hers with another worker name, `bob` a socket of another user. What follows is the number: 1, one
# that is wrong, or none.
HELD_BY_A_SOCKET: Final = """
who         number  progress    result  fail        release     renew       resume
holder      1       yes         yes     yes         yes         yes         yes
holder      -       yes         yes     yes         yes         yes         error
holder      2       fence       fence   fence       fence       fence       fence
holder      0       fence       fence   fence       fence       fence       fence
twin        1       not-holder  yes     yes         not-holder  not-holder  yes
twin        -       yes         yes     not-holder  not-holder  not-holder  error
twin        2       fence       fence   fence       fence       fence       fence
namesake    1       not-holder  yes     yes         not-holder  not-holder  not-holder
bob         1       not-holder  yes     yes         not-holder  not-holder  not-holder
bob         -       yes         yes     not-holder  not-holder  not-holder  error
bob         2       fence       fence   fence       fence       fence       fence
alice-http  1       not-holder  yes     yes         not-holder  not-holder  -
alice-http  -       yes         yes     not-holder  not-holder  not-holder  -
bob-http    1       not-holder  yes     yes         not-holder  not-holder  -
bob-http    2       fence       fence   fence       fence       fence       -
"""

# The lease was taken by a request of alice's: any request of hers with its number is the holder's.
HELD_BY_A_REQUEST: Final = """
who         number  progress    result  fail        release     renew
alice-http  1       yes         yes     yes         yes         yes
alice-http  -       yes         yes     not-holder  not-holder  not-holder
alice-http  2       fence       fence   fence       fence       fence
bob-http    1       not-holder  yes     yes         not-holder  not-holder
bob-http    -       yes         yes     not-holder  not-holder  not-holder
"""

ENDED: Final = """
who         number  progress    result    fail      release   renew     resume
holder      1       terminal    terminal  terminal  terminal  terminal  terminal
holder      -       terminal    terminal  terminal  terminal  terminal  error
bob         1       terminal    terminal  terminal  terminal  terminal  terminal
alice-http  1       terminal    terminal  terminal  terminal  terminal  -
"""

UNKNOWN: Final = """
who         number  progress    result    fail      release   renew     resume
holder      1       unknown     unknown   unknown   unknown   unknown   unknown
holder      -       unknown     unknown   unknown   unknown   unknown   error
bob         1       unknown     unknown   unknown   unknown   unknown   unknown
alice-http  1       unknown     unknown   unknown   unknown   unknown   -
"""

MORE: Final[dict[str, dict[str, Any]]] = {
    "progress": {"value": 1},
    "result": {"value": 1},
    "fail": {"error": {"message": "no"}},
}


class Scene:
    """The speakers."""

    def __init__(self, on: Stage, sockets: dict[str, RawSocket], requests: dict[str, Caller]) -> None:
        self.on = on
        self._sockets = sockets
        self._requests = requests
        self._items = 0

    async def held(self, by: str) -> str:
        """A fresh item, held with the number 1."""
        self._items += 1
        item_id = await self.on.item("members", "alice", {"n": self._items})
        item = await self._ask(by, "claim", {"criteria": {"n": self._items}, "worker": "w"})
        assert (item["id"], item["attempts"]) == (item_id, 1)
        return item_id

    async def report(self, who: str, verb: str, item_id: str, number: str) -> str:
        """What becomes of a report: `yes`, the reason of a no, or `error`."""
        named: dict[str, Any] = {"id": item_id} | ({} if number == "-" else {"attempts": int(number)})
        if verb == "resume":
            answer = await self._ask(who, verb, {"worker": "x" if who == "namesake" else "w", "leases": [named]})
            lease = answer["leases"][0] if answer["type"] == "resume-ack" else answer
        else:
            lease = answer = await self._ask(who, verb, named | MORE.get(verb, {}))
        if answer["type"] == "error":
            return "error"
        assert answer["type"] == f"{verb}-ack"
        return "yes" if lease["accepted"] else str(lease["reason"])

    async def _ask(self, who: str, verb: str, value: dict[str, Any]) -> Any:
        if who in self._requests:
            answer = await self.on.line.ask("POST", f"/members/{verb}", self._requests[who], value)
            assert answer.status == 200
            return answer.json
        socket = self._sockets[who]
        socket.say({verb: value})
        heard = await socket.hear()
        check_server("work", heard)
        if heard["type"] != "error":
            check_client("work", {verb: value})
        return heard


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    async with stage(folder, ACCESS) as on, AsyncExitStack() as stack:
        alice, bob = on.cast.callers["alice"]["in the header"], on.cast.callers["bob"][""]
        sockets = {
            who: await stack.enter_async_context(
                raw_socket(f"{on.server.ws_url}/members/work", (bob if who == "bob" else alice).named_headers)
            )
            for who in ("holder", "twin", "namesake", "bob")
        }
        yield Scene(on, sockets, {"alice-http": alice, "bob-http": bob})


async def hold(folder: Path, table: str, by: str, end: str = "") -> None:
    wrong = []
    async with scene(folder) as speakers:
        for who, cells in rows(table):
            for verb, cell in list(cells.items())[1:]:
                if cell == "-":
                    continue
                item_id = await speakers.held(by) if by else NONE
                if end:
                    assert await speakers.report("holder", end, item_id, "1") == "yes"
                found = await speakers.report(who, verb, item_id, cells["number"])
                if found != cell:
                    wrong.append(f"{who} with {cells['number']}: {verb}: {found}, and the table says {cell}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.protocol("4.29")
async def test_reports_on_an_item_that_a_socket_holds(tmp_path: Path) -> None:
    await hold(tmp_path, HELD_BY_A_SOCKET, "holder")


@pytest.mark.protocol("4.29")
async def test_reports_on_an_item_that_a_request_holds(tmp_path: Path) -> None:
    await hold(tmp_path, HELD_BY_A_REQUEST, "alice-http")


@pytest.mark.protocol("1.49", "4.29")
async def test_reports_on_an_item_that_has_ended(tmp_path: Path) -> None:
    await hold(tmp_path, ENDED, "holder", "result")


@pytest.mark.protocol("4.29")
async def test_reports_on_an_item_that_nobody_knows(tmp_path: Path) -> None:
    await hold(tmp_path, UNKNOWN, "")


async def test_what_is_said_on_a_socket_that_is_refused_is_not_heard(tmp_path: Path) -> None:
    """The messages come in the same packet as the handshake."""
    async with scene(tmp_path) as speakers:
        on = speakers.on
        item_id = await speakers.held("holder")
        rev = await on.rev("members", item_id)
        for kind, code in (("nobody", 4401), ("invalid", 4401), ("alice:fetch", 4403), ("alice:elsewhere", 4404)):
            for caller in on.cast.callers[kind].values():
                for verb in ("result", "fail", "cancel"):
                    report = {verb: {"id": item_id, "attempts": 1, "value": 1, "error": {"message": "no"}}}
                    closed = await hasty(on.server.ws_url, "/members/work", caller, [report, {"claim": {}}])
                    assert closed == code, (kind, verb)
        assert await on.rev("members", item_id) == rev
        assert await speakers.report("holder", "result", item_id, "1") == "yes"


async def test_an_unclaim_withdraws_nobody_elses_claims(tmp_path: Path) -> None:
    async with scene(tmp_path) as speakers:
        on = speakers.on
        alice = on.cast.callers["alice"]["in the URL"]
        async with (
            raw_socket(on.server.ws_url + alice.at("/members/work")) as waiting,
            raw_socket(on.server.ws_url + alice.at("/members/work")) as other,
        ):
            waiting.say({"claim": {"waitMs": 60_000}, "ref": 1})
            waiting.say({"renew": {"id": NONE}})
            assert (await waiting.hear())["type"] == "renew-ack"  # When this is answered, the claim waits.
            other.say({"unclaim": True})
            other.say({"renew": {"id": NONE}})
            assert (await other.hear())["type"] == "renew-ack"
            item_id = await on.item("members", "alice")
            assert (await waiting.hear())["id"] == item_id
