"""How a log is written: one line an event, as JSON or for people, and the request that it belongs to.

Events are named where they happen: `_log.info("text for people", extra={"event": "socket.opened", "queue": name})`,
with ids and never a payload, a URL or a header. What each one means is in docs/logs.md.
"""

import json
import logging
import os
import re
import secrets
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import accumulate
from types import TracebackType
from typing import Final, Literal, TextIO, TypeAlias

from leaseway_server.redaction import STANDARD, Redaction, shown

LogFormat: TypeAlias = Literal["json", "terminal"]

TEXT_LIMIT: Final = 1_000
VALUE_LIMIT: Final = 200
"""Characters; also of one line of a traceback."""
MOST: Final = 2**63
"""Numbers up to here are told as numbers, others as text."""
TRACEBACK_LINES: Final = 60
"""The last so many are told."""
MINUTE_MS: Final = 60_000
LINES: Final = 60
"""A minute, of an event that clients can bring about at will."""
SHARE: Final = 20
"""So many of them for one source, so that a flood from one address does not hide the others."""

_OURS: Final = ("leaseway_server", "leaseway.audit")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9.-]{1,64}")
_PLAIN: Final = re.compile(r"[\w./:@,+-]+")
_COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[1;31m"}
_NO_COLOUR: Final = "\x1b[0m"

_log = logging.getLogger(__name__)
_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def configure_logging(log_format: LogFormat = "terminal", stream: TextIO | None = None) -> None:
    """From now on all that is logged, warned of or not caught goes to `stream` (None: standard error), in one form.

    Libraries say only what is wrong; uvicorn's warnings are left out too: each is a client's fault, and tells nothing.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.addFilter(Redaction())
    handler.setFormatter(JsonLines() if log_format == "json" else TerminalLines(colour=_has_colour(stream, os.environ)))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # Where the log cannot be written, its plain text would go to standard error.
    sys.excepthook = _uncaught
    sys.unraisablehook = lambda fault: _uncaught(fault.exc_type, fault.exc_value, fault.exc_traceback)
    threading.excepthook = lambda fault: _uncaught(fault.exc_type, fault.exc_value, fault.exc_traceback)


def listing(names: Iterable[str]) -> str:
    """The names, each of at most 100 characters, as a value of a line: as many as it holds, and how many more."""
    every = list(names)
    text = ", ".join(every)
    if len(text) <= VALUE_LIMIT:
        return text
    room = VALUE_LIMIT - len(f"… and {len(every):,} more")
    ends = list(accumulate(len(f"{name}, ") for name in every))
    kept = bisect_right(ends, room)
    return f"{', '.join(every[:kept])}, … and {len(every) - kept:,} more"


def new_request_id(offered: str = "", *, trusted: bool = False) -> str:
    """A name for what is logged from here on in this task. One that is offered counts where a trusted proxy did."""
    request_id = offered if trusted and _REQUEST_ID.fullmatch(offered) else secrets.token_hex(6)
    _request_id.set(request_id)
    return request_id


# ── Lines ──


class JsonLines(logging.Formatter):
    """`{"at": "2026-11-30T12:00:00.000Z", "level": "info", "event": "server.stopped", "text": "stopped"}`, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; a traceback is a member, its lines in one text."""
        entry = _entry(record)
        if record.exc_text:
            entry["traceback"] = "\n".join(_traceback(record.exc_text))
        return json.dumps(entry)


class TerminalLines(logging.Formatter):
    """`2026-11-30T12:00:00.000Z info stopped event=server.stopped`; a traceback follows, set in.

    Nothing that is not printable gets through: no value makes a line of its own, or moves the cursor.
    """

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and those of its traceback."""
        entry = _entry(record)
        at, level, text = (str(entry.pop(name)) for name in ("at", "level", "text"))
        if self._colour and level in _COLOURS:
            level = f"{_COLOURS[level]}{level}{_NO_COLOUR}"
        fields = (f"{name}={_value(value)}" for name, value in entry.items())
        lines = [" ".join((at, level, _printable(text), *fields))]
        if record.exc_text:
            lines += [f"    {_printable(line)}" for line in _traceback(record.exc_text)]
        return "\n".join(lines)


def _entry(record: logging.LogRecord) -> dict[str, object]:
    """What is told of a record, in order. What has no name of an event goes by that of its logger."""
    given = {name: _told(value) for name, value in vars(record).items() if name not in STANDARD and value is not None}
    return {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": given.pop("event", record.name),
        "text": _cut(record.getMessage().strip(), TEXT_LIMIT),
        **({"request": request_id} if (request_id := _request_id.get()) else {}),
        **given,
    }


def _told(value: object) -> object:
    """A value that JSON has; all else as text."""
    if isinstance(value, bool | int | float) and abs(value) < MOST:  # Neither NaN nor infinite, which JSON has not.
        return value
    return _cut(shown(value), VALUE_LIMIT)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _traceback(text: str) -> list[str]:
    lines = [_cut(line, VALUE_LIMIT) for line in text.splitlines()]
    left_out = len(lines) - TRACEBACK_LINES
    return lines if left_out <= 0 else [f"… {left_out} lines before", *lines[left_out:]]


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else repr(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _has_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _uncaught(kind: type[BaseException], fault: BaseException | None, trace: TracebackType | None) -> None:
    exc_info = (kind, fault or kind(), trace)
    _log.critical("a fault that nobody caught", exc_info=exc_info, extra={"event": "server.failed"})


# ── What clients can bring about at will ──


class LimitedEvent:
    """An event that makes at most `LINES` lines in a minute, and then one that says how many more there were.

    Minutes are counted from the first event. `now` gives ms.
    """

    def __init__(self, log: logging.Logger, level: int, event: str, text: str, now: Callable[[], int]) -> None:
        self._log = log
        self._level = level
        self._event = event
        self._text = text
        self._now = now
        self._until = 0
        self._lines: dict[str, int] = {}
        self._more = 0

    def write(self, source: str, fields: Mapping[str, object]) -> None:
        """It happened again. `source` is who brought it about; fields that are None are left out."""
        self.refresh()
        self._until = self._until or self._now() + MINUTE_MS
        from_source = self._lines.get(source, 0)
        if from_source < SHARE and sum(self._lines.values()) < LINES:
            self._lines[source] = from_source + 1
            self._log.log(self._level, self._text, extra={"event": self._event, **fields})
        else:
            self._more += 1

    def refresh(self) -> None:
        """Ends a minute that is over; call it each second."""
        if self._now() >= self._until:
            self.flush()

    def flush(self) -> None:
        """Says how many more there were, and begins anew."""
        if self._more:
            extra = {"event": self._event, "more": self._more}
            self._log.log(self._level, "and %s more: %s", f"{self._more:,}", self._text, extra=extra)
        self._until, self._more, self._lines = 0, 0, {}
