"""One work socket without I/O: leases, claims and reports, over as many sockets as it takes.

Messages go in; messages to send and events come out (PROTOCOL.md §4). It decides what a worker says and
when; it starts no handler, opens no socket and reads no clock.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

from leaseway.claims import ANSWER_WITHIN, PAUSE, Claims
from leaseway.errors import LeaseLost, Rejected
from leaseway.leases import Answered, Drained, Event, Lease, Quiet, Renewed, Settled, Start, Stop
from leaseway.outcome import Outcome
from leaseway.protocol import (
    CLIENT,
    DEFAULT_MAX_BYTES,
    PASSING,
    Mailbox,
    Message,
    Silent,
    batched,
    encode,
    flatten,
    rejected,
)
from leaseway.reports import Report, Reports
from leaseway.resuming import Resuming

logger = logging.getLogger("leaseway")


class WorkerState(Mailbox[Event]):
    """What one worker holds, has said and waits for. `slots` is how many handlers may run at once.

    `until_empty`: tells by `Drained` when there is nothing to claim. `awake` says whether the handlers' process
    could do anything at all: while it could not, nothing is renewed, claimed or kept.
    """

    def __init__(
        self,
        worker: str,
        slots: int,
        criteria: Message | None = None,
        *,
        labels: Message | None = None,
        until_empty: bool = False,
        awake: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self._worker = worker
        self._slots = slots
        self._labels = labels
        self._awake = awake
        self._claims = Claims(criteria, until_empty=until_empty)
        self._refs = itertools.count(1)
        self._max_bytes = DEFAULT_MAX_BYTES
        self._online = False
        self._draining = False
        self._quiet_told = False
        self._idle_told = False
        self._running = 0
        self._now = -math.inf
        self._leases: dict[str, Lease] = {}
        self._resuming = Resuming()
        self._reports = Reports()
        self._unclaim_ref: int | None = None
        self._unclaim_due = math.inf
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
        return not (self._running or self._claims or self._reports.any_last)

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        if self._draining and self.quiet and not self._quiet_told:
            self._quiet_told = True
            self.events.append(Quiet())
        return super().take_events()

    def next_message(self) -> bytes | None:
        """All that gathered since the last call as one frame, as far as one may hold it."""
        return batched(self.outgoing, self._max_bytes) if self.outgoing else None

    def hello(self) -> bytes:
        """Names the worker for the claims of this socket, so that they can be resumed."""
        hello: Message = {"worker": self._worker, "client": CLIENT, "cancel": True, "batch": True}
        return encode({"hello": hello if self._labels is None else {**hello, "labels": self._labels}})

    def opened(self, hello: Message, now: float) -> None:
        """Resumes, then says again what had no answer, then claims; the server keeps that order (§4)."""
        self._online = True
        self._now = now
        self._max_bytes = hello["maxMessageBytes"]
        self._resuming.begin(self._leases)
        self._resume()
        for report in self._reports:
            self._say_report(report)
        for lease in self._leases.values():
            self._renew_later(lease, now)
        self._claim_free_slots(now)

    def lost(self) -> None:
        """Claims die with their socket; leases and reports are kept for the next one."""
        self._online = False
        self.outgoing.clear()
        self._claims.lost()
        self._unclaim_due = math.inf
        self._deadline = math.inf
        self._reports.lost()

    def tick(self, now: float) -> None:
        """Renews leases, repeats reports and claims, each when it is due. Raises `Silent`."""
        if now < self._deadline or not self._online:
            return
        self._now = now
        self._deadline = math.inf
        if self._resuming.due <= now:
            self._resume()
        self._due(self._resuming.due)
        if self._unclaim_due <= now:
            self._unclaim()
        self._due(self._unclaim_due)
        for report in self._reports:
            if report.due <= now:
                self._say_report(report)
            self._due(report.due)
        self._renew(now)
        self._claim_free_slots(now)
        self._watch(now)

    def _renew(self, now: float) -> None:
        for lease in self._leases.values():
            if lease.settled:
                continue
            if lease.renew_at <= now:
                awake = self._awake()
                if awake:
                    self._report(lease, "renew", {})
                lease.renew_at = now + lease.seconds / (3 if awake else 12)
            self._due(lease.renew_at)

    def _watch(self, now: float) -> None:
        """Whatever the server must have answered by now, and did not, means that this socket is of no use.

        And now and then all is looked at anew, whether anything seemed due or not: a free place without a claim that
        waits would be a worker that only looks alive.
        """
        answer_due = min(self._reports.answer_due, self._claims.answer_due)
        if answer_due <= now:
            raise Silent(f"no answer within {ANSWER_WITHIN:.0f} s of when it was due")
        self._due(min(answer_due, now + ANSWER_WITHIN))

    def received(self, message: Message, now: float) -> None:
        """Takes one message of the server. Raises `Rejected` where it will have no claim of ours."""
        self._now = now
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

    def progress(self, lease: Lease, value: Any, now: float) -> int:
        """Says a progress record and gives its ref; `Answered` follows.

        Raises `LeaseLost`, or `Rejected` for what cannot be sent.
        """
        if self._leases.get(lease.id) is not lease or lease.settled:
            raise LeaseLost(f"{lease.id} is no longer ours")
        self._now = now
        return self._report(lease, "progress", {"value": value})

    def settle(self, lease: Lease, outcome: Outcome | None, now: float) -> None:
        """The handler of a lease ended; None where its outcome is of no use. Frees the slot."""
        self._now = now
        self._running -= 1
        if self._leases.get(lease.id) is lease:
            self._end(lease, outcome or Outcome.release())
        else:
            self.events.append(Settled(lease))
        self._claims.look_again()
        self._claim_free_slots(now)

    def drain(self) -> None:
        """Claims nothing from now on, withdraws the claims that wait, gives back at once what they still bring."""
        if not self._draining:
            self._draining = True
            self._unclaim()

    def adopt(self, leases: Iterable[Lease]) -> None:
        """Takes over what another conversation of the same worker held; handlers run for all of it."""
        for lease in leases:
            self._leases[lease.id] = lease
            self._running += 1

    def abandon(self) -> None:
        """The worker has gone: it holds nothing any more, and nothing that handlers say is of use."""
        for lease in self._leases.values():
            logger.warning("lease of %s left behind", lease)
        self._leases.clear()

    # What the server said

    def _on_item(self, message: Message, now: float) -> None:
        self._claims.item(message["ref"])
        self._idle_told = False
        lease = Lease.of(message, now)
        if older := self._leases.get(lease.id):
            self._lose(older, "claimed again")
        self._leases[lease.id] = lease
        self._renew_later(lease, now)
        if self._draining or not self._awake():
            self._end(lease, Outcome.release())
            self._claim_free_slots(now)
            return
        self._running += 1
        self.events.append(Start(lease))

    def _on_empty(self, message: Message, now: float) -> None:
        self._claims.empty(message["ref"], now)
        if self._claims.exhausted:
            if not (self._claims or self._running):
                self.events.append(Drained())
            return
        if not (self._running or self._idle_told or self._draining):
            self._idle_told = True
            logger.info("nothing to do: waiting for items")
        self._claim_free_slots(now)

    def _on_ack(self, message: Message, now: float) -> None:
        report = self._reports.answered(message["ref"])
        if report is None:  # It was taken back with its lease.
            return
        lease, accepted = report.lease, message["accepted"]
        if report.last:
            reason = "" if accepted or message.get("duplicate") else message.get("reason", "refused")
            self._forget(lease)
            self.events.append(Settled(lease, report.ending(message.get("status"), reason)))
            if reason:
                logger.warning("%s of %s: %s", report.verb, lease, reason)
        elif accepted:
            lease.until = report.said + lease.seconds
            self._renew_later(lease, now)
            self.events.append(Renewed(lease))
        else:
            self._lose(lease, message.get("reason", "refused"))
        if report.verb == "progress":
            error = None if accepted else LeaseLost(f"{lease.id} is no longer ours")
            self.events.append(Answered(message["ref"], error))

    def _on_resume_ack(self, message: Message) -> None:
        for answer in message["leases"]:
            lease = self._resuming.answered(answer["id"])
            if lease is not None and not answer["accepted"]:
                self._lose(lease, "not resumed")
        resumed = sum(answer["accepted"] for answer in message["leases"])
        logger.info("resumed %d of %d leases", resumed, len(message["leases"]))

    def _on_cancel(self, message: Message) -> None:
        if lease := self._leases.get(message["id"]):
            self._lose(lease, message.get("reason", "cancelled"))

    def _on_error(self, message: Message, now: float) -> None:
        ref, error = message.get("ref", 0), rejected(message)
        if error.code in PASSING:
            logger.warning("the server refused a message for the moment: %s", error.code)
            self._refused_for_now(ref, now + PAUSE)
        elif self._claims.refused(ref):
            raise error
        elif report := self._reports.answered(ref):
            self._refused(ref, report, error)
        else:
            logger.error("the server refused a message: %s", error.code)

    def _refused_for_now(self, ref: int, again: float) -> None:
        if self._claims.refused(ref):
            self._claims.not_before = again
        elif ref == self._unclaim_ref:
            self._unclaim_due = again
        elif not self._resuming.refused(ref, again):
            self._reports.later(ref, again)
        self._due(again)

    def _refused(self, ref: int, report: Report, error: Rejected) -> None:
        """A report that will never do. A result or a release becomes a fail."""
        if report.verb == "progress":
            self.events.append(Answered(ref, error))
            return
        logger.error("the %s of %s was refused: %s", report.verb, report.lease, error)
        if report.verb in ("result", "release"):
            self._end(report.lease, Outcome.refused(report.verb, error))
        elif report.last:
            self._forget(report.lease)
            self.events.append(Settled(report.lease, report.ending(None, str(error))))

    # The parts

    def _lose(self, lease: Lease, reason: str) -> None:
        """The lease is gone. What its handler said last may still count (§1, late writers), the rest not."""
        if lease.settled or self._leases.get(lease.id) is not lease:
            return
        logger.warning("lease of %s lost: %s", lease, reason)
        self._forget(lease)
        self.events.append(Stop(lease, reason))
        for ref, report in self._reports.forget(lease):
            if report.verb == "progress":
                self.events.append(Answered(ref, LeaseLost(f"{lease.id}: {reason}")))

    def _forget(self, lease: Lease) -> None:
        if self._leases.get(lease.id) is lease:
            del self._leases[lease.id]

    def _end(self, lease: Lease, outcome: Outcome) -> None:
        lease.settled = True
        try:
            self._report(lease, outcome.verb, outcome.body())
        except Rejected as error:
            logger.error("the %s of %s cannot be sent: %s", outcome.verb, lease, error)  # noqa: TRY400  no traceback helps
            refused = Outcome.refused(outcome.verb, error)
            self._report(lease, refused.verb, refused.body())

    def _report(self, lease: Lease, verb: str, members: Message) -> int:
        ref = next(self._refs)
        body = {"id": lease.id, "attempts": lease.attempts, **members}
        error = members.get("error", {}).get("message", "")
        report = Report(lease, verb, encode({verb: body, "ref": ref}, self._max_bytes), error)
        self._reports.add(ref, report)
        if self._online:
            self._say_report(report)
        return ref

    def _say_report(self, report: Report) -> None:
        report.due, report.said = math.inf, self._now
        self._due(self._now + ANSWER_WITHIN)
        self.outgoing.append(report.data)

    def _resume(self) -> None:
        """Asks for every lease that an earlier socket held and that was not lost since."""
        for some in self._resuming.slices(self._leases):
            leases = [{"id": lease.id, "attempts": lease.attempts} for lease in some]
            self._resuming.said(self._say({"resume": {"worker": self._worker, "leases": leases}}))

    def _unclaim(self) -> None:
        self._unclaim_due = math.inf
        if self._claims:
            self._unclaim_ref = self._say({"unclaim": True})

    def _say(self, message: Message) -> int:
        ref = next(self._refs)
        self.outgoing.append(encode({**message, "ref": ref}, self._max_bytes))
        return ref

    def _claim_free_slots(self, now: float) -> None:
        free = self._slots - self._running - self._claims.places
        if not self._online or self._draining or free <= 0 or self._claims.exhausted:
            return
        if not self._awake():
            self._claims.not_before = now + PAUSE
        if now < self._claims.not_before:
            self._due(self._claims.not_before)
            return
        ref = self._say({"claim": self._claims.body(free)})
        self._claims.said(ref, free, now)
        self._due(self._claims.answer_due)

    def _renew_later(self, lease: Lease, now: float) -> None:
        lease.renew_at = now + lease.seconds / 3
        self._due(lease.renew_at)

    def _due(self, at: float) -> None:
        self._deadline = min(self._deadline, at)
