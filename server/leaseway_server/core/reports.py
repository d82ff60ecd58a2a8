"""What workers say, from JSON to commands, and its answers: alike on the work socket and over HTTP (§4, §5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from leaseway_server.core.commands import Ask, Change, Changed
from leaseway_server.core.criteria import Criteria, CriteriaRefused
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import Event, Fail, Progress, Release, Renew, Result
from leaseway_server.core.jsontext import HIGHEST_INTEGER, Json
from leaseway_server.core.members import Members, an_object, flag, integer, item_id, name_of, required
from leaseway_server.core.queue import RECORD_LIMIT, Queue, check_in

REPORTS: Final = frozenset({"progress", "result", "fail", "release", "renew"})
Message: TypeAlias = dict[str, object]
CRITERIA_A_CLAIM: Final = 10
"""A waiting claim counts as one more for each so many values in its criteria."""
CHARACTERS_A_CLAIM: Final = 1_000
"""And as one more for each so many characters of their names and texts."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who speaks: a socket (or HTTP), its user, and the numbers that it claimed its items with."""

    holder: int
    user: str
    fence_of: Callable[[str], int | None]
    chance: Callable[[], float]
    """In [0, 1); spreads the backoff of fails."""


def parse_report(verb: str, value: Json, queue: Queue, reporter: Reporter) -> Change:
    """A report on an item. Raises `Refused`, with paths into `value` for progress and result, else into the report."""
    report = an_object(value, verb)
    known = item_id(report)
    fence = integer(report, "attempts")
    if fence is None:
        fence = reporter.fence_of(known)
    return Change(known, _PARSE[verb](report, fence, queue, reporter))


def parse_ask(value: Json, queue: Queue, holder: int, user: str, worker: str) -> Ask:
    """A claim; `worker` is the name that the socket's `hello` gave. Raises `BadMessage`."""
    claim = an_object(value, "claim")
    try:
        criteria = Criteria.parse(claim.get("criteria"))
    except CriteriaRefused as refused:
        raise BadMessage(str(refused), path="/criteria" + refused.path) from None
    return Ask(
        holder=holder,
        user=user,
        worker=name_of(claim, "worker") or worker,
        criteria=criteria,
        given=claim.get("criteria"),
        count=min(integer(claim, "count", least=1, most=HIGHEST_INTEGER) or 1, queue.limits.count),
        wait_ms=min(integer(claim, "waitMs", most=HIGHEST_INTEGER) or 0, queue.limits.wait_ms),
    )


def weight(ask: Ask) -> int:
    """What a waiting claim counts as: large criteria cost each item that comes more than small ones."""
    criteria = ask.criteria
    return 1 + criteria.size // CRITERIA_A_CLAIM + criteria.characters // CHARACTERS_A_CLAIM


def ack(verb: str, item_id: str, changed: Changed, queue: Queue) -> Message:
    """The answer to a report."""
    item = changed.item
    message: Message = {
        "type": f"{verb}-ack",
        "id": item_id,
        "accepted": changed.accepted,
        "status": item.status if item else None,
    }
    if verb in ("fail", "release"):
        message["dueAt"] = item.due_at if item and item.status == "pending" else None
    elif verb == "renew":
        message["leaseUntil"] = (item.lease_until or None) if item else None
        message["leaseMs"] = queue.policy.lease
    if not changed.accepted:
        message["reason"] = changed.reason
        if changed.duplicate:
            message["duplicate"] = True
    return message


def _progress(report: Members, fence: int | None, queue: Queue, reporter: Reporter) -> Event:
    value = check_in(required(report, "value"), queue.schemas.progress, RECORD_LIMIT, "the progress record")
    return Progress(value, reporter.holder, reporter.user, fence)


def _result(report: Members, fence: int | None, queue: Queue, _reporter: Reporter) -> Event:
    limit = queue.limits.value_bytes
    return Result(check_in(required(report, "value"), queue.schemas.result, limit, "the result"), fence)


def _fail(report: Members, fence: int | None, _queue: Queue, reporter: Reporter) -> Event:
    error = an_object(required(report, "error"), "error", "/error")
    kept = {name: error[name] for name in ("message", "code", "detail") if name in error}
    if not isinstance(kept.get("message"), str):
        raise BadMessage("error.message must be a text", path="/error/message")
    if not isinstance(kept.get("code", ""), str):
        raise BadMessage("error.code must be a text", path="/error/code")
    return Fail(
        error=check_in(kept, None, RECORD_LIMIT, "the error", "/error"),
        retryable=flag(report, "retryable", default=True),
        fence=fence,
        chance=reporter.chance(),
        retry_in=integer(report, "retryInMs"),
    )


def _release(report: Members, fence: int | None, _queue: Queue, reporter: Reporter) -> Event:
    return Release(reporter.holder, reporter.user, fence, integer(report, "delayMs"))


def _renew(_report: Members, fence: int | None, _queue: Queue, reporter: Reporter) -> Event:
    return Renew(reporter.holder, reporter.user, fence)


_PARSE: Final[dict[str, Callable[[Members, int | None, Queue, Reporter], Event]]] = {
    "progress": _progress,
    "result": _result,
    "fail": _fail,
    "release": _release,
    "renew": _renew,
}
