"""Lines that nobody can forge, what others write, ids of requests, and the page about it all."""

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
from typing import Final

import pytest

from leaseway_server.log import TEXT_LIMIT, TRACEBACK_LINES, VALUE_LIMIT, LogFormat, listing, new_request_id
from support.logged import logged

ROOT = Path(__file__).resolve().parents[2]
FORMATS: Final[tuple[LogFormat, ...]] = ("json", "terminal")
LINE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\w+) ")
EVENT: Final = re.compile(r"(access|admin|answer|config|request|server|peers|hints|socket|store|tokens|turn)\.[a-z_]+")

_log = logging.getLogger("leaseway_server.test")


class Bad:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


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


@pytest.mark.parametrize("size", [1, 7, 50, 100])
def test_a_list_of_names_is_whole_or_says_how_many_more(size: int) -> None:
    """As many of them as fit, to the character."""
    for number in range(300):
        names = [f"{each:x>{size}}" for each in range(number)]
        told, whole = listing(names), ", ".join(names)
        assert len(told) <= VALUE_LIMIT
        if len(whole) <= VALUE_LIMIT:
            assert told == whole
            continue
        *kept, rest = told.split(", ")
        assert kept == names[: len(kept)] != []
        assert rest == f"… and {number - len(kept)} more"
        longer = f"{', '.join(names[: len(kept) + 1])}, … and {number} more"
        assert len(longer) > VALUE_LIMIT


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
        ("lw_Zx9-canary", True, False),
    ],
)
async def test_an_id_is_taken_from_a_trusted_proxy_alone(offered: str, trusted: bool, taken: bool) -> None:
    async def request() -> str:
        return new_request_id(offered, trusted=trusted)

    assert (await asyncio.create_task(request()) == offered) is taken


# ── The page ──


def _events_of_the_code() -> set[str]:
    found = set()
    for path in (ROOT / "server/leaseway_server").rglob("*.py"):
        if path.parent.name == "config":
            continue  # It names keys of the file, which look alike.
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and EVENT.fullmatch(node.value):
                found.add(node.value)
    return found


def test_each_event_is_in_the_documentation() -> None:
    page = (ROOT / "docs/logs.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert _events_of_the_code() >= {"server.failed", "access.refused", "request.failed"}
    assert _events_of_the_code() == set(documented)
