"""The store's verbs for planning and for the outbox."""

from collections.abc import Collection, Sequence

from leaseway_notify.delivery import Delivery, Notification
from leaseway_notify.errors import Refused, UnknownRecipient
from leaseway_notify.plan import Plan
from leaseway_notify.profile import CHANNELS, Profile
from leaseway_notify.stores.base import Connection
from leaseway_notify.stores.database import Session, Verbs
from leaseway_notify.stores.rows import delivery_of, notification_of, profiles_of, values_of


class Planning(Verbs):
    """`NotificationStore`."""

    async def profiles(self, recipients: Sequence[str], within: Connection = None) -> dict[str, Profile]:
        """The profiles of those that have one."""

        async def work(session: Session) -> dict[str, Profile]:
            return await profiles_in(session, recipients)

        return await (self._database.look(work) if within is None else self._database.do(work, within))

    async def write(self, plans: Sequence[Plan], *, now: int, held_until: int, within: Connection = None) -> list[Plan]:
        """Writes them all, or none, and gives them as they are now kept, in the same order."""
        in_turn = sorted(range(len(plans)), key=lambda at: _turn(plans[at].notification))

        async def work(session: Session) -> list[Plan]:
            await all_present(session, {plan.notification.recipient for plan in plans})
            # Two who write the same keys take them in the same order, and so cannot wait for each other for ever.
            written = {at: await _write(session, plans[at], now, held_until) for at in in_turn}
            return [written[at] for at in range(len(plans))]

        return await self._database.do(work, within)

    async def notification(self, notification_id: str) -> Plan | None:
        """A notification with its deliveries as they are by now."""
        return await self._database.look(lambda session: _written(session, notification_id))


class Outgoing(Verbs):
    """`OutboxStore`."""

    async def unposted(self, limit: int, after: str = "") -> list[Delivery]:
        """Those that wait and are not marked, by id."""

        async def work(session: Session) -> list[Delivery]:
            return [delivery_of(row) for row in await session.rows("unposted", after, limit)]

        return await self._database.look(work)

    async def mark_posted(self, delivery_ids: Sequence[str], now: int) -> None:
        """They are in the queue."""
        await self._database.do(lambda session: session.run("mark_posted", sorted(delivery_ids), now))

    async def silent(self, before: int, limit: int) -> list[Delivery]:
        """Those of which nothing was heard since then."""

        async def work(session: Session) -> list[Delivery]:
            return [delivery_of(row) for row in await session.rows("silent", before, limit)]

        return await self._database.look(work)

    async def give_up(self, delivery_id: str, error: str, before: int, now: int) -> bool:
        """It is dead, since the queue has given it up."""

        async def work(session: Session) -> bool:
            if not await session.run("give_up", delivery_id, error, now, before):
                return False
            await session.run("free_led", delivery_id, now)
            return True

        return await self._database.do(work)


async def profiles_in(session: Session, recipients: Sequence[str]) -> dict[str, Profile]:
    """The profiles of those that have one."""
    ids = sorted(set(recipients))
    read = [await session.rows(name, ids) for name in ("recipients", "subscriptions", "working_on")]
    return profiles_of(*read)


async def present(session: Session, recipients: Collection[str]) -> set[str]:
    """Those that have a profile. Nobody forgets them until the transaction has ended."""
    return {row["id"] for row in await session.rows("stay", sorted(recipients))}


async def all_present(session: Session, recipients: Collection[str]) -> None:
    """The same for all of them. Raises `UnknownRecipient`."""
    for missing in sorted(set(recipients) - await present(session, recipients)):
        raise UnknownRecipient(missing)


def _turn(notification: Notification) -> tuple[str, str, str]:
    return notification.recipient, notification.dedupe_key, notification.id


async def _write(session: Session, plan: Plan, now: int, held_until: int) -> Plan:
    planned = plan.notification
    if not await session.run("insert_notification", *values_of(planned)):
        return await _same(session, planned)
    key = (planned.recipient, planned.dedupe_key)
    if not await session.run("take_key", *key, planned.id, now, held_until):
        (holder,) = await session.rows("holder", *key)
        plan = plan.as_duplicate_of(holder["notification_id"])
        await session.run("set_duplicate", planned.id, plan.notification.duplicate_of)
    await session.run_many("insert_delivery", [values_of(delivery) for delivery in plan.deliveries])
    return plan


async def _same(session: Session, planned: Notification) -> Plan:
    """What was written under this id before, if it says the same."""
    written = await _written(session, planned.id)
    assert written is not None
    before = written.notification
    if (before.type, *_turn(before)) != (planned.type, *_turn(planned)):
        raise Refused("id", f"another notification has the id {planned.id!r}; leave the id away for a new one")
    return written


async def _written(session: Session, notification_id: str) -> Plan | None:
    found = await session.rows("notification", notification_id)
    if not found:
        return None
    deliveries = [delivery_of(row) for row in await session.rows("deliveries_of", notification_id)]
    in_order = sorted(deliveries, key=lambda delivery: CHANNELS.index(delivery.channel))
    return Plan(notification_of(found[0]), tuple(in_order))
