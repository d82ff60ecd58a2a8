"""Lines that nobody can forge, secrets that do not get through, ids of requests, floods, and the audit log."""

import ast
import asyncio
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.audit import RefusedAccess, audit_admin, audit_tokens
from leaseway_server.core.access import Token
from leaseway_server.log import (
    LINES,
    MINUTE_MS,
    SHARE,
    TEXT_LIMIT,
    TRACEBACK_LINES,
    VALUE_LIMIT,
    LimitedEvent,
    LogFormat,
    new_request_id,
)
from leaseway_server.redaction import STRUCK, strike
from support.logged import logged

ROOT = Path(__file__).resolve().parents[2]
FORMATS: Final[tuple[LogFormat, ...]] = ("json", "terminal")
LINE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\w+) ")
EVENT: Final = re.compile(r"(access|admin|answer|config|request|server|socket|store|tokens|turn)\.[a-z_]+")

_log = logging.getLogger("leaseway_server.test")


class Bad:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class Kept(logging.Handler):
    """Another handler, behind ours."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps it."""
        self.records.append(record)


ODD: Final[dict[str, object]] = {
    "fails": Bad(),
    "too many digits": 10**5_000,
    "no number": float("nan"),
    "infinite": float("-inf"),
    "bytes": b"\xff",
    "nested": {"a": {1, 2}},
}

# ── The form of a line ──


def test_an_event_is_one_line_of_json() -> None:
    with logged() as log:
        _log.info("a socket %s", "opened", extra={"event": "socket.opened", "queue": "demo", "ms": 3, "user": None})
    entry = log.entry
    assert list(entry) == ["at", "level", "event", "text", "queue", "ms"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("at"))
    assert entry == {"level": "info", "event": "socket.opened", "text": "a socket opened", "queue": "demo", "ms": 3}


def test_an_event_is_one_line_for_people() -> None:
    with logged("terminal") as log:
        _log.warning("mind this", extra={"event": "store.full", "queue": "demo", "fault": "no space", "left": 0.5})
    (line,) = log.lines
    assert LINE.match(line)
    assert line.partition("Z ")[2] == "warning mind this event=store.full queue=demo fault='no space' left=0.5"


def test_what_has_no_event_goes_by_its_logger() -> None:
    with logged() as log:
        logging.getLogger("somebody.else").error("oh")
    assert log.entry["event"] == "somebody.else"


