"""Why an item is where it is: every reason that holds, from facts that the caller gathered (PROTOCOL.md §5, `why`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import MESSAGE_LIMIT
from leaseway_server.core.jsontext import Json, parse, write
from leaseway_server.core.model import HTTP, NOBODY, Item

MOST_AHEAD: Final = 10_000
"""So many items ahead are counted, and no more."""
MOST_EFFORT: Final = 4_000
"""The claims of workers, and those that wait, are looked at until this is used up, which takes a few ms; of the effort
that `Criteria.effort` tells."""
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
    claims that wait, over sockets and HTTP. `names`: whether workers, users and criteria may be named. `lease_ends`:
    when the item's lease is taken away (0: not known); `orphaned`: the socket that held it is of before the start.
    `elsewhere`: workers are connected to other servers, of which no more is known.
    """

    now: int
    paused: bool
    ahead: int
    asked: Sequence[Criteria]
    workers: Sequence[Worker]
    names: bool = True
    lease_ends: int = 0
    orphaned: bool = False
    elsewhere: bool = False


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
        found = [("held", _held(item, facts))]
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
    if not facts.elsewhere:
        yield from _workers(value, len(item.body), facts)


def _workers(value: Json, characters: int, facts: Facts) -> Iterator[tuple[str, str]]:
    """What keeps those who could take it from doing so; nothing where a claim that matches waits.

    Of very many claims not all are looked at, which is told.
    """
    asked = _affordable(facts.asked, characters)
    if any(criteria.matches(value) for criteria in asked):
        return
    latest = list(dict.fromkeys(each.latest for each in facts.workers if each.latest))
    met = {criteria: criteria.matches(value) for criteria in _affordable(latest, characters)}
    code, message = _unserved(value, asked, met, facts.workers)
    looked, all_of_them = len(asked) + len(met), len(facts.asked) + len(latest)
    yield code, message if looked == all_of_them else f"of {all_of_them} claims {looked} were looked at: {message}"


def _affordable(claims: Sequence[Criteria], characters: int) -> Sequence[Criteria]:
    """The first ones, as many as can be held against an item of so many characters without holding up anybody."""
    effort = 0
    for index, criteria in enumerate(claims):
        if effort > MOST_EFFORT:
            return claims[:index]
        effort += criteria.effort(characters)
    return claims


def _unserved(
    value: Json, asked: Sequence[Criteria], met: Mapping[Criteria, bool], workers: Sequence[Worker]
) -> tuple[str, str]:
    """The reason where no claim that waits (`asked`) matches; `met` says which of the workers' latest ones do."""
    fitting = [worker for worker in workers if worker.latest and met.get(worker.latest)]
    idle = [worker for worker in fitting if not worker.holds]
    if fitting and not idle:
        return "busy", f"each worker whose claim matches holds work: {_names(fitting)}"
    if fitting:
        return "no-worker", f"workers whose latest claim matches are idle, and ask for nothing now: {_names(idle)}"
    if met or asked:
        return "no-match", _no_match(value, [*asked, *met], workers)
    if workers:
        return "no-worker", f"workers are connected, and none has claimed yet: {_names(workers)}"
    return "no-worker", "no worker is connected"


def _no_match(value: Json, claims: Sequence[Criteria], workers: Sequence[Worker]) -> str:
    """The criterion that fails of each claim, and who asks for it where that is a socket's."""
    names = {each.latest: _cut(each.name) or "a worker" for each in reversed(workers) if each.latest}
    asked = {criteria: names.get(criteria, "a waiting claim") for criteria in claims}
    told = [f"{who} {_asks(criteria, value)}" for criteria, who in list(asked.items())[:MOST_TOLD]]
    more = f"; and {len(asked) - MOST_TOLD} more" if len(asked) > MOST_TOLD else ""
    return f"no claim matches: {'; '.join(told)}{more}"


def _asks(criteria: Criteria, value: Json) -> str:
    failed = criteria.explain(value)
    assert failed is not None, "it matches"
    path, asked = failed
    return f"asks for {_cut(write(asked))} at {_cut(path) or 'the whole item'}"


def _held(item: Item, facts: Facts) -> str:
    who = f"worker {_cut(item.worker)}" if item.worker else "a worker without a name"
    user = f" of the user {_cut(item.lease_user)}" if item.lease_user else ""
    over = " (over HTTP)" if item.holder == HTTP else ""
    left = item.holder == NOBODY or facts.orphaned
    gone = " (its socket is gone)" if left else ""
    ends = facts.lease_ends or item.lease_until
    unless = "it is resumed" if left else "it makes progress" if ends < item.lease_until else "it is renewed"
    since, until = _span(facts.now - item.started_at), _span(ends - facts.now)
    return f"{who}{user}{over}{gone} has held it for {since}, and does for {until} more unless {unless}"


def _ended(item: Item, now: int) -> str:
    attempts = f"{item.attempts} attempt{'' if item.attempts == 1 else 's'}"
    fault = parse(item.error) if item.error and item.status in ("failed", "dead") else {}
    said = f": {fault['message']}" if isinstance(fault, dict) and fault.get("message") else ""
    return f"it has been {item.status} for {_span(now - item.finished_at)}, after {attempts}{said}"


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
