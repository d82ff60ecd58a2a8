"""Pages under a name that is not ours: of a proxy with TLS before us, or of an attacker whose DNS points here (§2).

Which names are ours is told by `test_host.py`, which origins by `test_origin.py`.
"""

from pathlib import Path
from typing import Final

import pytest

from support.logged import logged
from support.matrix import NONE, Answer, Caller, Closed, Line, bearer, talk
from support.server import TestServer, open_queue, running_server

FORWARDED: Final[list[tuple[str, ...]]] = [
    (),
    ("X-Forwarded-For: 192.0.2.1",),
    ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: task.example.com", "Via: 1.1 Caddy"),
]
"""What stands in the way of a page that wants to look as if a proxy sent it: nothing, it writes such headers itself."""


async def post(line: Line, host: str, origin: str, more: tuple[str, ...]) -> Answer:
    """A page of `origin` posts to its own host."""
    lines = ["POST /demo/items HTTP/1.1", f"Host: {host}", f"Origin: {origin}", *more]
    return await line.say(
        "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: 10", "", ""]).encode() + b'{"item":1}'
    )


async def knock(server: TestServer, host: str, origin: str, more: tuple[str, ...]) -> int:
    """It opens a socket; 0 where it may, else the close code."""
    caller = Caller(headers=(f"Host: {host}", f"Origin: {origin}", *more))
    heard = await talk(server.ws_url, "/demo/monitor", caller, [])
    return heard.code if isinstance(heard, Closed) else 0


