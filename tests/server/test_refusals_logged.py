"""Each request that is refused makes one line in the log, of one event: who was refused access, or a client's mistake.

That floods of them make few lines is told by `test_audit.py`.
"""

from pathlib import Path
from typing import Any, Final

from support.logged import logged
from support.matrix import NONE, Caller, Line, bearer, rows
from support.server import OPEN_ACCESS, running_server

TOML: Final = f"""[server]
[server.limits]
failed_tokens_per_minute = 3
connections_per_address = 1
[queues.members]
access = {{ admin = ["root"] }}
[queues.lists]
access = {{ post = ["ann"], fetch = [], work = [] }}
[queues.public]
access = {OPEN_ACCESS}
"""

# {id} is an item of root's. The reason is that of `access.refused`; `-` is a `request.refused` with the status alone.
REFUSED: Final = """
request                       who    status reason
POST:/members/items           -      401    unauthorized
POST:/members/items           guess  401    unauthorized
POST:/members/items?token=x   ann    401    unauthorized
POST:/nowhere/items           -      401    unauthorized
POST:/nowhere/items           ann    404    not-found
POST:/lists/items             bob    404    not-found
GET:/lists/items/{none}       ann    403    not-allowed
POST:/members/items/{id}/cancel ann  403    not-allowed
POST:/public/tickets          -      401    unauthorized
GET:/public/items/{none}      evil   403    origin
GET:/public/items/{none}      named  421    host
GET:/members/items/{none}     ann    404    -
GET:/members/items/{id}?waitMs=x ann 422    -
POST:/members/items           ann    422    -
POST:/members/fail            ann    422    -
"""
CALLERS: Final = {
    "-": Caller(),
    "guess": bearer("lw_guess"),
    "evil": Caller(headers=("Origin: https://evil.example",)),
    "named": Caller(headers=("Host: evil.example",)),
}


async def test_what_is_refused_is_told_once(tmp_path: Path) -> None:
    wrong = []
    with logged() as log:
        async with (
            running_server(tmp_path, TOML, users={name: [] for name in ("ann", "bob", "root")}) as server,
            Line(server.base_url) as line,
        ):
            root = bearer(server.tokens["root"])
            item_id = (await line.ask("POST", "/members/items", root, {"item": 1})).json["id"]
            for request, cells in rows(REFUSED):
                method, _, path = request.format(id=item_id, none=NONE).partition(":")
                caller = CALLERS.get(cells["who"]) or bearer(server.tokens[cells["who"]])
                before = len(log.entries)
                answer = await line.ask(method, path, caller, {} if method == "POST" else None)
                told = [line_of(entry) for entry in refusals(log.entries[before:])]
                reason, code = cells["reason"], answer.json["code"]
                expected = ("access.refused", reason) if reason != "-" else ("request.refused", code)
                if (answer.status, told) != (int(cells["status"]), [expected]):
                    wrong.append(f"{request}: {answer.status} {told}")
    assert not wrong, "\n".join(wrong)


async def test_so_are_limits(tmp_path: Path) -> None:
    """Too many tokens that are not valid, and too many requests at once."""
    with logged() as log:
        async with (
            running_server(tmp_path, TOML) as server,
            Line(server.base_url) as line,
            Line(server.base_url) as busy,
        ):
            for status in (401, 401, 401, 429):
                assert (await line.ask("POST", "/members/items", bearer("lw_guess"), {})).status == status
            await busy.begin(
                b"POST /public/items HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
            )
            forwarded = Caller(headers=("X-Forwarded-For: 192.0.2.1",))
            site = server.running.site
            assert site is not None
            while not len(site.connections_of_address):
                assert (await line.ask("GET", "/_health")).status == 200
            assert (await line.ask("GET", f"/public/items/{NONE}", forwarded)).status == 429
    told = [line_of(entry) for entry in refusals(log.entries)]
    assert told == [("access.refused", "unauthorized")] * 3 + [("access.refused", "limit")] * 2


def line_of(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["event"], entry["reason"] if entry["event"] == "access.refused" else entry["code"]


def refusals(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["event"] in ("access.refused", "request.refused")]
