"""Tickets (PROTOCOL.md §2): each is good for one connection to its queue within 30 s, with the rights of its token.

Its token's end is its own. Who may have one is told by `test_matrix.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from leaseway_server.core import access
from leaseway_server.core.access import Right
from support.clock import ManualClock
from support.matrix import LIMITS, NONE, Caller, Closed, Line, bearer, encoded, talk
from support.raw import raw_socket
from support.server import TestServer, running_server
from support.tokens import TokenFile

LIFE: Final = 30_000
TOML: Final = LIMITS + (
    '[queues.members]\naccess = { admin = ["root"] }\n'
    '[queues.lists]\naccess = { post = [], fetch = ["alice"], work = ["worker"] }\n'
    '[queues.public]\naccess = { post = "open", fetch = "open", work = "open", admin = [] }\n'
)


class Box:
    """The server, with alice's token, and tickets for it."""

    def __init__(self, server: TestServer, line: Line, clock: ManualClock, data: Path) -> None:
        self.server = server
        self.line = line
        self.clock = clock
        self.data = data

    def token(self, *rights: Right, expires_at: int = 0, user: str = "alice") -> str:
        """A new token."""
        with TokenFile(self.data) as store:
            return store.add(user, None, frozenset(rights) or None, expires_at, 0)[1]

    def revoke_all(self) -> None:
        """Ends every token."""
        with TokenFile(self.data) as store:
            for token in store.all():
                assert store.revoke(token.id)

    async def ticket(self, token: str, queue: str = "members") -> str:
        """A new ticket."""
        answer = await self.line.ask("POST", f"/{queue}/tickets", bearer(token), {})
        assert answer.status == 201, answer
        return str(answer.json["ticket"])

    async def knock(self, query: str, target: str = "/members/monitor", token: str = "") -> int:
        """0 where a socket opens with this query, else the code that it is closed with."""
        heard = await talk(self.server.ws_url, target, Caller(query, bearer(token).headers if token else ()), [])
        return heard.code if isinstance(heard, Closed) else 0


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    async with a_box(tmp_path) as made:
        yield made


@asynccontextmanager
async def a_box(folder: Path) -> AsyncIterator[Box]:
    clock = ManualClock()
    async with running_server(folder, TOML, clock=clock) as server, Line(server.base_url) as line:
        yield Box(server, line, clock, folder / "data")


@pytest.mark.protocol("2.18", "2.19", "5.49")
async def test_a_ticket_opens_one_connection(box: Box) -> None:
    ticket = await box.ticket(box.token())
    assert [await box.knock(f"ticket={ticket}") for _ in range(3)] == [0, 4401, 4401]


async def test_of_many_that_come_at_once_one_gets_in(box: Box) -> None:
    ticket = await box.ticket(box.token())
    codes = await asyncio.gather(*(box.knock(f"ticket={ticket}") for _ in range(20)))
    assert sorted(codes) == [0] + [4401] * 19


@pytest.mark.protocol("2.18", "5.49")
async def test_it_says_when_it_ends(box: Box) -> None:
    answer = await box.line.ask("POST", "/members/tickets", bearer(box.token()), {})
    assert set(answer.json) == {"ticket", "expiresAt"}
    assert answer.json["expiresAt"] == box.clock.now() + LIFE


@pytest.mark.protocol("2.18")
async def test_it_is_good_for_30_seconds(box: Box) -> None:
    token = box.token()
    for after, code in ((0, 0), (LIFE - 1, 0), (LIFE, 4401), (LIFE * 100, 4401)):
        ticket = await box.ticket(token)
        box.clock.advance(after)
        assert await box.knock(f"ticket={ticket}") == code


@pytest.mark.protocol("2.18")
async def test_it_shares_the_end_of_its_token(box: Box) -> None:
    ends = box.clock.now() + 10_000
    answer = await box.line.ask("POST", "/members/tickets", bearer(box.token(expires_at=ends)), {})
    assert answer.json["expiresAt"] == ends
    box.clock.advance(10_000)
    assert await box.knock(f"ticket={answer.json['ticket']}") == 4401


async def test_it_ends_when_its_token_is_revoked(box: Box) -> None:
    """Before it is used it is worth nothing any more; the socket that it opened is closed within 5 s."""
    token = box.token()
    used, unused = await box.ticket(token), await box.ticket(token)
    async with raw_socket(f"{box.server.ws_url}/members/work?ticket={used}") as socket:
        socket.say({"renew": {"id": NONE}})
        assert (await socket.hear())["type"] == "renew-ack"
        box.revoke_all()
        async with asyncio.timeout(5):
            assert await socket.closed() == 4401
    assert await box.knock(f"ticket={unused}") == 4401


