"""How an attempt ends: what a handler returned or raised, as the report that the server gets (PROTOCOL.md §4).

Pure; when a report is said, and how often, is `worker_state.py`'s business.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from leaseway.errors import Permanent, Rejected, Release
from leaseway.protocol import Message, encode

logger = logging.getLogger("leaseway")

#: An `error` member of a report is at most 32 KiB (§5); this leaves room for what is around it.
DETAIL_BYTES = 30_000
MESSAGE_LENGTH = 1_000
CODE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verb of an attempt's last report, and what the report says."""

    verb: str
    members: Message = field(default_factory=dict)

    @classmethod
    def result(cls, value: Any) -> Outcome:
        """The item is done."""
        return cls("result", {"value": value})

    @classmethod
    def fail(cls, error: Message, *, retryable: bool) -> Outcome:
        """The attempt failed."""
        return cls("fail", {"error": error, "retryable": retryable})

    @classmethod
    def release(cls, delay: float | None = None) -> Outcome:
        """The item goes back; `delay` in seconds, None for at once."""
        return cls("release", {} if delay is None else {"delayMs": max(0, round(delay * 1000))})

    @classmethod
    def raised(cls, error: Exception) -> Outcome:
        """What an exception of a handler means: its type and last line are told, no traceback."""
        if isinstance(error, Permanent):
            return cls.fail(fault(error.message, error.code, error.detail), retryable=False)
        if isinstance(error, Release):
            return cls.release(error.delay)
        kind, lines = type(error).__name__, str(error).strip().splitlines()
        return cls.fail(fault(f"{kind}: {lines[-1]}" if lines else kind, kind), retryable=True)

    @classmethod
    def refused(cls, error: Rejected) -> Outcome:
        """What is said instead of a result that was refused: the same work would give the same again."""
        detail = {"errors": error.errors}
        return cls.fail(fault(f"the result was refused: {error}", error.code, detail), retryable=False)


def fault(message: str, code: str | None = None, detail: Any = None) -> Message:
    """An `error` member that the server takes: texts cut, `detail` left out where it cannot be sent."""
    error: Message = {"message": _text(message, MESSAGE_LENGTH) or "no message"}
    if code is not None:
        error["code"] = _text(code, CODE_LENGTH)
    if detail is not None:
        try:
            encode({"detail": detail}, DETAIL_BYTES)
        except Rejected as refused:
            logger.warning("the detail of an error was left out: %s", refused.code)
        else:
            error["detail"] = detail
    return error


def _text(text: str, length: int) -> str:
    """Cut, and with what JSON cannot keep replaced."""
    return text[:length].encode("utf-8", "replace").decode()