HOSTILE = {
    "a new line": "x\n2026-01-01T00:00:00.000Z info forged",
    "a carriage return": "x\r2026-01-01T00:00:00.000Z info forged",
    "other ends of lines": "x\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029y",
    "a cursor that moves": "x\x1b[2K\x1b[1Ay\x9b2J",
    "a title of the window": "\x1b]0;mine\x07",
    "a bell, a backspace, a NUL": "\x07\x08\x00\x7f",
    "writing from right to left": "\u202egnihtyna\u202c\u2066\u200b",
    "half a character": "\ud800",
    "the end of a value": "x' level=critical event=forged",
    "the end of a value in JSON": 'x", "event": "forged',
    "escapes": "\\n\\u000a\\x1b",
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_value_forges_a_line_of_json(value: str) -> None:
    with logged() as log:
        _log.info("text %s", value, extra={"event": "socket.opened", "user": value})
        _fail(ValueError(value))
    first, second = log.lines
    assert first.isascii()
    assert first.isprintable()
    assert second.isprintable()
    assert json.loads(first)["event"] == "socket.opened"
    assert json.loads(first)["user"] == value
    assert json.loads(second)["event"] == "request.failed"


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_value_forges_a_line_for_people(value: str) -> None:
    with logged("terminal") as log:
        _log.info("text %s", value, extra={"event": "socket.opened", "user": value})
        _fail(ValueError(value))
    first, second, *trace = log.lines
    assert first.endswith(f" event=socket.opened user={value!r}")
    assert LINE.match(first)
    assert LINE.match(second)
    assert trace
    for line in log.lines:
        assert line.isprintable()
    for line in trace:
        assert line.startswith("    ")


def test_a_long_value_is_cut() -> None:
    with logged() as log:
        _log.info("t" * 5_000, extra={"event": "socket.opened", "user": "u" * 5_000, "many": ["m" * 50] * 1_000})
    assert log.entry["text"] == "t" * TEXT_LIMIT + "…"
    assert log.entry["user"] == "u" * VALUE_LIMIT + "…"
    assert len(log.entry["many"]) == VALUE_LIMIT + 1


def test_a_long_traceback_is_cut() -> None:
    with logged() as log:
        _fail(ValueError("line\n" * 500 + "x" * 5_000))
    lines = log.entry["traceback"].split("\n")
    assert len(lines) == TRACEBACK_LINES + 1
    assert re.fullmatch(r"… \d+ lines before", lines[0])
    assert lines[-1] == "x" * VALUE_LIMIT + "…"


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
def test_whatever_is_given_is_told_somehow(value: object, log_format: LogFormat) -> None:
    with logged(log_format) as log:
        _log.info("text %s", value, extra={"event": "socket.opened", "odd": value})
    (line,) = log.lines
    assert "odd" in line
    assert log_format == "terminal" or json.loads(line, parse_constant=pytest.fail)


def test_values_that_do_not_fit_their_text_cost_the_values_only(capfd: pytest.CaptureFixture[str]) -> None:
    with logged() as log:
        _log.info("a text of %d numbers", "no number", extra={"event": "socket.opened"})
    assert log.entry["text"] == "a text of %d numbers"
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_stops_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    with logged() as log:
        log.close()
        _log.error("into nothing: %s", "lw_secret")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("terminal", "environ", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colour_is_for_terminals(
    terminal: bool, environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with logged("terminal", terminal=terminal) as log:
        _log.error("red")
        _log.info("plain")
    first, second = log.lines
    assert ("\x1b[31merror\x1b[0m red" in first) is coloured
    assert "\x1b" not in first or coloured
    assert "\x1b" not in second


# ── Others that write ──


@pytest.mark.parametrize(
    ("name", "level", "heard"),
    [
        ("leaseway_server.web", logging.INFO, True),
        ("leaseway.audit", logging.INFO, True),
        ("leaseway_server.web", logging.DEBUG, False),
        ("websockets.server", logging.INFO, False),
        ("websockets.server", logging.ERROR, True),
        ("asyncio", logging.WARNING, True),
        ("uvicorn.error", logging.WARNING, False),
        ("uvicorn.error", logging.ERROR, True),
    ],
)
def test_libraries_say_only_what_is_wrong(name: str, level: int, heard: bool) -> None:
    with logged() as log:
        logging.getLogger(name).log(level, 'x - "GET /demo/work?anything=goes HTTP/1.1"')
    assert len(log.lines) == heard
    assert "anything" not in log.getvalue()


def test_warnings_are_lines_too() -> None:
    with logged() as log:
        warnings.simplefilter("always")
        warnings.warn("this will go, token=lw_secret", DeprecationWarning, stacklevel=1)
    assert log.entry["event"] == "py.warnings"
    assert "this will go" in log.entry["text"]
    assert "lw_secret" not in log.getvalue()


def _raise(fault: BaseException) -> None:
    raise fault


def _in_main() -> None:
    try:
        _raise(RuntimeError("in the main thread, lw_secret"))
    except RuntimeError as fault:
        sys.excepthook(RuntimeError, fault, fault.__traceback__)


def _in_thread() -> None:
    thread = threading.Thread(target=_raise, args=(RuntimeError("in a thread, lw_secret"),))
    thread.start()
    thread.join()


def _at_the_end() -> None:
    class Doomed:
        def __del__(self) -> None:
            raise RuntimeError("at its end, lw_secret")

    Doomed()


@pytest.mark.parametrize("happens", [_in_main, _in_thread, _at_the_end])
def test_a_fault_that_nobody_caught_is_a_line_too(
    happens: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    with logged() as log:
        happens()
    assert log.entry["event"] == "server.failed"
    assert log.entry["level"] == "critical"
    assert "RuntimeError: " in log.entry["traceback"]
    assert "lw_secret" not in log.getvalue()
    assert capfd.readouterr() == ("", "")


# ── The second net ──

SECRET: Final = "Zx9-canary_that-sings-0"
TOKEN: Final = f"lw_{SECRET}"
SPELLINGS: Final = [
    TOKEN,
    f"xx{TOKEN}.",
    f"/demo/{TOKEN}/items",
    TOKEN.upper(),
    f"%6Cw_{SECRET}",
    f"lw%5F{SECRET}",
    f"lw%255f{SECRET}",
    "".join(f"%{byte:02X}" for byte in TOKEN.encode()),
    "".join(f"%25{byte:02x}" for byte in TOKEN.encode()),
    "".join(f"\\u{byte:04x}" for byte in TOKEN.encode()),
    "".join(f"\\\\x{byte:02x}" for byte in TOKEN.encode()),
    f"?token={SECRET}&x=1",
    f"token={SECRET}",
    f"token={SECRET}&token={SECRET}",
    f"a=1&ticket={SECRET}#part",
    f"Token = {SECRET}",
    f"%74oken%3d{SECRET}",
    f"token%253D{SECRET}",
    f"token\\u003d{SECRET}",
    f"access_token={SECRET}",
    f"x-token: {SECRET}",
    f"token:\t\t {SECRET}",
    f"ticket\t=\t'{SECRET} {SECRET}'",
    f'{{"token": "{SECRET}"}}',
    f"{{'ticket': '{SECRET}'}}",
    f'"{{\\"token\\":\\"{SECRET}\\"}}"',
    f"[('token', '{SECRET}')]",
    f"query_string=b'token={SECRET}'",
    f"[(b'host', b'x'), (b'authorization', b'Bearer {SECRET}'), (b'accept', b'*')]",
    f"Authorization: Bearer {SECRET} {SECRET}",
    f"AUTHORIZATION:{SECRET}",
    f"proxy-authorization=Basic {SECRET}",
    f"authorization%3A%20Bearer%20{SECRET}",
    f"bearer   {SECRET}",
    f"Bearer+{SECRET}",
    f"https://x.example/demo/work?other={SECRET}",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_struck_however_it_is_spelled(spelling: str) -> None:
    struck = strike(f"before {spelling}")
    assert struck.startswith("before ")
    assert STRUCK in struck
    _silent(struck)
    assert strike(struck) == struck


def test_what_is_none_stays() -> None:
    for text in (
        "serving http://127.0.0.1:8787/",
        "no such ticket, and 3 tokens",
        "token_id=0a1b2c3d4e5f",
        "the server cannot write at the moment (no space?); nothing of this was done",
        "low_water x=1 slow=2",
        "what? a=b",
    ):
        assert strike(text) == text


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_struck_wherever_it_stands(spelling: str, log_format: LogFormat) -> None:
    with logged(log_format) as log:
        _log.info(spelling)
        _log.info("%s and %r", spelling, [spelling])
        _log.info("%(value)s", {"value": spelling})
        _log.info("a text", extra={"event": "socket.opened", "user": spelling, "nested": {"a": [(spelling,)]}})
        _log.info("bytes %s", spelling.encode(), extra={"raw": spelling.encode(), "fault": ValueError(spelling)})
        _log.info("%d", spelling)
        _fail(ValueError(spelling))
        _fail(ExceptionGroup(spelling, [KeyError(spelling)]))
    _silent(log.getvalue())
    assert log.getvalue().count(STRUCK) >= 10


def test_nothing_of_a_secret_is_left_in_the_record_for_others() -> None:
    other = Kept()
    with logged():
        logging.getLogger().addHandler(other)
        _log.info("text %s", SPELLINGS, extra={"user": TOKEN})
        _fail(ValueError(TOKEN))
    assert len(other.records) == 2
    for record in other.records:
        _silent(repr(vars(record)))


@pytest.mark.parametrize("name", ["token", "Ticket", "AUTHORIZATION"])
def test_a_field_with_the_name_of_a_secret_is_struck_whole(name: str) -> None:
    with logged() as log:
        _log.info("a text", extra={name: SECRET})
    assert log.entry[name] == STRUCK


def test_a_secret_at_the_place_of_a_cut_is_struck() -> None:
    with logged() as log:
        for before in range(VALUE_LIMIT - len(TOKEN) - 1, VALUE_LIMIT + 1):
            _log.info("a text", extra={"value": "." * before + TOKEN})
    _silent(log.getvalue())
    assert "lw_" not in log.getvalue()


@pytest.mark.parametrize(
    "part",
    ["%", "%25", "\\", "token ", "?", "?a", "lw", "lw_", "%6c", "%6c%77", "token\\\"'", "bearer ", "token=", "token:'"],
)
def test_no_text_takes_long(part: str) -> None:
    """Twice the text would take four times as long, and these minutes, were any pattern not linear."""
    strike(part * (400_000 // len(part)))
    strike(f"token{part}" + " " * 200_000)


def _silent(text: str) -> None:
    """No part of the secret is left, in whatever spelling."""
    assert "canary" not in text.lower()
    assert "sings" not in text.lower()
    for spelled in ("%{:02x}", "%25{:02x}", "u00{:02x}", "x{:02x}"):
        assert spelled.format(ord("g")) not in text.lower()


def _fail(fault: Exception) -> None:
    try:
        _raise(fault)
    except Exception:  # noqa: BLE001  Whatever was asked for.
        _log.exception("a request failed", extra={"event": "request.failed"})


# ── The request that a line belongs to ──


async def test_each_task_has_a_request_id_of_its_own() -> None:
    both = asyncio.Barrier(2)

    async def request() -> str:
        request_id = new_request_id()
        await both.wait()
        _log.info("within", extra={"event": "socket.opened", "asked": request_id})
        return request_id

    with logged() as log:
        first, second = await asyncio.gather(request(), request())
        _log.info("outside")
    assert first != second
    assert re.fullmatch(r"[0-9a-f]{12}", first)
    assert [entry["request"] for entry in log.entries[:2]] == [entry["asked"] for entry in log.entries[:2]]
    assert "request" not in log.entries[2]


@pytest.mark.parametrize(
    ("offered", "trusted", "taken"),
    [
        ("0d5c6c0e-9f1c-4f7e-8d62-0a4f3c1b2a99", True, True),
        ("0d5c6c0e-9f1c-4f7e-8d62-0a4f3c1b2a99", False, False),
        ("", True, False),
        ("x" * 65, True, False),
        ("a b", True, False),
        ("a\nb", True, False),
        ("a\n", True, False),
        ("é", True, False),
        (TOKEN, True, False),
    ],
)
async def test_an_id_is_taken_from_a_trusted_proxy_alone(offered: str, trusted: bool, taken: bool) -> None:
    async def request() -> str:
        return new_request_id(offered, trusted=trusted)

    assert (await asyncio.create_task(request()) == offered) is taken


# ── Floods ──


class Bench:
    """One limited event, and a time that is set."""

    def __init__(self) -> None:
        self.now = 1_000
        self.event = LimitedEvent(_log, logging.INFO, "request.refused", "a request was refused", lambda: self.now)

    def happens(self, times: int, source: str = "::1") -> None:
        """It happens so often."""
        for _ in range(times):
            self.event.write(source, {"code": "schema"})


def _more(entries: list[dict[str, Any]]) -> list[int]:
    return [entry["more"] for entry in entries if "more" in entry]


def test_a_flood_makes_so_many_lines_and_one_with_the_rest() -> None:
    bench = Bench()
    with logged() as log:
        for number in range(100):
            bench.happens(13, f"10.0.0.{number}")
        assert len(log.lines) == LINES
        bench.now += MINUTE_MS - 1
        bench.event.refresh()
        assert len(log.lines) == LINES
        bench.now += 1
        bench.event.refresh()
        bench.event.refresh()
        assert len(log.lines) == LINES + 1
        last = log.entries[-1]
        assert (last["event"], last["more"]) == ("request.refused", 1_240)
        assert last["text"] == "and 1,240 more: a request was refused"


def test_one_source_does_not_hide_the_others() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(10_000, "192.0.2.1")
        bench.happens(1, "192.0.2.2")
        bench.event.flush()
    assert len(log.lines) == SHARE + 2
    assert _more(log.entries) == [10_000 - SHARE]


def test_a_new_minute_begins_with_the_next_event() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(SHARE + 1)
        bench.now += MINUTE_MS
        bench.happens(SHARE + 2)
        bench.now += MINUTE_MS - 1
        bench.happens(1)
        assert _more(log.entries) == [1]
        bench.event.flush()
        bench.event.flush()
    assert _more(log.entries) == [1, 3]
    assert len(log.lines) == 2 * SHARE + 2


def test_a_flood_without_end_is_told_each_minute() -> None:
    bench = Bench()
    with logged() as log:
        for _ in range(180):
            bench.happens(2)
            bench.now += 1_000
        bench.event.refresh()
    assert _more(log.entries) == [120 - SHARE] * 3


def test_few_events_are_told_as_they_are() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(3)
        bench.now += MINUTE_MS
        bench.event.refresh()
        bench.event.flush()
    assert [entry["code"] for entry in log.entries] == ["schema"] * 3


# ── The audit log ──


def test_refused_access_tells_who_and_what() -> None:
    refused = RefusedAccess(lambda: 0)
    with logged() as log:
        refused.audit(address="192.0.2.1", queue="resize", right="work", reason="not-allowed", user="alice")
        refused.audit(address="192.0.2.1", queue="other", right=None, reason="unauthorized")
    first, second = log.entries
    for entry in (first, second):
        assert (entry.pop("level"), entry.pop("text")) == ("warning", "access was refused")
        assert entry.pop("at")
    told = {"event": "access.refused", "address": "192.0.2.1"}
    assert first == told | {"queue": "resize", "right": "work", "reason": "not-allowed", "user": "alice"}
    assert second == told | {"queue": "other", "right": "any", "reason": "unauthorized"}


def test_a_path_with_a_token_in_it_is_no_way_round() -> None:
    with logged() as log:
        RefusedAccess(lambda: 0).audit(address="::1", queue=TOKEN, right="work", reason="unauthorized")
    assert log.entry["queue"] == STRUCK


def test_what_an_administrator_did_is_told() -> None:
    with logged() as log:
        audit_admin("admin.item_cancelled", by="root", queue="resize", item="9f2c1a0b7d4e6f83", token_id=None)
    assert log.entry["event"] == "admin.item_cancelled"
    assert {name: log.entry.get(name) for name in ("by", "queue", "item", "token_id")} == {
        "by": "root",
        "queue": "resize",
        "item": "9f2c1a0b7d4e6f83",
        "token_id": None,
    }


def test_tokens_that_came_and_went_are_told() -> None:
    stays, goes, comes = (Token(name * 12, f"user {name}", None, None, 0, 0) for name in "abc")
    with logged() as log:
        audit_tokens([stays, goes], [stays, comes])
        audit_tokens([stays], [stays])
    told = [(entry["event"], entry["token_id"], entry["user"]) for entry in log.entries]
    assert told == [
        ("admin.token_created", "c" * 12, "user c"),
        ("admin.token_revoked", "b" * 12, "user b"),
    ]


# ── The page ──


def _events_of_the_code() -> set[str]:
    found = set()
    for path in (ROOT / "server/leaseway_server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and EVENT.fullmatch(node.value):
                found.add(node.value)
    return found


def test_each_event_is_in_the_documentation() -> None:
    page = (ROOT / "docs/logs.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert _events_of_the_code() >= {"server.failed", "access.refused", "request.failed"}
    assert _events_of_the_code() <= set(documented)
