"""Which pages may speak to a server, by where it stands, what it lists, and what the browser says; and CORS headers."""

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import orjson
import pytest
from starlette.types import Message, Receive, Scope, Send

from leaseway_server.core.errors import NotAllowed
from leaseway_server.web.origin import OriginGuard, check_origin
from leaseway_server.web.site import Site
from support.clock import ManualClock
from support.tokens import TokenFile

LISTED: Final = "https://app.example.com"
OTHER: Final = "https://other.example.com"
HOST: Final = "127.0.0.1:8787"
Sites = Callable[..., Site]


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """Makes a site without queues, which trusts a proxy on loopback as servers do by default."""
    with TokenFile(tmp_path) as tokens:

        def site(*origins: str, on_loopback: bool = True) -> Site:
            return Site(
                {},
                tokens.access,
                ManualClock(),
                allowed_origins=frozenset(origins),
                trusted_proxies=(ip_network("127.0.0.1"),),
                on_loopback=on_loopback,
            )

        yield site


def scope(*headers: tuple[str, str], method: str = "GET", kind: str = "http") -> Scope:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": kind, "method": method, "path": "/demo/items", "client": ("127.0.0.1", 1), "headers": encoded}


def page(origin: str, host: str = HOST, *more: tuple[str, str], method: str = "GET") -> Scope:
    return scope(("host", host), ("origin", origin), *more, method=method)


def answer(site: Site, asked: Scope) -> str:
    """What `check_origin` says, or "refused"."""
    try:
        return check_origin(asked, site)
    except NotAllowed:
        return "refused"


def test_who_is_no_page_is_not_asked(sites: Sites) -> None:
    assert check_origin(scope(("host", HOST)), sites()) == ""
    assert check_origin(scope(), sites(LISTED)) == ""


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (LISTED, LISTED),
        (OTHER, OTHER),
        ("http://app.example.com", "refused"),
        ("https://app.example.com:443", "refused"),
        ("https://app.example.com/", "refused"),
        ("https://APP.example.com", "refused"),
        ("https://app.example.com.", "refused"),
        ("https://app.example.com, https://app.example.com", "refused"),
        ("null", "refused"),
        ("", "refused"),
        ("*", "refused"),
        ("https://app.example.com\xff", "refused"),
    ],
)
def test_pages_of_other_sites_are_those_that_are_listed(origin: str, expected: str, sites: Sites) -> None:
    assert answer(sites(LISTED, OTHER), page(origin)) == expected


def test_pages_without_an_origin_of_their_own_may_be_listed(sites: Sites) -> None:
    assert answer(sites("null"), page("null")) == "null"
    assert answer(sites(), page("null", "null")) == "refused"


def test_two_origins_are_none_that_is_listed(sites: Sites) -> None:
    for first, second in ((LISTED, LISTED), (LISTED, "https://evil.example"), (f"http://{HOST}", f"http://{HOST}")):
        asked = scope(("host", HOST), ("origin", first), ("origin", second))
        assert answer(sites(LISTED), asked) == "refused"


# What the host is called, of whose page a browser speaks; and whether that is our own: on loopback, and elsewhere.
OWN: Final = """
127.0.0.1:8787           http://127.0.0.1:8787         own      own
127.0.0.2                http://127.0.0.2              own      own
localhost:8787           http://localhost:8787         own      own
LOCALHOST:8787           http://localhost:8787         own      own
localhost:8787           https://localhost:8787        own      own
leaseway.localhost:8787  http://leaseway.localhost:8787 own     own
[::1]:8787               http://[::1]:8787             own      own
127.0.0.1:8787           http://127.0.0.1              refused  refused
127.0.0.1                http://127.0.0.1:80           refused  refused
127.0.0.1:8787           http://localhost:8787         refused  refused
127.0.0.1:8787           ws://127.0.0.1:8787           refused  refused
127.0.0.1:8787           httpx://127.0.0.1:8787        refused  refused
127.0.0.1:8787           http://a@127.0.0.1:8787       refused  refused
127.0.0.1:8787           http://127.0.0.1:8787/        refused  refused
127.0.0.1:8787           127.0.0.1:8787                refused  refused
127.0.0.1:8787           http://[                      refused  refused
[                        http://[                      refused  own
[::1                     http://[::1                   refused  own
evil.example:8787        http://evil.example:8787      refused  own
evil.localhost.example   http://evil.localhost.example refused  own
notlocalhost             http://notlocalhost           refused  own
192.0.2.7:8787           http://192.0.2.7:8787         refused  own
0.0.0.0:8787             http://0.0.0.0:8787           refused  own
task.example.com         https://task.example.com      own      own
task.example.com:8443    https://task.example.com:8443 own      own
task.example.com         https://task.example.com:8443 refused  refused
task.example.com         https://example.com           refused  refused
"""


