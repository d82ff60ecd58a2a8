"""Pages of other sites (PROTOCOL.md §2): every origin × sockets and requests, against a table written by hand. CORS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from support.matrix import NONE, Answer, Caller, Closed, Line, bearer, rows, talk
from support.server import OPEN_ACCESS, TestServer, running_server

LISTED: Final = "https://app.example.com"
TOML: Final = (
    f'[server]\nallowed_origins = ["{LISTED}", "https://other.example.com"]\n'
    f"[queues.public]\naccess = {OPEN_ACCESS}\n"
    "[queues.members]\n"
)

# {host} is the server's own. `-` is no header.
ORIGINS: Final = """
origin                                   answer
-                                        ok
https://app.example.com                  ok
https://other.example.com                ok
http://{host}                            ok
http://app.example.com                   no
https://app.example.com:8443             no
https://app.example.com.evil.example     no
https://sub.app.example.com              no
https://evilapp.example.com              no
https://app.example.com@evil.example     no
https://evil.example                     no
http://127.0.0.1                         no
http://127.0.0.1:1                       no
http://{host}.evil.example               no
http://{host}@evil.example               no
http://evil.example/{host}               no
null                                     no
file://                                  no
chrome-extension://{host}                no
ws://{host}                              no
{host}                                   no
*                                        no
"""


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[TestServer, Line]]:
    async with running_server(folder, TOML, users={"alice": []}) as server, Line(server.base_url) as line:
        yield server, line


def page(origin: str, token: str = "") -> Caller:
    """A page of this origin."""
    return Caller(
        headers=(*(() if origin == "-" else (f"Origin: {origin}",)), *(bearer(token).headers if token else ()))
    )


def allowed(answer: Answer) -> str | None:
    return answer.header("access-control-allow-origin")


@pytest.mark.protocol("2.15")
async def test_which_pages_may_speak_to_the_server(tmp_path: Path) -> None:
    wrong = []
    async with serving(tmp_path) as (server, line):
        host = server.base_url.removeprefix("http://")
        for row, cells in rows(ORIGINS):
            origin = row.format(host=host)
            for token in ("", server.tokens["alice"]):
                for socket in ("monitor", "work"):
                    heard = await talk(server.ws_url, f"/public/{socket}", page(origin, token), [{"claim": {}}])
                    if (heard.code if isinstance(heard, Closed) else "ok") != (
                        "ok" if cells["answer"] == "ok" else 4403
                    ):
                        wrong.append(f"{origin}: {socket}: {heard}")
                posted = await line.ask("POST", "/public/items", page(origin, token), {"item": row})
                looked = await line.ask("GET", f"/public/items/{NONE}", page(origin, token))
                if (posted.status, looked.status) != ((201, 404) if cells["answer"] == "ok" else (403, 403)):
                    wrong.append(f"{origin}: {posted} {looked}")
        assert not wrong, "\n".join(wrong)
        held = (await line.ask("POST", "/public/claim", Caller(), {"count": 1_000})).json
        posted_by = {one["item"] for one in held if one["type"] == "item"}
        assert posted_by == {row for row, cells in rows(ORIGINS) if cells["answer"] == "ok"}


async def test_a_page_that_may_not_speak_is_told_nothing(tmp_path: Path) -> None:
    """The same whatever it asks for, and whoever it is; and its browser may not show it the answer."""
    async with serving(tmp_path) as (server, line):
        answers = {
            await line.ask(method, path, page("https://evil.example", token))
            for method, path in (
                ("GET", f"/members/items/{NONE}"),
                ("POST", "/nowhere/items"),
                ("OPTIONS", "/public/items"),
            )
            for token in ("", server.tokens["alice"], "lw_unknown")
        }
        assert len(answers) == 1, answers
        (answer,) = answers
        assert answer.status == 403
        assert not [line for line in answer.headers if line.startswith("access-control-")]


async def test_a_page_cannot_post_by_a_form(tmp_path: Path) -> None:
    """A form needs no preflight. Neither its origin nor its content types are taken."""
    async with serving(tmp_path) as (server, line):
        host = server.base_url.removeprefix("http://")
        for origin in ("https://evil.example", LISTED, f"http://{host}"):
            for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
                request = (
                    f"POST /public/items HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Type: {media}\r\n"
                    'Content-Length: 12\r\n\r\n{"item": 1}\n'
                )
                answer = await line.say(request.encode())
                assert answer.status == (403 if "evil" in origin else 415)
        assert (await line.ask("POST", "/public/claim", Caller(), {})).json["type"] == "empty"


async def test_a_name_that_points_here_is_not_our_own(tmp_path: Path) -> None:
    """DNS rebinding: to the browser the page of evil.example and a server on loopback are one origin; not to us."""
    async with serving(tmp_path) as (server, line):
        port = server.base_url.rpartition(":")[2]
        request = f"GET /public/items/{NONE} HTTP/1.1\r\nHost: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n\r\n"
        assert (await line.say(request.encode())).status == 403


async def test_preflights(tmp_path: Path) -> None:
    """They come without a token. A listed page may send ours in a header; credentials of the browser never cross."""
    async with serving(tmp_path) as (_server, line):
        asking = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type")
        answers = {
            await line.ask("OPTIONS", path, page(LISTED), headers=asking)
            for path in ("/public/items", "/members/items", "/nowhere/items", f"/members/items/{NONE}/cancel")
        }
        (answer,) = answers
        assert answer.status in (200, 204)
        assert allowed(answer) == LISTED
        assert "POST" in (answer.header("access-control-allow-methods") or "")
        for name in ("authorization", "content-type", "idempotency-key"):
            assert name in (answer.header("access-control-allow-headers") or "").lower()
        assert answer.header("access-control-allow-credentials") is None
        assert (answer.header("vary") or "").lower() == "origin"


async def test_each_answer_to_a_listed_page_may_be_read_by_it(tmp_path: Path) -> None:
    """Errors too. An answer names the origin that asked, never `*`, and says that it depends on it."""
    async with serving(tmp_path) as (server, line):
        for path, token, status in (
            ("/public/items", "", 201),
            ("/members/items", "", 401),
            ("/members/items", server.tokens["alice"], 201),
            ("/nowhere/items", server.tokens["alice"], 404),
            ("/else", "", 405),
            ("/else/where", "", 404),
        ):
            for origin in (LISTED, "https://other.example.com", "-"):
                answer = await line.ask("POST", path, page(origin, token), {"item": 1})
                assert answer.status == status
                assert allowed(answer) == (None if origin == "-" else origin)
                assert answer.header("access-control-allow-credentials") is None
                assert (answer.header("vary") or "").lower() == "origin"