@pytest.mark.parametrize("more", FORWARDED)
async def test_a_name_that_was_pointed_here_is_refused_whatever_its_page_writes(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        host = f"evil.example:{server.base_url.rpartition(':')[2]}"
        answer = await post(line, host, f"http://{host}", more)
        assert (answer.status, answer.json["code"]) == (403, "not-allowed")
        assert await knock(server, host, f"http://{host}", more) == 4403
        assert (await line.ask("POST", "/demo/claim", body={})).json["type"] == "empty"


@pytest.mark.parametrize("more", FORWARDED[1:])
async def test_a_proxy_with_tls_brings_the_pages_of_its_own_site(more: tuple[str, ...], tmp_path: Path) -> None:
    """Without being listed. Pages of other sites, also by the same name without TLS, are others."""
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        own = await post(line, "task.example.com", "https://task.example.com", more)
        assert (own.status, own.header("access-control-allow-origin")) == (201, None)
        assert await knock(server, "task.example.com", "https://task.example.com", more) == 0
        for other in ("http://task.example.com", "https://example.com", "https://task.example.com:8443", "null"):
            assert (await post(line, "task.example.com", other, more)).status == 403
            assert await knock(server, "task.example.com", other, more) == 4403


async def test_what_is_no_origin_is_refused_and_fails_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        for host, origin in (("x", "http://["), ("[", "http://["), ("x", "//"), ("x", "ÿ" * 3_000)):
            assert (await post(line, host, origin, ())).status == 403
            assert await knock(server, host, "http://[", ()) == 4403
    assert not [record for record in caplog.records if record.exc_info]


# ── Without an origin: a page's GETs of its own site, and every program ──

CLOSED: Final = "[queues.members]\n"
OPEN_TOO: Final = open_queue() + CLOSED
EVIL: Final = "evil.example:8787"
REQUESTS: Final = [
    ("GET", f"/items/{NONE}"),
    ("GET", f"/items/{NONE}?waitMs=60000"),
    ("GET", f"/items/{NONE}/item"),
    ("POST", "/items"),
    ("POST", f"/items/{NONE}/cancel"),
    ("POST", "/claim"),
    ("POST", "/result"),
    ("POST", "/tickets"),
]


async def ask(line: Line, host: str, method: str, path: str, *more: str) -> Answer:
    """A request to a name, which says no origin."""
    body = b'{"item":1}' if method == "POST" else b""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *more, f"Content-Length: {len(body)}"]
    return await line.say("\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + body)


@pytest.mark.protocol("2.27")
@pytest.mark.parametrize("more", FORWARDED)
async def test_a_page_of_another_name_gets_nothing_of_what_is_open(more: tuple[str, ...], tmp_path: Path) -> None:
    """Nor does it learn which queues there are."""
    async with running_server(tmp_path, OPEN_TOO) as server, Line(server.base_url) as line:
        item_id = (await line.ask("POST", "/demo/items", body={"item": "secret"})).json["id"]
        for method, path in [*REQUESTS, ("GET", f"/items/{item_id}")]:
            answers = {await ask(line, EVIL, method, f"/{name}{path}", *more) for name in ("demo", "members", "none")}
            assert len(answers) == 1, answers
            (answer,) = answers
            assert (answer.status, answer.header("content-type")) == (421, "application/problem+json")
            assert (answer.json["status"], answer.json["code"]) == (421, "not-allowed")
            assert "allowed_origins" in answer.json["detail"]
        for socket in ("monitor", "work"):
            caller = Caller(headers=(f"Host: {EVIL}", *more))
            heard = await talk(server.ws_url, f"/demo/{socket}", caller, [{"claim": {}}])
            assert isinstance(heard, Closed)
            assert (heard.code, "Host" in heard.reason) == (4403, True)
        assert (await line.ask("POST", "/demo/claim", body={})).json["item"] == "secret", (
            "nothing was posted or claimed"
        )


async def test_who_has_a_token_may_come_by_any_name(tmp_path: Path) -> None:
    """A page of an attacker has none. So the queues behind a proxy stay as they are where one is opened beside them."""
    async with running_server(tmp_path, OPEN_TOO, users={"ann": []}) as server, Line(server.base_url) as line:
        ann = bearer(server.tokens["ann"])
        ticket = (await line.ask("POST", "/members/tickets", ann, {})).json["ticket"]
        for queue in ("demo", "members"):
            assert (await ask(line, EVIL, "POST", f"/{queue}/items", *ann.headers)).status == 201
            assert (await ask(line, EVIL, "GET", f"/{queue}/items/{NONE}?token=guess")).status == 401
        for caller in (ann, Caller(f"ticket={ticket}")):
            named = Caller(caller.query, (*caller.headers, f"Host: {EVIL}"))
            assert isinstance(await talk(server.ws_url, "/members/monitor", named, []), list)


@pytest.mark.parametrize(("toml", "status"), [(CLOSED, 401), (open_queue(), 421), (OPEN_TOO, 421)])
async def test_where_nothing_is_open_the_name_is_not_asked_for(toml: str, status: int, tmp_path: Path) -> None:
    async with running_server(tmp_path, toml) as server, Line(server.base_url) as line:
        for queue in ("demo", "members", "none"):
            assert (await ask(line, EVIL, "GET", f"/{queue}/items/{NONE}")).status == status
        for path in ("/_health", "/_ready", "/"):
            assert (await ask(line, EVIL, "GET", path)).status == 200, "what has no secrets"


async def test_a_proxy_brings_what_is_open_where_its_site_is_listed(tmp_path: Path) -> None:
    """Programs behind it, and GETs of its own pages. Read anew, that counts at once."""
    toml = f'[server]\nallowed_origins = ["https://a.example.com"]\n{open_queue()}'
    async with running_server(tmp_path, toml) as server, Line(server.base_url) as line:

        async def may(host: str) -> bool:
            status = (await ask(line, host, "GET", f"/demo/items/{NONE}", *FORWARDED[2])).status
            heard = await talk(server.ws_url, "/demo/monitor", Caller(headers=(f"Host: {host}", *FORWARDED[2])), [])
            assert (status, isinstance(heard, list)) in ((404, True), (421, False))
            return status == 404

        assert (await may("a.example.com"), await may("b.example.com")) == (True, False)
        file = tmp_path / "leaseway.toml"
        file.write_text(file.read_text().replace("https://a.example.com", "https://b.example.com"))
        server.running.reload()
        assert (await may("a.example.com"), await may("b.example.com")) == (False, True)


async def test_a_name_that_is_not_ours_is_told_once(tmp_path: Path) -> None:
    with logged() as log:
        async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
            await ask(line, EVIL, "GET", f"/demo/items/{NONE}", "X-Forwarded-For: 192.0.2.1")
    (told,) = [entry for entry in log.entries if entry["event"] in ("access.refused", "request.refused")]
    assert (told["event"], told["reason"], told["address"]) == ("access.refused", "host", "192.0.2.1")
