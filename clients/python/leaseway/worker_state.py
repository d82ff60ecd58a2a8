"""One work socket without I/O: leases, claims and reports, over as many sockets as it takes.

Messages go in; messages to send and events come out (PROTOCOL.md §4). It decides what a worker says and
when; it starts no handler, opens no socket and reads no clock.
"""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass
from typing import Any

from leaseway.errors import LeaseLost, Rejected
from leaseway.outcome import Outcome
from leaseway.protocol import (
    CLIENT,
    DEFAULT_MAX_BYTES,
    PASSING,
    Mailbox,
    Message,
    encode,
    flatten,
    rejected,
)

logger = logging.getLogger("leaseway")

#: How long a claim waits on the server before it answers `empty`, milliseconds.
CLAIM_WAIT_MS = 60_000
#: Seconds before something that the server refused for the moment is said again.
PAUSE = 1.0


@dataclass(eq=False, slots=True)
class Lease:
    """An item that is ours. `attempts` is the fence; two leases of one item are two objects."""

    id: str
    attempts: int
    item: Any
    progress: Any
    meta: Any
    seconds: float
    renew_at: float
    #: Its handler has ended and its last report is under way.
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """A lease came: start the handler, and call `settle` when it has ended."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Stop:
    """The lease is gone: stop the handler, its outcome is of no use."""

    lease: Lease
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A progress record was stored (`error` is None) or will never be."""

    ref: int
    error: Rejected | LeaseLost | None


Event = Start | Stop | Answered


@dataclass(slots=True)
class Report:
    """Something said about a lease, until it is answered."""

    lease: Lease
    verb: str
    data: bytes
    #: Infinity while an answer is awaited; otherwise when to say it again.
    due: float = math.inf

    @property
    def last(self) -> bool:
        """Whether it ends the attempt."""
        return self.verb in ("result", "fail", "release")


