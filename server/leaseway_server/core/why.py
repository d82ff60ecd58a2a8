"""Why an item is where it is: every reason that holds, from facts that the caller gathered (PROTOCOL.md §5, `why`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import MESSAGE_LIMIT
from leaseway_server.core.jsontext import Json, write
from leaseway_server.core.model import HTTP, NOBODY, Item

MOST_AHEAD: Final = 10_000
"""So many items ahead are counted, and no more."""
MOST_TOLD: Final = 3
"""So many workers and what they ask for are told."""
_NAMELESS: Final = {
    "no-worker": "no worker asks for it now",
    "no-match": "no claim matches",
    "busy": "each worker whose claim matches holds work",
    "held": "a worker holds it",
}
"""What is said to whom others' items and work are hidden, instead of what tells of them."""
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


@dataclass(frozen=True, slots=True)
class Worker:
    """A work socket that is open: `latest` is what its latest claim asked for, None before its first."""

    name: str
    latest: Criteria | None
    holds: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the queue at `now`, ms since the epoch.

    `ahead`: ready items that are handed out before this one, counted up to `MOST_AHEAD`. `asked`: the criteria of the
    claims that wait, over sockets and HTTP. `names`: whether workers, users and criteria may be named.
    """

    now: int
    paused: bool
    ahead: int
    asked: Sequence[Criteria]
    workers: Sequence[Worker]
    names: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. `code` is part of the protocol, the message is for people."""

    code: str
    message: str


def why(item: Item, value: Json, facts: Facts) -> list[Reason]:
    """All reasons; `value` is the item as posted, parsed. An item that is not pending has one: how it is instead."""
    if item.terminal:
        found = [(str(item.status), _ended(item, facts.now))]
    elif item.status == "processing":
        found = [("held", _held(item, facts.now))]
    else:
        found = list(_waits(item, value, facts))
    if not facts.names:
        found = [(code, _NAMELESS.get(code, message)) for code, message in found]
    return [Reason(code, message[:MESSAGE_LIMIT]) for code, message in found]


def _waits(item: Item, value: Json, facts: Facts) -> Iterator[tuple[str, str]]:
    if not item.ready and item.due_at > facts.now:
        again = f", after attempt {item.attempts}" if item.attempts else ""
        yield "not-due", f"it is due in {_span(item.due_at - facts.now)}{again}"
    if facts.paused:
        yield "paused", "the queue is paused: nothing is handed out"
    if facts.ahead:
        least = "at least " if facts.ahead >= MOST_AHEAD else ""
        yield "ahead", f"{least}{facts.ahead} ready items come first, by priority, due time or age"
    yield from _workers(value, facts)


def _workers(value: Json, facts: Facts) -> Iterator[tuple[str, str]]:
    """What keeps those who could take it from doing so; nothing where a claim that matches waits."""
    if any(criteria.matches(value) for criteria in facts.asked):
        return
    met = {criteria: criteria.matches(value) for criteria in {each.latest for each in facts.workers} if criteria}
    fitting = [worker for worker in facts.workers if worker.latest and met[worker.latest]]
    idle = [worker for worker in fitting if not worker.holds]
    if fitting and not idle:
        yield "busy", f"each worker whose claim matches holds work: {_names(fitting)}"
    elif fitting:
        yield "no-worker", f"workers whose latest claim matches are idle, and ask for nothing now: {_names(idle)}"
    elif met or facts.asked:
        yield "no-match", _no_match(value, facts)
    elif facts.workers:
        yield "no-worker", f"workers are connected, and none has claimed yet: {_names(facts.workers)}"
    else:
        yield "no-worker", "no worker is connected"


def _no_match(value: Json, facts: Facts) -> str:
    """The criterion that fails of each claim, and who asks for it where that is a socket's."""
    asked = {each.latest: _cut(each.name) or "a worker" for each in reversed(facts.workers) if each.latest}
    asked = dict.fromkeys(facts.asked, "a waiting claim") | asked
    told = [f"{who} {_asks(criteria, value)}" for criteria, who in list(asked.items())[:MOST_TOLD]]
    more = f"; and {len(asked) - MOST_TOLD} more" if len(asked) > MOST_TOLD else ""
    return f"no claim matches: {'; '.join(told)}{more}"


def _asks(criteria: Criteria, value: Json) -> str:
    failed = criteria.explain(value)
    assert failed is not None, "it matches"
    path, asked = failed
    return f"asks for {_cut(write(asked))} at {_cut(path) or 'the whole item'}"


def _held(item: Item, now: int) -> str:
    who = f"worker {_cut(item.worker)}" if item.worker else "a worker without a name"
    user = f" of the user {_cut(item.lease_user)}" if item.lease_user else ""
    over = " (over HTTP)" if item.holder == HTTP else ""
    gone = " (its socket is gone)" if item.holder == NOBODY else ""
    since, until = _span(now - item.started_at), _span(item.lease_until - now)
    return f"{who}{user}{over}{gone} has held it for {since}, and does for {until} more unless it is renewed"


def _ended(item: Item, now: int) -> str:
    return f"it is {item.status}, since {_span(now - item.finished_at)}, after {item.attempts} attempts"


def _names(workers: Sequence[Worker]) -> str:
    told = ", ".join(_cut(worker.name) or "without a name" for worker in workers[:MOST_TOLD])
    return told + (f" and {len(workers) - MOST_TOLD} more" if len(workers) > MOST_TOLD else "")


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _span(ms: int) -> str:
    """A time in the largest unit that it has two of, or in seconds."""
    ms = max(0, ms)
    size, unit = next(((size, unit) for size, unit in _UNITS if ms >= 2 * size), _UNITS[-1])
    return f"{-(-ms // size)} {unit}"
