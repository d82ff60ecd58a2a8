"""The store's verbs for execution, and for who looks at what became of deliveries."""

from collections.abc import Sequence
from typing import Final

from leaseway_notify.delivery import BEFORE, OPEN, Change, Delivery, Sending, Status
from leaseway_notify.stores.base import Begun, DeliveryFilter
from leaseway_notify.stores.database import Session, Verbs
from leaseway_notify.stores.rows import sending_of

MOST_ALONG: Final = 200
"""So many deliveries at most are taken along in one message; the others wait for the next. An attempt notes their ids
twice at most, and however long they are, that fits into the 32 KiB which the queue keeps of it."""


class Deliveries(Verbs):
    """`DeliveryStore`."""

    async def delivery(self, delivery_id: str) -> Sending | None:
        """A delivery as it is by now."""
        return await self._database.look(lambda session: _sending(session, delivery_id))

    async def begin(self, delivery_id: str, fence: int, now: int) -> Begun | None:
        """It is `processing` from now on, and with it all of its batch that wait."""
        return await self._database.do(lambda session: _begin(session, delivery_id, fence, now))

    async def change(
        self, delivery_id: str, fence: int, change: Change, now: int, only: Sequence[str] | None = None
    ) -> bool:
        """Brings it, and what it takes along, to where the change says."""
        return await self._database.do(lambda session: _change(session, delivery_id, fence, change, now, only))

    async def cancel(self, delivery_id: str, now: int) -> bool:
        """Withdraws it, whoever is at it."""

        async def work(session: Session) -> bool:
            if not await session.run("cancel", delivery_id, now):
                return False
            await session.run("free_led", delivery_id, now)
            return True

        return await self._database.do(work)

    async def newer_sent(self, sending: Sending) -> bool:
        """Whether a newer notification of its group and type was sent on its channel."""
        mine = sending.notification
        asked = (mine.group_key, mine.type, sending.delivery.channel, mine.created_at, mine.recipient)

        async def work(session: Session) -> bool:
            return bool(await session.rows("newer_sent", *asked))

        return await self._database.look(work)

    async def attention(self, limit: int, before: str = "") -> list[Sending]:
        """Those that failed or are dead, newest first."""
        return await self._list("attention", before, limit)

    async def reopen(self, delivery_id: str, now: int) -> Delivery | None:
        """Begins one of those anew."""

        async def work(session: Session) -> Delivery | None:
            if not await session.run("reopen", delivery_id, now):
                return None
            found = await _sending(session, delivery_id)
            return found.delivery if found else None

        return await self._database.do(work)

    async def deliveries(self, wanted: DeliveryFilter, limit: int, before: str = "") -> list[Sending]:
        """The log: deliveries, newest first."""
        asked = (wanted.recipient, wanted.channel, wanted.notification_id, wanted.label)
        return await self._list("deliveries", *asked, before, limit)

    async def counts(self) -> dict[Status, int]:
        """How many there are in each state that somebody waits for or should look at."""

        async def work(session: Session) -> dict[Status, int]:
            return {row["status"]: row["many"] for row in await session.rows("counts")}

        return await self._database.look(work)

    async def _list(self, name: str, *asked: str | int) -> list[Sending]:
        async def work(session: Session) -> list[Sending]:
            return [sending_of(row) for row in await session.rows(name, *asked)]

        return await self._database.look(work)


async def _sending(session: Session, delivery_id: str) -> Sending | None:
    rows = await session.rows("sending", delivery_id)
    return sending_of(rows[0]) if rows else None


async def _begin(session: Session, delivery_id: str, fence: int, now: int) -> Begun | None:
    before = await _sending(session, delivery_id)
    if before is None:
        return None
    batch, recipient = before.delivery.batch_key, before.delivery.recipient
    if batch:
        await session.rows("lock_batch", batch, recipient)
    began = await session.run("begin", delivery_id, fence, now)
    if began and batch:
        await session.run("take_along", batch, delivery_id, now, MOST_ALONG, recipient)
    sending = await _sending(session, delivery_id)
    assert sending is not None
    if began:
        return Begun(sending, tuple(map(sending_of, await session.rows("led", delivery_id))))
    begun = Begun(sending)
    return begun if begun.led and not sending.delivery.ended else None


async def _change(
    session: Session, delivery_id: str, fence: int, change: Change, now: int, only: Sequence[str] | None
) -> bool:
    allowed = BEFORE[change.status]
    if not await session.rows("lock_begun", delivery_id, fence, allowed):
        return False
    together = [delivery_id, *(row["id"] for row in await session.rows("ids_led", delivery_id))]
    changed = together if only is None else [one for one in together if one in only]
    failed = int(bool(change.error) and change.status in OPEN)
    told = (change.status, change.reason, change.error, failed, change.due_at, change.batch_key, change.detail, now)
    await session.run("change", changed, *told, allowed)  # One that was withdrawn meanwhile stays so.
    if delivery_id in changed and not failed:
        await session.run("free_led", delivery_id, now)
    return True