class WorkerState(Mailbox[Event]):
    """What one worker holds, has said and waits for. `slots` is how many handlers may run at once.

    With `until_empty` its claims do not wait: the first that finds nothing makes it `emptied`.
    """

    def __init__(self, worker: str, slots: int, criteria: Message | None = None, *, until_empty: bool = False) -> None:
        super().__init__()
        self.emptied = False
        self._worker = worker
        self._slots = slots
        self._until_empty = until_empty
        self._claim: Message = {"waitMs": 0 if until_empty else CLAIM_WAIT_MS}
        if criteria is not None:
            self._claim["criteria"] = criteria
        encode({"claim": self._claim})  # Raises here rather than at the first claim.
        self._refs = itertools.count(1)
        self._max_bytes = DEFAULT_MAX_BYTES
        self._online = False
        self._draining = False
        self._running = 0
        self._leases: dict[str, Lease] = {}
        self._resuming: dict[str, Lease] = {}
        self._resume_ref = 0
        self._resume_due = math.inf
        self._reports: dict[int, Report] = {}
        self._claims: dict[int, float] = {}
        self._unclaim_ref: int | None = None
        self._unclaim_due = math.inf
        self._no_claim_before = -math.inf
        self._deadline = math.inf

    # What the connection asks and tells

    @property
    def urgent(self) -> bool:
        """Whether leases are held, which must be resumed within `resume_grace` (§6)."""
        return bool(self._leases)

    @property
    def deadline(self) -> float:
        """When the next renewal, repeated report or claim is due, at the earliest."""
        return self._deadline

    @property
    def quiet(self) -> bool:
        """Whether nothing runs, no item may be on its way to a claim, and every last report was answered."""
        return not (self._running or self._claims or any(report.last for report in self._reports.values()))

    def hello(self) -> bytes:
        """Names the worker for the claims of this socket, so that they can be resumed."""
        return encode({"hello": {"worker": self._worker, "client": CLIENT, "cancel": True, "batch": True}})

    def opened(self, hello: Message, now: float) -> None:
        """Resumes, then says again what had no answer, then claims; the server keeps that order (§4)."""
        self._online = True
        self._max_bytes = hello["maxMessageBytes"]
        self._resuming = dict(self._leases)
        self._resume()
        for report in self._reports.values():
            self._say_report(report)
        for lease in self._leases.values():
            self._renew_later(lease, now)
        self._claim_free_slots(now)

    def lost(self) -> None:
        """Claims die with their socket; leases and reports are kept for the next one."""
        self._online = False
        self.outgoing.clear()
        self._claims.clear()
        self._unclaim_due = math.inf
        self._deadline = math.inf
        self._reports = {ref: report for ref, report in self._reports.items() if report.verb != "renew"}

    def tick(self, now: float) -> None:
        """Renews leases, repeats reports and claims, each when it is due."""
        if now < self._deadline or not self._online:
            return
        self._deadline = math.inf
        if self._resume_due <= now:
            self._resume()
        self._due(self._resume_due)
        if self._unclaim_due <= now:
            self._unclaim()
        self._due(self._unclaim_due)
        for report in self._reports.values():
            if report.due <= now:
                self._say_report(report)
            self._due(report.due)
        for lease in self._leases.values():
            if lease.renew_at <= now and not lease.settled:
                self._report(lease, "renew", {})
                self._renew_later(lease, now)
            elif not lease.settled:
                self._due(lease.renew_at)
        self._claim_free_slots(now)

    def received(self, message: Message, now: float) -> None:
        """Takes one message of the server. Raises `Rejected` where it will have no claim of ours."""
        for one in flatten(message):
            match one.get("type"):
                case "item":
                    self._on_item(one, now)
                case "empty":
                    self._on_empty(one, now)
                case "progress-ack" | "renew-ack" | "result-ack" | "fail-ack" | "release-ack":
                    self._on_ack(one, now)
                case "resume-ack":
                    self._on_resume_ack(one)
                case "cancel":
                    self._on_cancel(one)
                case "error":
                    self._on_error(one, now)
                case other:
                    logger.debug("a message of type %r was ignored", other)

    # What the worker says

    def progress(self, lease: Lease, value: Any) -> int:
        """Says a progress record and gives its ref; `Answered` follows.

        Raises `LeaseLost`, or `Rejected` for what cannot be sent.
        """
        if self._leases.get(lease.id) is not lease or lease.settled:
            raise LeaseLost(f"{lease.id} is no longer ours")
        return self._report(lease, "progress", {"value": value})

    def settle(self, lease: Lease, outcome: Outcome | None, now: float) -> None:
        """The handler of a lease ended; None where its outcome is of no use. Frees the slot."""
        self._running -= 1
        if outcome is not None and self._leases.get(lease.id) is lease:
            self._end(lease, outcome)
        self._claim_free_slots(now)

    def drain(self) -> None:
        """Claims nothing from now on, withdraws the claims that wait, gives back at once what they still bring."""
        self._draining = True
        self._unclaim()

    def abandon(self) -> None:
        """The worker has gone: it holds nothing any more, and nothing that handlers say is of use."""
        for lease in self._leases.values():
            logger.warning("lease of %s/%d left behind", lease.id, lease.attempts)
        self._leases.clear()

    # What the server said

    def _on_item(self, message: Message, now: float) -> None:
        self._claims.pop(message["ref"], None)
        lease = Lease(
            message["id"],
            message["attempts"],
            message["item"],
            message.get("progress"),
            message.get("meta"),
            message["leaseMs"] / 1000,
            math.inf,
        )
        if older := self._leases.get(lease.id):
            self._lose(older, "claimed again")
        self._leases[lease.id] = lease
        self._renew_later(lease, now)
        if self._draining:
            self._end(lease, Outcome.release())
            return
        self._running += 1
        self.events.append(Start(lease))

    def _on_empty(self, message: Message, now: float) -> None:
        asked = self._claims.pop(message["ref"], -math.inf)
        self.emptied = self._until_empty
        if now - asked < PAUSE:  # A server that stops, or does not wait: not a reason to spin.
            self._no_claim_before = now + PAUSE
        self._claim_free_slots(now)

    def _on_ack(self, message: Message, now: float) -> None:
        report = self._reports.pop(message["ref"], None)
        if report is None:  # It was taken back with its lease.
            return
        lease, accepted = report.lease, message["accepted"]
        if report.last:
            self._forget(lease)
            if not accepted and not message.get("duplicate"):
                reason = message.get("reason", "refused")
                logger.warning("%s of %s/%d: %s", report.verb, lease.id, lease.attempts, reason)
        elif accepted:
            self._renew_later(lease, now)
        else:
            self._lose(lease, message.get("reason", "refused"))
        if report.verb == "progress":
            error = None if accepted else LeaseLost(f"{lease.id} is no longer ours")
            self.events.append(Answered(message["ref"], error))

    def _on_resume_ack(self, message: Message) -> None:
        for answer in message["leases"]:
            lease = self._resuming.get(answer["id"])
            if lease is not None and not answer["accepted"]:
                self._lose(lease, "not resumed")

    def _on_cancel(self, message: Message) -> None:
        lease = self._leases.get(message["id"])
        if lease is not None:
            self._lose(lease, message.get("reason", "cancelled"))

    def _on_error(self, message: Message, now: float) -> None:
        ref, error = message.get("ref", 0), rejected(message)
        if error.code in PASSING:
            logger.warning("the server refused a message for the moment: %s", error.code)
            self._refused_for_now(ref, now + PAUSE)
        elif self._claims.pop(ref, None) is not None:
            raise error
        elif report := self._reports.pop(ref, None):
            self._refused(ref, report, error)
        else:
            logger.error("the server refused a message: %s", error.code)

    def _refused_for_now(self, ref: int, again: float) -> None:
        if self._claims.pop(ref, None) is not None:
            self._no_claim_before = again
        elif ref == self._resume_ref:
            self._resume_due = again
        elif ref == self._unclaim_ref:
            self._unclaim_due = again
        elif ref in self._reports:
            self._reports[ref].due = again
        self._due(again)

    def _refused(self, ref: int, report: Report, error: Rejected) -> None:
        """A report that will never do. A result or a release becomes a fail."""
        if report.verb == "progress":
            self.events.append(Answered(ref, error))
        elif report.verb in ("result", "release"):
            self._end(report.lease, Outcome.refused(report.verb, error))
        else:
            logger.error("%s of %s was refused: %s", report.verb, report.lease.id, error.code)
            if report.last:
                self._forget(report.lease)

    # The parts

    def _lose(self, lease: Lease, reason: str) -> None:
        """The lease is gone. What its handler said last may still count (§1, late writers), the rest not."""
        if lease.settled or self._leases.get(lease.id) is not lease:
            return
        logger.warning("lease of %s/%d lost: %s", lease.id, lease.attempts, reason)
        self._forget(lease)
        self.events.append(Stop(lease, reason))
        for ref, report in list(self._reports.items()):
            if report.lease is lease:
                del self._reports[ref]
                if report.verb == "progress":
                    self.events.append(Answered(ref, LeaseLost(f"{lease.id}: {reason}")))

    def _forget(self, lease: Lease) -> None:
        if self._leases.get(lease.id) is lease:
            del self._leases[lease.id]

    def _end(self, lease: Lease, outcome: Outcome) -> None:
        lease.settled = True
        try:
            self._report(lease, outcome.verb, outcome.members)
        except Rejected as error:
            refused = Outcome.refused(outcome.verb, error)
            self._report(lease, refused.verb, refused.members)

    def _report(self, lease: Lease, verb: str, members: Message) -> int:
        ref = next(self._refs)
        body = {"id": lease.id, "attempts": lease.attempts, **members}
        report = Report(lease, verb, encode({verb: body, "ref": ref}, self._max_bytes))
        self._reports[ref] = report
        if self._online:
            self._say_report(report)
        return ref

    def _say_report(self, report: Report) -> None:
        report.due = math.inf
        self.outgoing.append(report.data)

    def _resume(self) -> None:
        """Asks for every lease that an earlier socket held and that was not lost since."""
        self._resume_due = math.inf
        held = [lease for lease in self._resuming.values() if self._leases.get(lease.id) is lease]
        if held:
            leases = [{"id": lease.id, "attempts": lease.attempts} for lease in held]
            self._resume_ref = self._say({"resume": {"worker": self._worker, "leases": leases}})

    def _unclaim(self) -> None:
        self._unclaim_due = math.inf
        if self._claims:
            self._unclaim_ref = self._say({"unclaim": True})

    def _say(self, message: Message) -> int:
        ref = next(self._refs)
        self.outgoing.append(encode({**message, "ref": ref}, self._max_bytes))
        return ref

    def _claim_free_slots(self, now: float) -> None:
        if not self._online or self._draining:
            return
        free = self._slots - self._running - len(self._claims)
        if free > 0 and now < self._no_claim_before:
            self._due(self._no_claim_before)
            return
        for _ in range(free):
            self._claims[self._say({"claim": self._claim})] = now

    def _renew_later(self, lease: Lease, now: float) -> None:
        lease.renew_at = now + lease.seconds / 3
        self._due(lease.renew_at)

    def _due(self, at: float) -> None:
        self._deadline = min(self._deadline, at)
