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
#: Of 64 (head of PROTOCOL.md); the error around it is one.
DETAIL_LEVELS = 63
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
        """The item goes back; `delay` in seconds, None for at once. Raises for what is no length of time."""
        return cls("release", {} if delay is None else {"delayMs": max(0, round(delay * 1000))})

    @classmethod
    def raised(cls, error: BaseException) -> Outcome:
        """What an exception of a handler means: its type and last line are told, no traceback. Never raises."""
        if isinstance(error, Permanent):
            return cls.fail(fault(error, error.code, error.detail), retryable=False)
        if isinstance(error, Release):
            try:
                return cls.release(error.delay)
            except (ArithmeticError, TypeError, ValueError) as no_delay:
                # The handler's own mistake, as if it had been raised there.
                return cls.raised(no_delay)
        kind, lines = type(error).__name__, _said(error).strip().splitlines()
        return cls.fail(fault(f"{kind}: {lines[-1]}" if lines else kind, kind), retryable=True)

    @classmethod
    def refused(cls, verb: str, error: Rejected) -> Outcome:
        """What is said instead of a result or release that was refused; the same work would give the same result."""
        told = fault(f"the {verb} was refused: {error}", error.code, {"errors": error.errors})
        return cls.fail(told, retryable=verb != "result")


def fault(message: object, code: object = None, detail: Any = None) -> Message:
    """An `error` member that the server takes: texts cut, `detail` left out where it cannot be sent."""
    error: Message = {"message": _text(message, MESSAGE_LENGTH) or "no message"}
    if code is not None:
        error["code"] = _text(code, CODE_LENGTH)
    if detail is not None:
        try:
            _check_detail(detail)
        except Rejected as refused:
            logger.warning("the detail of an error was left out: %s", refused.code)
        else:
            error["detail"] = detail
    return error


def _check_detail(detail: Any) -> None:
    encode({"detail": detail}, DETAIL_BYTES)
    if _deeper(detail, DETAIL_LEVELS):
        raise Rejected("bad-json", [{"path": "", "message": f"more than {DETAIL_LEVELS} levels"}])


def _deeper(value: Any, levels: int) -> bool:
    """Whether arrays and objects are within each other more often than this."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    return members is not None and (not levels or any(_deeper(member, levels - 1) for member in members))


def _text(value: object, length: int) -> str:
    """Cut, and with what JSON cannot keep replaced."""
    return _said(value)[:length].encode("utf-8", "replace").decode()


def _said(value: object) -> str:
    """What something of the handler's says of itself; its type's name where that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  it is the handler's code, and anything may come of it
        return type(value).__name__
