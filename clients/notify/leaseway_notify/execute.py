"""Execution: one attempt at a delivery, from its beginning to what became of it.

Owns the order of things: begin, look, note, send, settle. What is looked at is `gate.py`'s, how something is sent is
in `channels/`; that an attempt is made, and made again, is the queue's.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from leaseway_notify.caps import of_storm
from leaseway_notify.classify import Fault, Kind, NotSent
from leaseway_notify.delivery import Change, Reason, Sending, Status
from leaseway_notify.errors import StoreAway, UnknownType
from leaseway_notify.gate import Gate, left_out
from leaseway_notify.message import ChannelExecutor, Message, Notes, Skipped
from leaseway_notify.profile import Channel
from leaseway_notify.rules import DEFAULT, Rules
from leaseway_notify.stores.base import Begun, DeliveryStore
from leaseway_notify.verdict import Drop, Go, PutOff

_log = logging.getLogger("leaseway.notify")

SETTLE_EVERY: Final = 0.2
"""Seconds between two tries at keeping what became of a message."""
MEMBERS: Final = "members"
"""Under this name the deliveries are noted that a message holds."""
TAKEN: Final = "taken"
"""And under this one those whose message was taken, where the store could not be told."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more is to be done: the delivery's status by now, and why."""

    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """To be begun again after so many seconds; nothing failed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Again:
    """It failed for a time. The next attempt is the queue's to plan, or is due after `seconds`."""

    fault: Fault
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Failed:
    """No other attempt could succeed."""

    fault: Fault


Ending: TypeAlias = Done | Wait | Again | Failed