@pytest.mark.protocol("2.18")
async def test_it_has_the_rights_of_its_token(box: Box) -> None:
    each: list[tuple[Right, int, int]] = [("fetch", 0, 4403), ("work", 4403, 0), ("post", 4403, 4403), ("admin", 0, 0)]
    for right, monitor, work in each:
        token = box.token(right)
        assert await box.knock(f"ticket={await box.ticket(token)}", "/members/monitor") == monitor
        assert await box.knock(f"ticket={await box.ticket(token)}", "/members/work") == work


async def test_it_is_none_on_another_queue(box: Box) -> None:
    """An invalid one, whatever the token could do there, and whether it is there at all."""
    ticket = await box.ticket(box.token())
    for queue in ("lists", "public", "nowhere"):
        assert await box.knock(f"ticket={ticket}", f"/{queue}/monitor") == 4401


async def test_how_it_is_written(box: Box) -> None:
    """As a token is: the name exact, the value exact after one decoding. It is no token, and a token is no ticket."""
    token = box.token()
    good = ["ticket={0}", "x=1&ticket={0}", "ticket={0}&ticket={0}"]
    assert [await box.knock(each.format(await box.ticket(token))) for each in good] == [0] * 3
    assert await box.knock(f"ticket={encoded(await box.ticket(token))}") == 0
    bad = ["Ticket={0}", "TICKET={0}", "ticket={0}%0a", "ticket={0}%20", "ticket=%20{0}", "token={0}", "ticket={0}x"]
    assert [await box.knock(each.format(await box.ticket(token))) for each in bad] == [4401] * len(bad)
    assert [await box.knock(each) for each in ("ticket=", "ticket", f"ticket={token}")] == [4401] * 3
    assert await box.knock("", token=await box.ticket(token)) == 4401


async def test_a_ticket_beside_something_else_is_not_taken(box: Box) -> None:
    """Which of them is meant? A refused one is not used up."""
    token, other = box.token(), box.token(user="bob")
    ticket = await box.ticket(token)
    assert await box.knock(f"ticket={ticket}&token={other}") == 4401
    assert await box.knock(f"ticket={ticket}&token={token}") == 4401
    assert await box.knock(f"ticket={ticket}&ticket={await box.ticket(other)}") == 4401
    assert await box.knock(f"ticket={ticket}", token=other) == 4401
    assert await box.knock(f"ticket={ticket}") == 0


async def test_it_gives_no_further_tickets_and_no_requests(box: Box) -> None:
    """It is for handshakes: over HTTP it says nothing, so the answer is that of nobody."""
    ticket = Caller(f"ticket={await box.ticket(box.token())}")
    for method, path in (("POST", "/tickets"), ("POST", "/items"), ("GET", f"/items/{NONE}"), ("POST", "/claim")):
        body = {"item": 1} if method == "POST" else None
        answer = await box.line.ask(method, f"/members{path}", ticket, body)
        assert answer == await box.line.ask(method, f"/members{path}", Caller(), body)
        assert answer.status == 401


@pytest.mark.protocol("2.29")
async def test_who_takes_many_takes_none_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token may have so many that wait, on each queue; one that is used or over makes place for another."""
    monkeypatch.setattr(access, "MOST_TICKETS", 3)
    async with a_box(tmp_path) as box:
        greedy, other, bobs = box.token(), box.token(), box.token(user="bob")

        async def asks(token: str, queue: str = "members") -> int:
            answer = await box.line.ask("POST", f"/{queue}/tickets", bearer(token), {})
            assert answer.status == 201 or answer.json["code"] == "limit"
            return answer.status

        used = await box.ticket(greedy)
        assert [await asks(greedy) for _ in range(4)] == [201, 201, 429, 429]
        assert [await asks(other), await asks(bobs), await asks(greedy, "lists")] == [201] * 3
        assert await box.knock(f"ticket={used}") == 0
        assert [await asks(greedy) for _ in range(2)] == [201, 429]
        box.clock.advance(LIFE)
        assert [await asks(greedy) for _ in range(4)] == [201, 201, 201, 429]


async def test_tickets_cannot_be_guessed_and_are_not_kept(box: Box) -> None:
    """128 bits or more, each another; nothing of them in the data folder."""
    token = box.token()
    tickets = [await box.ticket(token) for _ in range(100)]
    assert len(set(tickets)) == 100
    assert all(len(ticket) >= 22 and ticket.isascii() for ticket in tickets)
    assert len({ticket[place] for place in range(-22, 0) for ticket in tickets}) > 32
    stored = b"".join(path.read_bytes() for path in box.data.iterdir())
    assert not [ticket for ticket in tickets if ticket.encode() in stored]
