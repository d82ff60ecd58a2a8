"""The commands of an administrator against a server that answers as the protocol says: what they ask, what they print,
where, and with which status they end. Against the real server: tests/end_to_end/test_cli_admin.py.
"""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from io import StringIO
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from leaseway import http as http_module
from leaseway.cli.filters import STATUSES
from leaseway.cli.items import items
from leaseway.cli.steer import cancel, delete, pause, retry, unpause
from leaseway.cli.tables import span
from leaseway.cli.why import why
from leaseway_schemas import wire
from support.peer import peer_server
from support.wire import check_http

A, B, C = "00000000000000aa", "00000000000000bb", "00000000000000cc"
TOKEN = "lw_canary-that-sings"
Answer = tuple[int, Any]


class Peer:
    """A server of one queue, `demo`. `answers` are by `METHOD path`, the query left out; a list is used up in order."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, method: str, target: str) -> Answer:
        self.asked.append(f"{method} {target}")
        found = self.answers[f"{method} {target.partition('?')[0]}"]
        return found.pop(0) if isinstance(found, list) else found


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    for variable in ("LEASEWAY_URL", "LEASEWAY_TOKEN", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    peer = Peer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            peer.headers.append(dict(self.headers))
            status, value = peer.answer(self.command, self.path)
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815  The library's name.

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    with peer_server(Handler) as port:
        peer.url = f"http://127.0.0.1:{port}/demo"
        yield peer


def call(command: click.Command, *words: str) -> Result:
    result = CliRunner().invoke(command, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def view(item_id: str, **members: Any) -> dict[str, Any]:
    """A view as the wire has it."""
    made: dict[str, Any] = dict(wire("http-view")["examples"][0])
    ms = int(time.time() * 1000)
    made |= {"id": item_id, "postedAt": ms - 3_700_000, "updatedAt": ms - 65_000, "progress": None, **members}
    made["finishedAt"] = made["updatedAt"] if made["status"] in STATUSES[2:] else None
    made["startedAt"] = made["startedAt"] if made["attempts"] else None
    check_http("view", made)
    return made


def page(*views: dict[str, Any], following: str | None = None) -> Answer:
    return 200, {"items": list(views), "next": following}


def problem(status: int, code: str, detail: str, **members: Any) -> Answer:
    document = {"type": "about:blank", "title": "No", "status": status, "detail": detail, "code": code, **members}
    check_http("problem", document)
    return status, document


PENDING = {"status": "pending", "label": "pending", "attempts": 0, "worker": None, "postedBy": None}
DEAD = {"status": "dead", "label": "dead", "attempts": 5, "error": {"message": "no luck"}, "postedBy": "bob"}

# ── items ──


def test_items_are_lines_with_the_columns_that_hold_something(peer: Peer) -> None:
    busy = view(B, progress={"percent": 40.5}, worker="box-1", postedBy="alice", key=None)
    later = view(C, **(PENDING | {"label": "scheduled", "dueAt": int(time.time() * 1000) + 7_230_000}))
    peer.answers["GET /demo/items"] = page(view(A, **(DEAD | {"worker": None})), busy, later)
    told = call(items, peer.url)
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout.splitlines() == [
        "ID                LABEL       POSTED  CHANGED  ATTEMPTS  BY     NOTE",
        f"{A}  dead        1h ago  1m ago   5         bob    no luck",
        f"{B}  processing  1h ago  1m ago   1         alice  box-1; 40.5 %",
        f"{C}  scheduled   1h ago  1m ago                    due in 2h",
    ]
    assert peer.asked == ["GET /demo/items?results=false&limit=100"]


@pytest.mark.parametrize(
    ("members", "note"),
    [
        ({"progress": {"percent": 7}, "worker": None}, "7 %"),
        ({"progress": {"percent": "7"}, "worker": "box-1"}, "box-1"),
        ({"progress": [50], "worker": None}, ""),
        ({"error": {"message": "as before"}, "worker": "box-1"}, "box-1; as before"),
        (PENDING | {"label": "retrying", "attempts": 1, "error": {"message": "no luck"}}, "due in 0s; no luck"),
        (PENDING | {"progress": {"percent": 7}, "attempts": 1, "worker": "gone", "postedBy": "alice"}, ""),
    ],
)
def test_what_is_noted_of_an_item(peer: Peer, members: dict[str, Any], note: str) -> None:
    peer.answers["GET /demo/items"] = page(view(A, **members))
    assert call(items, peer.url).stdout.splitlines()[1].endswith(f"  {note}" if note else "1m ago   1         alice")


def test_items_asks_for_what_is_wanted(peer: Peer) -> None:
    peer.answers["GET /demo/items"] = page()
    words = ["--status", "dead", "--status", "failed", "--label", "retrying", "--posted-by", "a b&c", "--key", "ä=1"]
    told = call(items, peer.url + "/", *words, "--limit", "7")
    query = "status=dead&status=failed&label=retrying&postedBy=a+b%26c&key=%C3%A4%3D1&results=false&limit=7"
    assert peer.asked == [f"GET /demo/items?{query}"]
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", "There are no such items in demo.\n")
    assert call(items, peer.url).stderr == "demo is empty.\n"


def test_items_follows_cursors_until_the_limit_over_pages_that_are_empty(peer: Peer) -> None:
    pages = [page(view(A), following="x/1"), page(following="2"), page(view(B), view(C), following="3")]
    peer.answers["GET /demo/items"] = list(pages)
    told = call(items, peer.url, "--limit", "3", "--json")
    assert [one["id"] for one in json.loads(told.stdout)] == [A, B, C]
    assert told.stderr == "There are more than these 3; --limit shows them.\n"
    assert [asked.partition("?")[2] for asked in peer.asked] == ["limit=3", "limit=2&cursor=x%2F1", "limit=2&cursor=2"]
    peer.answers["GET /demo/items"] = [*pages[:2], page()]
    assert len(json.loads(call(items, peer.url, "--json").stdout)) == 1
    peer.answers["GET /demo/items"] = page(following="1")
    told = call(items, peer.url)
    assert (told.exit_code, told.stderr) == (3, "Error: the server lists the same items again and again\n")


def test_one_item_of_several_is_called_one(peer: Peer) -> None:
    peer.answers["GET /demo/items"] = page(view(A), following="1")
    assert call(items, peer.url, "--limit", "1").stderr == "There are more than this one; --limit shows them.\n"


def test_many_items_are_asked_for_in_pages(peer: Peer) -> None:
    hundred = [view(f"{number:016x}") for number in range(100)]
    peer.answers["GET /demo/items"] = [page(*hundred, following="1"), page(*hundred[:50], following=None)]
    told = call(items, peer.url, "--limit", "150", "--json")
    assert (len(json.loads(told.stdout)), told.stderr) == (150, "")
    assert [asked.partition("?")[2] for asked in peer.asked] == ["limit=100", "limit=50&cursor=1"]


def test_what_others_wrote_does_not_move_the_cursor(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b[2J\n[bold]x[/bold] \x9b31m\u202e"
    peer.answers["GET /demo/items"] = page(view(A, **(DEAD | {"error": {"message": evil}, "worker": "w", "key": "k"})))
    for command in ([], ["--json"]):
        told = call(items, peer.url, *command).stdout
        assert told.replace("\n", "").isprintable()
        assert len(told.splitlines()) <= 2
    shown = on_a_terminal(monkeypatch, items, peer.url)
    assert "[bold]x[/bold]" in shown
    assert set(re.findall(r"\x1b\[[0-9;]*.", shown)) <= {"\x1b[1m", "\x1b[0m", "\x1b[1;31m"}


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, command: click.Command, *words: str) -> str:
    """What is written where people read."""

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    command.main(words, standalone_mode=False)
    return stream.getvalue()


def test_a_table_fits_a_terminal(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = view(A, **(DEAD | {"worker": "box-1", "error": {"message": "it is far too long for one line " * 9}}))
    peer.answers["GET /demo/items"] = page(dead, view(B, **PENDING))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(monkeypatch, items, peer.url))
    head, *rows = [line.rstrip() for line in shown.splitlines()]
    assert head.split() == ["ID", "LABEL", "POSTED", "CHANGED", "ATTEMPTS", "BY", "NOTE"]
    assert [row.split()[0] for row in rows] == [A, B]
    assert rows[0].endswith("…")
    assert max(map(len, (head, *rows))) <= 100


def test_spans() -> None:
    given = (-5, 0, 999, 1_000, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000, 8_640_000_000)
    assert [span(ms) for ms in given] == ["0s", "0s", "0s", "1s", "59s", "1m", "59m", "1h", "23h", "1d", "100d"]


# ── why ──


def test_why_says_what_an_item_waits_for(peer: Peer) -> None:
    reasons = [{"code": "ahead", "message": "12 items come first"}, {"code": "no-worker", "message": "no\x1bworker"}]
    told_so = {"waiting": True, "reasons": reasons, "ahead": 12}
    peer.answers[f"GET /demo/items/{A}/why"] = (200, told_so)
    told = call(why, peer.url, A)
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [f"{A} waits:", "  ahead      12 items come first", "  no-worker  no\\x1bworker"]
    assert json.loads(call(why, peer.url, A, "--json").stdout) == told_so


def test_why_says_who_holds_it_and_that_nothing_hinders_it(peer: Peer) -> None:
    held = {"waiting": False, "reasons": [{"code": "held", "message": "box-1 holds it"}], "ahead": 0}
    free = {"waiting": True, "reasons": [], "ahead": 0}
    peer.answers[f"GET /demo/items/{A}/why"] = [(200, held), (200, free)]
    assert call(why, peer.url, A).stdout == f"{A} does not wait:\n  held  box-1 holds it\n"
    free_told = f"{A} waits:\n  nothing hinders it: the next claim that matches gets it\n"
    assert call(why, peer.url, A).stdout == free_told


# ── retry, cancel ──


@pytest.mark.parametrize(("command", "verb", "status"), [(retry, "retry", "pending"), (cancel, "cancel", "cancelled")])
def test_each_item_is_done_by_itself(peer: Peer, command: click.Command, verb: str, status: str) -> None:
    peer.answers = {
        f"POST /demo/items/{A}/{verb}": (200, view(A, status=status, label=status)),
        f"POST /demo/items/{B}/{verb}": problem(409, "conflict", "the item is finished already"),
        f"POST /demo/items/{C}/{verb}": problem(404, "not-found", "there is no such item"),
    }
    told = call(command, peer.url, A, B, C)
    assert (told.exit_code, told.stdout) == (1, f"{A} is {status}\n")
    assert told.stderr.splitlines() == [f"{B}: the item is finished already", f"{C}: there is no such item"]
    assert peer.asked == [f"POST /demo/items/{item}/{verb}" for item in (A, B, C)]
    assert {header["Content-Type"] for header in peer.headers} == {"application/json"}
    told = call(command, peer.url, A, B, "--json")
    assert (told.exit_code, told.stderr) == (1, "")
    assert json.loads(told.stdout) == [
        {"id": A, "status": status, "error": None},
        {"id": B, "status": None, "error": {"code": "conflict", "message": "the item is finished already"}},
    ]
    told = call(command, peer.url, A, A)
    assert (told.exit_code, told.stdout, told.stderr) == (0, f"{A} is {status}\n" * 2, "")


def test_where_the_server_does_not_allow_it_the_rest_is_told(peer: Peer) -> None:
    peer.answers[f"POST /demo/items/{A}/retry"] = (200, view(A, **PENDING))
    peer.answers[f"POST /demo/items/{B}/retry"] = problem(503, "unavailable", "the server cannot write")
    for words, out in ((["--json"], [{"id": A, "status": "pending", "error": None}]), ([], None)):
        told = call(retry, peer.url, A, B, C, *words)
        assert told.exit_code == 3
        assert told.stderr.splitlines() == [
            f"Nothing is known of retry for {B}, {C}.",
            "Error: the server refuses: the server cannot write",
        ]
        assert (json.loads(told.stdout) if out else told.stdout) == (out or f"{A} is pending\n")


# ── What is done to all that a filter holds; against the real server: test_cli_steer.py ──


def test_what_changed_meanwhile_is_told_and_not_counted(peer: Peer) -> None:
    peer.answers["POST /demo/bulk"] = [(200, {"matched": 3, "changed": 0}), (200, {"matched": 3, "changed": 2})]
    told = call(retry, peer.url, "--status", "dead", "--yes")
    assert (told.exit_code, told.stdout) == (0, "2 items of demo were retried.\n")
    assert told.stderr == "1 item had become otherwise meanwhile.\n"


def test_who_interrupts_it_is_told_what_that_means(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_method: str, _target: str) -> Answer:
        peer.asked.append("")
        if len(peer.asked) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return 200, {"matched": 3, "changed": 0}

    monkeypatch.setattr(peer, "answer", interrupted)
    told = call(delete, peer.url, "--status", "dead", "--yes")
    assert (told.exit_code, told.stdout) == (130, "")
    assert "Interrupted. What was done until then stays so; the same again goes on.\n" in told.stderr


# ── pause, unpause ──


def test_pause_and_unpause(peer: Peer) -> None:
    peer.answers["POST /demo/pause"] = (200, {"queue": "demo", "paused": True})
    peer.answers["POST /demo/unpause"] = (200, {"queue": "demo", "paused": False})
    told = call(pause, peer.url)
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == "demo is paused: nothing is given out until leaseway unpause.\n"
    assert call(unpause, peer.url).stdout == "demo is not paused: what is ready is given out.\n"
    assert json.loads(call(pause, peer.url, "--json").stdout) == {"queue": "demo", "paused": True}


# ── The address and the token ──


def test_the_address_and_the_token_come_from_the_environment_too(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.answers[f"POST /demo/items/{A}/retry"] = (200, view(A, **PENDING))
    monkeypatch.setenv("LEASEWAY_URL", peer.url.replace("http:", "ws:"))
    monkeypatch.setenv("LEASEWAY_TOKEN", TOKEN)
    assert call(retry, A).exit_code == 0
    assert call(retry, A, "--token", "lw_other").exit_code == 0
    monkeypatch.setenv("LEASEWAY_URL", "http://127.0.0.1:1/demo")
    monkeypatch.delenv("LEASEWAY_TOKEN")
    assert call(retry, peer.url, A).exit_code == 0, "what is said comes first"
    sent = [headers.get("Authorization") for headers in peer.headers]
    assert sent == [f"Bearer {TOKEN}", "Bearer lw_other", None]


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (items, [], "which queue? Give its address, such as https://task.example.com/resize, or LEASEWAY_URL"),
        (pause, [], "which queue?"),
        (items, ["demo"], "which queue?"),
        (items, ["127.0.0.1:8787/demo"], "a queue's address is such as https://task.example.com/resize"),
        (items, ["http://x"], "a queue's address is such as"),
        (items, ["http://x/"], "a queue's address is such as"),
        (items, ["http://x/DEMO"], "a queue's address is such as"),
        (items, ["http://x/_health"], "a queue's address is such as"),
        (items, ["http:///demo"], "a queue's address is such as"),
        (items, ["http://x:0/demo"], "a queue's address is such as"),
        (items, ["http://x:y/demo"], "a queue's address is such as"),
        (items, ["http://[x/demo"], "a queue's address is such as"),
        (items, ["ftp://x/demo"], "a queue's address is such as"),
        (items, ["http://a..b/demo"], "a queue's address is such as"),
        (why, ["http://.x/demo", A], "a queue's address is such as"),
        (retry, [f"https://{'a' * 64}.example/demo", A], "a queue's address is such as"),
        (cancel, [f"ws://{'é' * 64}/demo", A], "a queue's address is such as"),
        (pause, ["http://x\x00y/demo"], "a queue's address is such as"),
        (unpause, ["http://x y/demo"], "a queue's address is such as"),
        (items, ["http://x\x7f/demo"], "a queue's address is such as"),
        (items, ["http://x\udcff/demo"], "a queue's address is such as"),
        (items, ["http://x℀y/demo"], "a queue's address is such as"),
        (items, ["http://x/é/demo"], "a queue's address is such as"),
        (items, ["http://x/a b/demo"], "a queue's address is such as"),
        (items, ["http://x/\udcff/demo"], "a queue's address is such as"),
        (items, [f"http://x/demo?token={TOKEN}"], "holds no query, fragment or user; give the token as LEASEWAY_TOKEN"),
        (items, [f"http://{TOKEN}@x/demo"], "holds no query, fragment or user"),
        (items, [f"http://x/demo#{TOKEN}"], "holds no query, fragment or user"),
        (items, ["http://x/demo", "--token", f"{TOKEN}\r\nX: y"], "a token is printable ASCII without spaces"),
        (items, ["http://x/demo", "--token", f"{TOKEN}é"], "a token is printable ASCII without spaces"),
        (items, ["x:8787/demo"], "this one does not begin with http:// or https://"),
        (items, ["http://x/demo", "k1"], '"k1" is no item\'s id, which is 16 of 0-9 and a-f'),
        (items, ["http://x/demo", A, "--key", "k1"], "give ids, or filters for a list, and not both"),
        (unpause, ["http://x/demo", A], "one queue is wanted, and nothing behind it (1 too much)"),
        (unpause, ["http://x/demo", A, B], "one queue is wanted, and nothing behind it (2 too much)"),
        (items, ["http://x/demo", "--limit", "0"], "0 is not in the range x>=1"),
        (items, ["http://x/demo", "--status", "done"], "'done' is not one of 'pending'"),
        (items, ["http://x/demo", "--label", "late"], "'late' is not one of 'scheduled'"),
        (why, ["http://x/demo"], "which item? Give its id"),
        (why, ["http://x/demo", A, B], "one item is wanted"),
        (retry, ["http://x/demo"], "which items? Give their ids, or filters such as --status dead, and not both"),
        (delete, ["http://x/demo", A, "--status", "dead"], "which items? Give their ids, or filters"),
        (cancel, ["http://x/demo", A, TOKEN], "number 2 here is no item's id, which is 16 of 0-9 and a-f"),
        (cancel, ["http://x/demo", "x" * 41], "number 1 here is no item's id"),
        (cancel, ["http://x/demo", A.upper()], f'"{A.upper()}" is no item\'s id, which is 16 of 0-9 and a-f'),
        (why, ["http://x/demo", "k\x1b1"], '"k\\x1b1" is no item\'s id'),
    ],
)
def test_what_is_wrong_usage(
    command: click.Command, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LEASEWAY_URL", "LEASEWAY_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    told = call(command, *words)
    assert (told.exit_code, told.stdout) == (2, "")
    assert said in told.stderr
    assert TOKEN not in told.output


# ── What hinders ──

ALL: list[tuple[click.Command, list[str]]] = [
    (items, []),
    (why, [A]),
    (retry, [A]),
    (cancel, [A]),
    (delete, ["--status", "dead"]),
    (pause, []),
    (unpause, []),
]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (
            problem(401, "unauthorized", "this token is not valid"),
            3,
            "the server refuses: this token is not valid\n",
        ),
        (problem(403, "not-allowed", "no right to admin"), 3, "the server refuses: no right to admin"),
        (problem(429, "limit", "too many"), 3, "the server refuses: too many"),
        (problem(503, "unavailable", "no space"), 3, "the server refuses: no space"),
        (problem(405, "bad-message", "other methods"), 3, "the server refuses: other methods"),
        (problem(422, "bad-message", "a bad \x1bcursor"), 2, "a bad \\x1bcursor"),
        (
            problem(422, "bad-message", "it is", errors=[{"path": "/limit", "message": "must be 1 or more"}]),
            2,
            "it is; /limit: must be 1 or more",
        ),
        ((200, b"<html>hello</html>"), 3, "what answers at {site} is no Leaseway server (status 200)"),
        ((200, [1]), 3, "what answers at {site} is no Leaseway server (status 200)"),
        ((200, {}), 3, "what answers at {site} is no Leaseway server (status 200)"),
        ((502, b"bad gateway"), 3, "what answers at {site} is no Leaseway server (status 502)"),
        ((404, {"code": 5}), 3, "what answers at {site} is no Leaseway server (status 404)"),
        ((301, b""), 3, "{site} sends elsewhere (status 301); give the address it leads to"),
    ],
)
@pytest.mark.parametrize(("command", "words"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_what_the_server_refuses(
    peer: Peer, command: click.Command, words: list[str], answer: Answer, status: int, said: str
) -> None:
    peer.answers = {f"{method} {path}": answer for method in ("GET", "POST") for path in PATHS}
    told = call(command, peer.url, *words, "--token", TOKEN)
    assert (told.exit_code, told.stdout) == (status, "")
    assert told.stderr.startswith("Error: " + said.format(site=peer.url.removesuffix("/demo")))
    assert TOKEN not in told.output


PATHS = [
    "/demo/items", f"/demo/items/{A}/why", f"/demo/items/{A}/retry", f"/demo/items/{A}/cancel",
    "/demo/pause", "/demo/unpause", "/demo/bulk",
]  # fmt: skip


def test_that_a_token_is_needed_and_where_it_is_taken_from(peer: Peer) -> None:
    peer.answers["POST /demo/pause"] = problem(401, "unauthorized", "a token is needed here: as …")
    told = call(pause, peer.url)
    site = peer.url.removesuffix("/demo")
    assert (told.exit_code, told.stderr) == (3, f"Error: a token is needed at {site}; set LEASEWAY_TOKEN\n")


def test_what_is_not_there(peer: Peer) -> None:
    """An item that is not there is work that ended badly; a queue that is not there cannot be reached."""
    peer.answers = {
        f"{m} {path}": problem(404, "not-found", "there is none") for m in ("GET", "POST") for path in PATHS
    }
    for command, words in ALL:
        told = call(command, peer.url, *words)
        assert (told.exit_code, told.stdout) == ((1 if A in words else 3), ""), command.name
        assert "there is none" in told.stderr


@pytest.mark.parametrize("below", ["/items", f"/items/{B}", "/monitor", "/work/"])
@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize(("command", "words"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_a_path_below_the_queue(peer: Peer, command: click.Command, words: list[str], status: int, below: str) -> None:
    """It may be a queue's behind a proxy: only where the server has nothing there is it doubted."""
    answer = problem(status, "not-found", "there is none")
    path = f"/demo{below.rstrip('/')}"
    peer.answers = {f"{m} {path}{p.removeprefix('/demo')}": answer for m in ("GET", "POST") for p in PATHS}
    told = call(command, peer.url + below, *words)
    assert told.exit_code in (1, 3)
    assert f"there is none; is {path} the queue's own path, and not one below it?" in told.stderr


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def hindered(port: int, scheme: str = "http") -> str:
    told = call(items, f"{scheme}://127.0.0.1:{port}/demo", "--token", TOKEN)
    assert (told.exit_code, told.stdout) == (3, "")
    prefix = f"Error: cannot reach {scheme}://127.0.0.1:{port}: "
    assert told.stderr.startswith(prefix)
    return told.stderr.removeprefix(prefix).removesuffix("\n")