class Execution:
    """Executes deliveries, as many at a time as it is asked to."""

    def __init__(
        self,
        store: DeliveryStore,
        gate: Gate,
        channels: Mapping[Channel, ChannelExecutor],
        rules: Rules = DEFAULT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._gate = gate
        self._channels = channels
        self._rules = rules
        self._clock = clock

    async def run(self, delivery_id: str, fence: int, notes: Notes) -> Ending:
        """One attempt, the one with this number. Never raises what an attempt can meet."""
        try:
            begun = await self._store.begin(delivery_id, fence, self._now())
            if begun is None:
                return await self._ended(delivery_id)
            if begun.led:
                return Wait(self._rules.led / 1000)
            return await self._begun(begun, fence, notes)
        except StoreAway as error:
            _log.warning("%s waits, since the store is away: %s", delivery_id, error)
            return Wait(self._rules.away / 1000)

    async def given_up(self, delivery_id: str, fence: int, error: str) -> None:
        """The queue has given the delivery up after this attempt: it is dead. Raises `StoreAway`."""
        await self._store.change(delivery_id, fence, Change("dead", error=error), self._now())
        _log.warning("%s is dead: its tries are spent", delivery_id)

    async def _begun(self, begun: Begun, fence: int, notes: Notes) -> Ending:
        own = begun.sending
        taken = notes.ids(TAKEN)
        if taken:  # By an attempt before, which could not keep it.
            return await self._sent(own, fence, taken, left_out(own.delivery.id, taken), "", notes)
        try:
            verdict = await self._gate.look(begun, notes.ids(MEMBERS), self._now())
        except UnknownType as error:
            return await self._failed(own, fence, Fault(Kind.UNSUPPORTED_TYPE, str(error)))
        match verdict:
            case Drop(reasons):
                return await self._mark(own, fence, frozenset(), reasons, "")
            case PutOff(until, reason, batch_key):
                change = Change("scheduled", reason, due_at=until, batch_key=batch_key)
                await self._store.change(own.delivery.id, fence, change, self._now())
                return Wait(max(0.0, until / 1000 - self._clock()))
            case Go():
                return await self._send(own, verdict, fence, notes)

    async def _send(self, own: Sending, going: Go, fence: int, notes: Notes) -> Ending:
        channel = own.delivery.channel
        executor = self._channels.get(channel)
        if executor is None:
            fault = Fault(Kind.BAD_CONFIGURATION, f"the channel {channel} is not configured here")
            return await self._failed(own, fence, fault)
        await self._note_members(going, notes)
        try:
            detail = await executor.send(message_of(own, going, self._rules.shown), going.profile, notes)
        except NotSent as error:
            return await self._not_sent(own, fence, error.fault)
        except Skipped as skipped:
            return await self._settled(own, fence, Change("skipped", skipped.reason))
        members = frozenset(one.delivery.id for one in going.members)
        return await self._sent(own, fence, members, going.dropped, detail, notes)

    async def _note_members(self, going: Go, notes: Notes) -> None:
        """Another attempt at a message sends the same one: under its key it would be taken once, whatever it held."""
        members = frozenset(one.delivery.id for one in going.members)
        if len(members) > 1 and not notes.ids(MEMBERS):
            await notes.note(MEMBERS, members)

    async def _sent(
        self,
        own: Sending,
        fence: int,
        members: frozenset[str],
        dropped: Mapping[str, Reason],
        detail: str,
        notes: Notes,
    ) -> Ending:
        """It was sent, with all that it took along. A store that stays away is told by the next attempt."""
        try:
            return await self._mark(own, fence, members, dropped, detail)
        except StoreAway:
            await notes.note(TAKEN, members)
            raise

    async def _mark(
        self, own: Sending, fence: int, members: frozenset[str], dropped: Mapping[str, Reason], detail: str
    ) -> Ending:
        """Marks what was sent, and what was dropped on the way. Its own comes last: till then it leads the others."""
        mine = own.delivery.id
        sent: Status = "delivered" if own.delivery.channel == "in_app" else "sent"
        for reason in {reason for one, reason in dropped.items() if one != mine}:
            ids = [one for one, why in dropped.items() if why == reason and one != mine]
            await self._keep(own, fence, Change("skipped", reason), ids)
        if others := sorted(members - {mine}):
            await self._keep(own, fence, Change(sent, detail=detail), others)
        change = Change("skipped", dropped[mine]) if mine in dropped else Change(sent, detail=detail)
        return await self._settled(own, fence, change, [mine])

    async def _not_sent(self, own: Sending, fence: int, fault: Fault) -> Ending:
        if not fault.transient:
            return await self._failed(own, fence, fault)
        await self._keep(own, fence, Change("pending", error=str(fault)))
        return Again(fault, self._rules.next_try(own.delivery.failures + 1, fault.retry_after))

    async def _failed(self, own: Sending, fence: int, fault: Fault) -> Ending:
        await self._keep(own, fence, Change("failed", error=str(fault)))
        _log.warning("%s failed: %s", own.delivery.id, fault.kind)  # The rest may hold an address.
        return Failed(fault)

    async def _settled(self, own: Sending, fence: int, change: Change, only: list[str] | None = None) -> Ending:
        if await self._keep(own, fence, change, only):
            return Done(change.status, change.reason)
        return await self._ended(own.delivery.id)

    async def _keep(self, own: Sending, fence: int, change: Change, only: list[str] | None = None) -> bool:
        """Brings the delivery to where it is by now. A store that is away for a moment is asked again, or the message
        would be sent again. Raises `StoreAway`."""
        until = self._clock() + self._rules.settle / 1000
        while True:
            try:
                return await self._store.change(own.delivery.id, fence, change, self._now(), only)
            except StoreAway:
                if self._clock() >= until:
                    raise
            await asyncio.sleep(SETTLE_EVERY)

    async def _ended(self, delivery_id: str) -> Ending:
        """What became of a delivery that this attempt cannot have: it has ended, or is a later one's."""
        sending = await self._store.delivery(delivery_id)
        if sending is None:
            return Done("skipped", "forgotten")
        if not sending.delivery.ended:
            return Wait(self._rules.led / 1000)
        return Done(sending.delivery.status, sending.delivery.reason)

    def _now(self) -> int:
        return int(self._clock() * 1000)


def message_of(own: Sending, going: Go, most: int) -> Message:
    """The message of a delivery, with all that it takes along: of very many the newest are shown; an inbox has all."""
    storm = of_storm(own.delivery)
    newest = going.members[-1].notification
    shown = len(going.members) if own.delivery.channel == "in_app" else most
    return Message(
        id=own.delivery.id,
        type="digest" if storm else own.notification.type,
        group="" if storm else newest.group_key,
        priority=own.delivery.priority,
        notifications=tuple(one.notification for one in going.members[-shown:]),
        total=len(going.members),
    )
