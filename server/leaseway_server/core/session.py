"""One work socket, without I/O: messages in give commands, outcomes give messages out (PROTOCOL.md §4).

What the socket holds is not decided here: that is read from the committed leases. It remembers only with which number
it claimed an item, so that a client which sends no `attempts` is fenced all the same.
"""

from collections.abc import Callable
from itertools import count
from typing import ClassVar, Final

import orjson

from leaseway_server.core.commands import Ask, Changed, Done, Empty, Handed, Outcome, Resumed, ResumeLeases, Withdraw
from leaseway_server.core.conversation import IDS_A_MESSAGE, Conversation, Exchange, Message, with_ref
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import BadMessage, LimitReached
from leaseway_server.core.jsontext import Json
from leaseway_server.core.limits import Allowance
from leaseway_server.core.members import an_object, integer, item_id, name_of, required
from leaseway_server.core.queue import Queue
from leaseway_server.core.reports import REPORTS, Reporter, ack, parse_ask, parse_report, weight
from leaseway_server.core.view import encode_item

REMEMBERED: Final = 20_000
"""So many of a socket's latest claims, and at most twice as many, keep their number for reports without one."""


class WorkSession(Conversation):
    """What one worker's socket says and is told.

    `holder` is the socket's number, `user` whose token it came with, `waiting` how many claims may wait, which it
    shares with the other sockets of its token.
    """

    verbs: ClassVar[frozenset[str]] = REPORTS | {"claim", "unclaim", "resume", "hello", "batch"}

    def __init__(self, queue: Queue, holder: int, user: str, chance: Callable[[], float], waiting: Allowance) -> None:
        super().__init__(queue)
        self.holder = holder
        self.user = user
        self.latest: Criteria | None = None
        """The criteria of its latest claim; None before the first."""
        self._claimed_as = ""
        self._waiting_claims = waiting
        self._fences = _Fences()
        self._reporter = Reporter(holder, user, self._fences.get, chance)

    def lost(self, item_id: str, reason: str) -> None:
        """This socket lost an item that it held: it is told where its `hello` asked for that."""
        if self.greeting.cancel:
            message = orjson.dumps({"type": "cancel", "id": item_id, "reason": reason})
            self._weight += len(message)
            self._outgoing.append(message)

    @property
    def name(self) -> str:
        """The worker's name: its `hello`'s, or else that of its latest claim; "" where neither gave one."""
        return self.greeting.worker or self._claimed_as

    def _handle(self, verb: str, value: Json, exchange: Exchange, said: list[Exchange]) -> None:
        if verb in REPORTS and isinstance(value, list):
            said += self._each(value, exchange, self.queue.limits.batch, self._report)
            return
        if verb == "claim":
            self._claim(value, exchange)
        elif verb == "unclaim":
            if value is not True:
                raise BadMessage("unclaim is followed by true")
            exchange.command = Withdraw(self.holder)
        elif verb == "resume":
            exchange.command = self._resume(value)
        else:
            self._report(value, exchange)
        said.append(self._begin(exchange))

    def _claim(self, value: Json, exchange: Exchange) -> None:
        ask = parse_ask(value, self.queue, self.holder, self.user, self.greeting.worker)
        exchange.command = ask
        exchange.left = ask.count
        exchange.ordered = not ask.wait_ms
        self._park(exchange)
        self.latest, self._claimed_as = ask.criteria, ask.worker

    def _report(self, value: Json, exchange: Exchange) -> None:
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            exchange.id = str(value["id"])  # An `error` names the item too.
        exchange.command = parse_report(exchange.verb, value, self.queue, self._reporter)

    def _park(self, exchange: Exchange) -> None:
        """Counts the claims that wait."""
        if not exchange.ordered and not self._waiting_claims.take(_weight_of(exchange)):
            limit = self._waiting_claims.of.limit
            raise LimitReached(f"{limit} claims of this token wait already, which is all that may")

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Takes an outcome of the exchange's command."""
        super().settle(exchange, outcome)
        if exchange.left == 0 and not exchange.ordered:
            self._waiting_claims.give(_weight_of(exchange))

    def _resume(self, value: Json) -> ResumeLeases:
        resume = an_object(value, "resume")
        leases = required(resume, "leases")
        if not isinstance(leases, list):
            raise BadMessage("leases must be an array", path="/leases")
        if len(leases) > self.queue.limits.ids:
            raise LimitReached(f"at most {self.queue.limits.ids} leases are resumed at once", path="/leases")
        self.heard += len(leases) // IDS_A_MESSAGE
        worker = name_of(resume, "worker") or self.greeting.worker
        if not worker:
            raise BadMessage("worker is missing: the name that the claims were made under", path="/worker")
        return ResumeLeases(self.holder, self.user, worker, tuple(map(_lease_at, count(), leases)))

    def _answer(self, exchange: Exchange, outcome: Outcome) -> None:
        match outcome:
            case Handed(item):
                self._fences.remember(item.id, item.attempts)
                self._say_encoded(exchange, with_ref(encode_item(item, self.queue.policy.lease), exchange))
            case Empty():
                exchange.left = 0
                self._say(exchange, {"type": "empty"})
            case Changed():
                self._say(exchange, ack(exchange.verb, exchange.id or "", outcome, self.queue))
            case Resumed(leases):
                self._say(exchange, self._resume_ack(exchange, leases))
            case _:
                assert isinstance(outcome, Done)  # An `unclaim`: the claims' own `empty` is its answer.

    def _resume_ack(self, exchange: Exchange, leases: tuple[Changed, ...]) -> Message:
        command = exchange.command
        assert isinstance(command, ResumeLeases)
        answers = []
        for (known, attempts), changed in zip(command.leases, leases, strict=True):
            if changed.accepted:
                self._fences.remember(known, attempts)
            answers.append(_resumed(known, changed))
        return {"type": "resume-ack", "leases": answers}


class _Fences:
    """The numbers of a socket's latest claims, by id. It knows no session: one that is closed is freed at once."""

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def remember(self, known: str, attempts: int) -> None:
        if len(self._newer) >= REMEMBERED:
            self._older, self._newer = self._newer, {}
        self._newer[known] = attempts

    def get(self, known: str) -> int | None:
        return self._newer.get(known) or self._older.get(known)


def _lease(value: Json) -> tuple[str, int]:
    lease = an_object(value, "a lease")
    attempts = integer(lease, "attempts")
    if attempts is None:
        raise BadMessage("each lease needs its attempts, the number that came with the item")
    return item_id(lease), attempts


def _lease_at(index: int, value: Json) -> tuple[str, int]:
    try:
        return _lease(value)
    except BadMessage as refused:
        raise BadMessage(str(refused), path=f"/leases/{index}{refused.problems[0].path}") from None


def _resumed(known: str, changed: Changed) -> Message:
    item = changed.item
    answer: Message = {
        "id": known,
        "accepted": changed.accepted,
        "status": item.status if item else None,
        "leaseUntil": item.lease_until if item and changed.accepted else None,
    }
    if not changed.accepted:
        answer["reason"] = changed.reason
    return answer


def _weight_of(exchange: Exchange) -> int:
    assert isinstance(exchange.command, Ask)
    return weight(exchange.command)