def test_who_does_not_answer(deaf: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "TIMEOUT", 0.05)
    assert hindered(deaf.getsockname()[1]) == "no answer within 0 s"
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        port = gone.getsockname()[1]
    assert hindered(port) == "nobody listens there"


@pytest.mark.parametrize(
    ("scheme", "says", "said"),
    [
        ("http", b"220 mail.example ESMTP\r\n", "it does not speak HTTP; is the address to begin with https://"),
        ("http", b"", "it does not speak HTTP; is the address to begin with https://"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not speak TLS; is the address to begin with http://"),
    ],
)
def test_who_speaks_otherwise(deaf: socket.socket, scheme: str, says: bytes, said: str) -> None:
    thread = threading.Thread(target=answer_once, args=(deaf, says))
    thread.start()
    assert hindered(deaf.getsockname()[1], scheme).startswith(said)
    thread.join()


def answer_once(listener: socket.socket, says: bytes) -> None:
    connection, _ = listener.accept()
    with connection, suppress(OSError):  # It leaves when it has heard enough.
        connection.recv(65_536)
        connection.sendall(says)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ssl.SSLCertVerificationError(1, "x"),
            "its certificate is not trusted: self-signed (SSL_CERT_FILE names others to trust)",
        ),
        (OSError(113, "No route to host"), "No route to host"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (OSError(), "OSError"),
    ],
)
def test_other_hindrances(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "self-signed"

    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    assert hindered(443, "https") == said


def test_asking_needs_neither_the_server_nor_a_websocket_library() -> None:
    names = "import sys, leaseway.cli.items, leaseway.cli.why, leaseway.cli.steer; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True).stdout
    assert not {"websockets", "starlette", "uvicorn", "leaseway_server", "rich"} & set(loaded.split())


@pytest.mark.parametrize("command", [command for command, _ in ALL], ids=lambda command: str(command.name))
def test_help_says_what_a_command_does(command: click.Command) -> None:
    told = call(command, "--help")
    assert told.exit_code == 0
    assert "--json" in told.stdout
    assert "LEASEWAY_TOKEN" in told.stdout
    usage = told.stdout.splitlines()[0]
    assert "[URL]" in usage
    assert ("ID" in usage.partition("[URL]")[2]) == (command not in (pause, unpause))