@pytest.mark.parametrize("row", OWN.strip().splitlines())
@pytest.mark.parametrize("forwarded", [[], [("x-forwarded-for", "192.0.2.1")]])
def test_which_pages_are_our_own(row: str, forwarded: list[tuple[str, str]], sites: Sites) -> None:
    """Whatever a page may write itself, such as where it was forwarded from, makes nothing its own."""
    host, origin, on_loopback, elsewhere = row.split()
    for site, expected in ((sites(), on_loopback), (sites(on_loopback=False), elsewhere)):
        assert answer(site, page(origin, host, *forwarded)) == ("" if expected == "own" else expected)


def test_two_hosts_or_none_are_not_ours(sites: Sites) -> None:
    for hosts in ([], [("host", HOST), ("host", HOST)]):
        assert answer(sites(on_loopback=False), scope(*hosts, ("origin", f"http://{HOST}"))) == "refused"


# ── What the browser is told ──


class Asked:
    """A request through the guard, to an application that answers 200 with two headers of its own."""

    def __init__(self) -> None:
        self.reached = False
        self.started: Message = {}
        self.body = b""

    async def app(self, asked: Scope, receive: Receive, send: Send) -> None:
        self.reached = True
        if asked["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"1"), (b"b", b"2")]})
            await send({"type": "http.response.body", "body": b"fine"})

    async def through(self, site: Site, asked: Scope) -> dict[str, str]:
        """Asks, and gives the headers of the answer."""
        await OriginGuard(self.app, site)(asked, self._receive, self._send)
        pairs = [(name.decode(), value.decode("latin-1")) for name, value in self.started.get("headers", ())]
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    async def _receive(self) -> Message:
        return {"type": "http.request"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = message
        else:
            self.body += message["body"]


async def test_a_listed_page_may_read_the_answer(sites: Sites) -> None:
    asked = Asked()
    assert await asked.through(sites(LISTED), page(LISTED)) == {
        "a": "1",
        "b": "2",
        "access-control-allow-origin": LISTED,
        "access-control-expose-headers": "x-request-id",
        "vary": "Origin",
    }
    assert (asked.started["status"], asked.body) == (200, b"fine")


async def test_a_preflight_of_a_listed_page_is_answered_without_the_application(sites: Sites) -> None:
    asked = Asked()
    headers = await asked.through(sites(LISTED), page(LISTED, method="OPTIONS"))
    assert (asked.reached, asked.started["status"], asked.body) == (False, 204, b"")
    assert headers["access-control-allow-origin"] == LISTED
    assert headers["access-control-allow-methods"] == "GET, POST, PATCH, DELETE"
    assert headers["access-control-allow-headers"] == "authorization, content-type, idempotency-key"
    assert headers["vary"] == "Origin"
    assert int(headers["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_an_unlisted_page_is_refused_before_the_application(method: str, sites: Sites) -> None:
    asked = Asked()
    headers = await asked.through(sites(LISTED), page("https://evil.example", method=method))
    assert (asked.reached, asked.started["status"]) == (False, 403)
    assert orjson.loads(asked.body)["code"] == "not-allowed"
    assert headers["vary"] == "Origin"
    assert not [name for name in headers if name.startswith("access-control-")]


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@pytest.mark.parametrize("origin", ["", f"http://{HOST}"])
async def test_our_own_pages_and_programs_need_no_headers(origin: str, method: str, sites: Sites) -> None:
    """An answer that would be another for another origin says so."""
    own = [("origin", origin)] if origin else []
    for site, vary in ((sites(), {}), (sites(LISTED), {"vary": "Origin"})):
        asked = Asked()
        assert await asked.through(site, scope(("host", HOST), *own, method=method)) == {"a": "1", "b": "2", **vary}
        assert asked.reached


async def test_sockets_are_not_the_guards(sites: Sites) -> None:
    """A handshake is accepted before it is refused: a browser can read nothing else (§2)."""
    asked = Asked()
    await asked.through(sites(), scope(("host", HOST), ("origin", "https://evil.example"), kind="websocket"))
    assert asked.reached
