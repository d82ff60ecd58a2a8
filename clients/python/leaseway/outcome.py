"""How an attempt ends: what a handler returned or raised, as the report that the server gets (PROTOCOL.md §4).

Pure; when a report is said, and how often, is `worker_state.py`'s business.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import orjson

from leaseway.errors import Permanent, Rejected, Release, Retry
from leaseway.protocol import MAX_MS, Message, encode, encode_value
from leaseway.shapes import to_json

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
    #: The item's result as JSON: encoded once, wherever it travels.
    value: bytes | None = None

    @classmethod
    def result(cls, value: Any) -> Outcome:
        """The item is done; or failed for good, where the result is nothing that JSON can keep."""
        try:
            return cls("result", value=encode_value(to_json(value)))
        except Rejected as error:
            return cls.refused("result", error)

    @classmethod
    def fail(cls, error: Message, *, retryable: bool) -> Outcome:
        """The attempt failed."""
        return cls("fail", {"error": error, "retryable": retryable})

    @classmethod
    def retry(cls, message: object, delay: float | None) -> Outcome:
        """The attempt failed; the next is due after `delay` seconds, None for the queue's backoff. Raises as below."""
        members: Message = {"error": fault(message, "Retry"), "retryable": True}
        if delay is not None:
            members["retryInMs"] = _milliseconds(delay)
            if members["retryInMs"] > MAX_MS:
                raise OverflowError(f"a retry in {delay:g} s is too far away")
        return cls("fail", members)

    @classmethod
    def release(cls, delay: float | None = None) -> Outcome:
        """The item goes back; `delay` in seconds, None for at once. Raises for what is no length of time."""
        return cls("release", {} if delay is None else {"delayMs": _milliseconds(delay)})

    @classmethod
    def raised(cls, error: BaseException) -> Outcome:
        """What an exception of a handler means: its type and last line are told, no traceback. Never raises."""
        if isinstance(error, Permanent):
            return cls.fail(fault(error, error.code, error.detail), retryable=False)
        if isinstance(error, Release | Retry):
            try:
                outcome = cls.release(error.delay) if isinstance(error, Release) else cls.retry(error, error.in_)
                encode_value(outcome.members)
            except (ArithmeticError, TypeError, ValueError) as no_delay:
                # The handler's own mistake, as if it had been raised there.
                return cls.raised(no_delay)
            except Rejected as too_long:
                return cls.refused(outcome.verb, too_long)
            return outcome
        kind, lines = type(error).__name__, _said(error).strip().splitlines()
        return cls.fail(fault(f"{kind}: {lines[-1]}" if lines else kind, kind), retryable=True)

    @classmethod
    def refused(cls, verb: str, error: Rejected) -> Outcome:
        """What is said instead of a result or release that was refused; the same work would give the same result."""
        told = fault(f"the {verb} was refused: {error}", error.code, {"errors": error.errors})
        return cls.fail(told, retryable=verb != "result")

    def body(self) -> Message:
        """The members of the report."""
        return self.members if self.value is None else {**self.members, "value": orjson.Fragment(self.value)}


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


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


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
