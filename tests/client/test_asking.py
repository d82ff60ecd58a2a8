"""What a producer learns from the answers of HTTP, against a server that answers as it is told."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from client.scripted_peer import A, status
from leaseway.asking import Asking
from leaseway.errors import (
    ConnectionLost,
    Forbidden,
    LeasewayError,
    NoSuchQueue,
    Rejected,
    Unauthorized,
    UnknownItem,
)
from leaseway.http import Remote
from support.peer import peer_server


class Peer:
    """Gives each request the same answer, and notes what was asked."""

    def __init__(self) -> None:
        self.answer: tuple[int, Any] = (200, {})
        self.asked: list[str] = []
        self.sockets: set[tuple[str, int]] = set()
        self.url = ""
        self.closes = True  # Without a word, as a server does with a connection that was idle for long.
        self.asking = Asking("http://127.0.0.1:1/demo", None)

    def refuse(self, number: int, code: str, *errors: dict[str, str]) -> None:
        self.answer = (number, {"code": code, "detail": "what is said", "errors": list(errors)})


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            peer.sockets.add(self.client_address)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            peer.asked.append(f"{self.command} {self.path}")
            number, value = peer.answer
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(number)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = peer.closes

        do_POST = do_GET  # noqa: N815  The library's name.

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    with peer_server(Handler) as port:
        peer.url = f"ws://127.0.0.1:{port}/demo"
        peer.asking = Asking(peer.url, "lw_canary")
        yield peer


@pytest.mark.parametrize(
    ("number", "code", "raised"),
    [
        (401, "unauthorized", Unauthorized), (403, "not-allowed", Forbidden), (404, "not-found", UnknownItem),
        (409, "conflict", Rejected), (422, "bad-message", Rejected), (429, "limit", Rejected),
        (503, "unavailable", Rejected),
    ],
)  # fmt: skip
async def test_a_refusal_is_told_as_what_it_is(peer: Peer, number: int, code: str, raised: type[LeasewayError]) -> None:
    peer.refuse(number, code)
    with pytest.raises(raised, match="what is said") as told:
        await peer.asking.why(A)
    assert not isinstance(told.value, Rejected) or told.value.code == code
    assert "lw_canary" not in str(told.value)
    assert peer.asked == [f"GET /demo/items/{A}/why"]


async def test_a_queue_that_is_not_there_is_no_unknown_item(peer: Peer) -> None:
    peer.refuse(404, "not-found")
    with pytest.raises(NoSuchQueue):
        await peer.asking.bulk_items()
    assert peer.asked == ["GET /demo"]


async def test_the_places_of_a_refusal_are_kept(peer: Peer) -> None:
    fault = {"path": "/item/width", "message": "not an integer"}
    peer.refuse(422, "schema", fault)
    with pytest.raises(Rejected, match="schema: /item/width: not an integer") as told:
        await peer.asking.view(A)
    assert told.value.errors == [fault]


async def test_only_a_conflict_means_that_it_had_ended(peer: Peer) -> None:
    peer.refuse(409, "conflict")
    assert not await peer.asking.cancel(A)
    peer.refuse(429, "limit")
    with pytest.raises(Rejected, match="limit"):
        await peer.asking.cancel(A)
    peer.answer = (200, status(state="cancelled"))
    assert await peer.asking.cancel(A)
    assert peer.asked == [f"POST /demo/items/{A}/cancel"] * 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>"), r"no Leaseway server \(status 200\)"),
        ((200, {"other": 1}), "no Leaseway server"),
        ((502, b"bad gateway"), r"no Leaseway server \(status 502\)"),
        ((301, b""), "sends elsewhere"),
    ],
)
async def test_somebody_else_who_answers_is_told(peer: Peer, answer: tuple[int, Any], said: str) -> None:
    peer.answer = answer
    with pytest.raises(ConnectionLost, match=said):
        await peer.asking.view(A)


async def test_a_list_that_never_ends_is_told(peer: Peer) -> None:
    peer.answer = (200, {"items": [status()], "next": "again"})
    found = peer.asking.items({"status": "pending", "label": None})
    assert [(await anext(found)).id, (await anext(found)).id] == [A, A]
    with pytest.raises(ConnectionLost, match="again and again"):
        await anext(found)
    assert peer.asked == [f"GET /demo/items?status=pending&limit=100{more}" for more in ("", "&cursor=again")]


async def test_a_list_can_do_without_results(peer: Peer) -> None:
    peer.answer = (200, {"items": [status()], "next": None})
    assert [view.result async for view in peer.asking.items({"key": "a"}, results=False)] == [None]
    assert peer.asked == ["GET /demo/items?key=a&results=false&limit=100"]


@pytest.mark.parametrize("closes", [True, False])
def test_a_connection_that_was_closed_meanwhile_costs_no_get(peer: Peer, closes: bool) -> None:
    peer.answer, peer.closes = (200, status()), closes
    with closing(Remote(peer.url, None)) as remote:
        for _ in range(3):
            assert remote.get(f"items/{A}", "status")["id"] == A
    assert len(peer.asked) == 3
    assert len(peer.sockets) == (3 if closes else 1)


def test_what_is_no_get_is_never_said_twice(peer: Peer) -> None:
    peer.answer = (200, status())
    with closing(Remote(peer.url, None)) as remote:
        remote.post(f"items/{A}/cancel", "status")
        with pytest.raises(ConnectionLost, match="cannot reach"):
            remote.post(f"items/{A}/cancel", "status")
    assert len(peer.asked) == 1
