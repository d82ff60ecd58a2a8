"""Logs: one line an event, ids and not payloads, never a token."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_QUIET: Final = ("uvicorn", "websockets", "asyncio")


class LineFormatter(logging.Formatter):
    """`2026-11-30T12:00:00.000Z info serving http://… queues=demo`: what was given as `extra` follows the text."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and a traceback where there is one."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        extra = "".join(f" {name}={value}" for name, value in vars(record).items() if name not in _PLAIN)
        line = f"{at} {record.levelname.lower()} {record.getMessage()}{extra}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logging() -> None:
    """Everything goes to standard error. The libraries below say only what is wrong: their details hold URLs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
