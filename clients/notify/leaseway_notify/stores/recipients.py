"""The store's verbs for profiles and inboxes."""

from collections.abc import Callable, Sequence
from typing import Final

from leaseway_notify.delivery import Notification
from leaseway_notify.errors import UnknownRecipient
from leaseway_notify.profile import Preferences, Profile, PushSubscription
from leaseway_notify.stores.base import InboxEntry, InboxVerb
from leaseway_notify.stores.database import Session, Verbs
from leaseway_notify.stores.planning import all_present, profiles_in
from leaseway_notify.stores.rows import entry_of, preferences_of, to_json

_OF_RECIPIENTS: Final = (
    "notifications",  # These first: the next two say which they are.
    "deliveries",
    "inbox",
    "keys",
    "tokens",
    "subscriptions",
    "work",
    "recipient",
)


class Profiles(Verbs):
    """`ProfileStore`."""

    async def profile(self, recipient: str) -> Profile | None:
        """A recipient's profile."""

        async def work(session: Session) -> Profile | None:
            return (await profiles_in(session, [recipient])).get(recipient)

        return await self._database.look(work)

    async def save_profile(self, profile: Profile) -> None:
        """Writes it, in place of what there was."""
        said = (profile.id, profile.address, profile.name, profile.zone, to_json(profile.preferences.as_json()))

        async def work(session: Session) -> None:
            await session.run("save_recipient", *said)
            await session.run("forget_subscriptions", profile.id)
            for subscription in sorted(profile.subscriptions, key=lambda one: one.endpoint):
                await _save(session, profile.id, subscription)
            await session.run("forget_work", profile.id)
            await session.run_many("save_work", [(profile.id, *until) for until in profile.working_on.items()])

        await self._database.do(work)

    async def save_contact(self, profile: Profile) -> None:
        """Writes its address, name and zone, and nothing else of one that is there."""
        said = (profile.id, profile.address, profile.name, profile.zone, to_json(profile.preferences.as_json()))
        await self._database.do(lambda session: session.run("save_contact", *said))

    async def change_preferences(
        self, recipient: str, change: Callable[[Preferences], Preferences]
    ) -> Preferences | None:
        """What `change` makes of the preferences, which nobody else changes meanwhile."""

        async def work(session: Session) -> Preferences | None:
            rows = await session.rows("lock_recipient", recipient)
            if not rows:
                return None
            changed = change(preferences_of(rows[0]["preferences"]))
            await session.run("set_preferences", recipient, to_json(changed.as_json()))
            return changed

        return await self._database.do(work)

    async def forget(self, recipient: str) -> bool:
        """Everything that is kept of a recipient goes."""

        async def work(session: Session) -> bool:
            if not await session.rows("part_with", recipient):
                return False
            for what in _OF_RECIPIENTS:
                await session.run(f"forget_{what}", recipient)
            return True

        return await self._database.do(work)

    async def set_working_on(self, recipient: str, context: str, until: int) -> None:
        """The recipient is at work on this until then."""

        async def work(session: Session) -> None:
            await all_present(session, [recipient])
            await session.run("save_work", recipient, context, until)

        await self._database.do(work)

    async def add_subscription(self, recipient: str, subscription: PushSubscription) -> None:
        """A browser of theirs."""

        async def work(session: Session) -> None:
            if not await session.rows("lock_recipient", recipient):
                raise UnknownRecipient(recipient)
            await _save(session, recipient, subscription)

        await self._database.do(work)

    async def remove_subscription(self, endpoint: str) -> bool:
        """It takes no pushes any more."""
        return bool(await self._database.do(lambda session: session.run("remove_subscription", endpoint)))


class Inboxes(Verbs):
    """`InboxStore`."""

    async def put_in_inbox(self, notification: Notification, now: int) -> InboxEntry | None:
        """Puts it there, once."""

        async def work(session: Session) -> InboxEntry | None:
            # One after another, so that who has seen a number never misses a smaller one.
            if not await session.rows("lock_recipient", notification.recipient):
                return None
            await session.run("put_in_inbox", notification.id, notification.recipient, now)
            (row,) = await session.rows("inbox_entry", notification.id)
            return entry_of(row)

        return await self._database.do(work)

    async def inbox(
        self, recipient: str, limit: int, *, before: int = 0, archived: bool = False, unread: bool = False
    ) -> list[InboxEntry]:
        """Entries, newest first."""
        asked = (recipient, before, int(archived), int(unread), limit)

        async def work(session: Session) -> list[InboxEntry]:
            return [entry_of(row) for row in await session.rows("inbox", *asked)]

        return await self._database.look(work)

    async def unread(self, recipient: str) -> int:
        """How many entries are neither read nor archived."""

        async def work(session: Session) -> int:
            (counted,) = await session.rows("unread", recipient)
            return int(counted["many"])

        return await self._database.look(work)

    async def mark_inbox(self, recipient: str, verb: InboxVerb, ids: Sequence[str] | None, now: int) -> int:
        """Marks these notifications, or all, and says how many were changed."""
        name = f"mark_{verb}" if ids is not None else f"mark_{verb}_all"
        said: list[object] = [recipient] if ids is None else [recipient, sorted(ids)]
        if not verb.startswith("un"):
            said.append(now)
        return await self._database.do(lambda session: session.run(name, *said))

    async def is_read(self, notification_id: str) -> bool:
        """Whether the recipient has read or archived it."""

        async def work(session: Session) -> bool:
            return bool(await session.rows("is_read", notification_id))

        return await self._database.look(work)


async def _save(session: Session, recipient: str, one: PushSubscription) -> None:
    await session.run("save_subscription", one.endpoint, one.id, recipient, one.p256dh, one.auth)
