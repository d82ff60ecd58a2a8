"""What each part of the pipeline sees of the store: small interfaces, so that each part is tested alone.

Every verb is a transaction of its own. All times are ms since the epoch and come from the caller. Verbs raise
`StoreAway` where the store cannot be asked; nothing was changed then, or the same call may be made again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from leaseway_notify.delivery import Change, Delivery, Notification, Sending, Status
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Channel, Preferences, Profile, PushSubscription

Connection: TypeAlias = Any
"""A connection of asyncpg that the caller has, to the database in which the store is."""


class NotificationStore(Protocol):
    """What planning sees."""

    async def profiles(self, recipients: Sequence[str], within: Connection = None) -> dict[str, Profile]:
        """The profiles of those that have one. `within`: reads in the transaction that this connection is in."""

    async def write(self, plans: Sequence[Plan], *, now: int, held_until: int, within: Connection = None) -> list[Plan]:
        """Writes them all, or none, and gives them as they are now kept, in the same order.

        Each key is taken until `held_until`; a plan whose key another notification holds becomes a duplicate of that
        one. A plan whose notification is there already is given as it was written then. Raises `Refused` where another
        notification has its id, and `UnknownRecipient` where a recipient has been forgotten.
        `within`: writes in the transaction that this connection is in, and leaves its end to the caller.
        """

    async def notification(self, notification_id: str) -> Plan | None:
        """A notification with its deliveries as they are by now."""


class OutboxStore(Protocol):
    """What the outbox sees: deliveries that are not known to be in the queue."""

    async def unposted(self, limit: int, after: str = "") -> list[Delivery]:
        """Those that wait and are not marked, by id, from behind `after` on."""

    async def mark_posted(self, delivery_ids: Sequence[str], now: int) -> None:
        """They are in the queue."""

    async def silent(self, before: int, limit: int) -> list[Delivery]:
        """Those that should have been tried, and of which nothing was heard since then: neither from a worker, nor from
        the queue (`mark_posted`)."""

    async def give_up(self, delivery_id: str, error: str, before: int, now: int) -> bool:
        """It is dead, since the queue has given it up. False where something was heard of it since `before`."""


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are listed; what is empty asks for nothing. `label` may be `retrying` too."""

    label: str = ""
    recipient: str = ""
    channel: Channel | Literal[""] = ""
    notification_id: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery that an attempt has begun, and those of its batch that it takes along, oldest first."""

    sending: Sending
    along: tuple[Sending, ...] = ()

    @property
    def led(self) -> bool:
        """Whether another one takes it along, so that it was not begun itself."""
        return self.sending.delivery.lead not in ("", self.sending.delivery.id)


class DeliveryStore(Protocol):
    """What execution sees, and who looks at what became of deliveries."""

    async def delivery(self, delivery_id: str) -> Sending | None:
        """A delivery as it is by now."""

    async def begin(self, delivery_id: str, fence: int, now: int) -> Begun | None:
        """It is `processing` from now on, by the attempt with this number, and with it all of its batch that wait.

        None, and nothing changes, where it has ended, or a later attempt has begun it. Where another one of its batch
        has begun and takes it along, it is given as it is (`Begun.led`), and nothing changes.
        """

    async def change(
        self, delivery_id: str, fence: int, change: Change, now: int, only: Sequence[str] | None = None
    ) -> bool:
        """Brings it, and all that it takes along, to where the change says; `only` just these of them.

        It takes them along to its next attempt where it failed for a time (`Change.error` with an open status). Where
        it is itself brought anywhere else, those that are left out wait again, each for itself. False, and nothing
        changes, where its life does not allow that, or a later attempt has begun it.
        """

    async def cancel(self, delivery_id: str, now: int) -> bool:
        """Withdraws it, whoever is at it. False where it has ended."""

    async def newer_sent(self, sending: Sending) -> bool:
        """Whether a newer notification of its group and type was sent on its channel."""

    async def attention(self, limit: int, before: str = "") -> list[Sending]:
        """Those that failed or are dead, newest first."""

    async def reopen(self, delivery_id: str, now: int) -> Delivery | None:
        """Begins one of those anew, due now, to be posted again. None where it is not one of them."""

    async def deliveries(self, wanted: DeliveryFilter, limit: int, before: str = "") -> list[Sending]:
        """The log: deliveries, newest first, from behind the id `before` on."""

    async def counts(self) -> dict[Status, int]:
        """How many deliveries there are in each state that is not over by itself: open ones, failed and dead."""


class ProfileStore(Protocol):
    """What the application and the recipients say."""

    async def profile(self, recipient: str) -> Profile | None:
        """A recipient's profile."""

    async def save_profile(self, profile: Profile) -> None:
        """Writes it, its subscriptions and what it is working on, in place of what there was."""

    async def save_contact(self, profile: Profile) -> None:
        """Writes who the recipient is and how to reach it: its address, name and zone. All else stays as it is."""

    async def change_preferences(
        self, recipient: str, change: Callable[[Preferences], Preferences]
    ) -> Preferences | None:
        """What `change` makes of the preferences, which nobody else changes meanwhile. None where there is no profile.

        `change` may be called again.
        """

    async def forget(self, recipient: str) -> bool:
        """Everything that is kept of a recipient goes, also what is under way to them. False where there is no profile.

        What others were told of them, as an actor, stays. Places under a cap go with their hour.
        """

    async def set_working_on(self, recipient: str, context: str, until: int) -> None:
        """The recipient is at work on this, as far as is known, until then. Raises `UnknownRecipient`."""

    async def add_subscription(self, recipient: str, subscription: PushSubscription) -> None:
        """A browser of theirs; one with the same endpoint is replaced, whoever had it. Raises `UnknownRecipient`."""

    async def remove_subscription(self, endpoint: str) -> bool:
        """It takes no pushes any more. False where there was none."""


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A notification in an inbox. Times in ms, 0 where it did not happen. `number` grows from entry to entry."""

    number: int
    notification: Notification
    delivered_at: int
    read_at: int = 0
    archived_at: int = 0


InboxVerb: TypeAlias = Literal["read", "unread", "archive", "unarchive"]


class InboxStore(Protocol):
    """What is shown in the application."""

    async def put_in_inbox(self, notification: Notification, now: int) -> InboxEntry | None:
        """Puts it there, once: one that is there stays as it is. None where the recipient has been forgotten."""

    async def inbox(
        self, recipient: str, limit: int, *, before: int = 0, archived: bool = False, unread: bool = False
    ) -> list[InboxEntry]:
        """Entries, newest first; `before` is the number of the last one that was seen, 0 for the first page."""

    async def unread(self, recipient: str) -> int:
        """How many entries are neither read nor archived."""

    async def mark_inbox(
        self, recipient: str, verb: InboxVerb, notification_ids: Sequence[str] | None, now: int
    ) -> int:
        """Marks these, or all (None), and says how many were changed. Those of others are left alone."""

    async def is_read(self, notification_id: str) -> bool:
        """Whether the recipient has read or archived it in the application."""


class CapStore(Protocol):
    """Hourly caps: a place is taken before something is sent, and never counted after."""

    async def take_place(self, key: str, hour: int, most: int, delivery_id: str) -> bool:
        """Whether this delivery has one of the places of this hour (hours since the epoch); again for the same one."""


TokenKind: TypeAlias = Literal["open", "click"]


@dataclass(frozen=True, slots=True)
class Token:
    """What a link in a message stands for. `target` is where a click leads. Times in ms.

    `used_at` and `uses` tell when it was first followed, and how often.
    """

    token: str
    kind: TokenKind
    delivery_id: str
    recipient: str
    type: str
    channel: Channel
    expires_at: int
    target: str = ""
    used_at: int = 0
    uses: int = 0


class TokenStore(Protocol):
    """Links that tell of opening and clicking."""

    async def add_tokens(self, tokens: Sequence[Token]) -> None:
        """Keeps them; those that are there already, of an earlier attempt, stay. Of a recipient who has been forgotten
        none is kept."""

    async def secret(self) -> bytes:
        """What tokens are made with, so that a repeated attempt makes the same ones. Made once, and kept with them."""

    async def use_token(self, token: str, now: int) -> Token | None:
        """The token, once more used; None where there is none, or its time is over."""


Leftover: TypeAlias = Literal["tokens", "dead", "settled", "inbox", "keys", "places", "work"]


class HousekeepingStore(Protocol):
    """What is kept long enough."""

    async def drop(self, what: Leftover, before: int, limit: int) -> int:
        """Drops at most so many of those that ended before then, and says how many.

        `tokens`, `keys`, `places` and `work`, what was worked on, by the end of their time; `dead` are deliveries that
        failed or are dead, `settled` the other ended ones, each with its notification where nothing else has it;
        `inbox` are entries.
        """


class Store(
    NotificationStore,
    OutboxStore,
    DeliveryStore,
    ProfileStore,
    InboxStore,
    CapStore,
    TokenStore,
    HousekeepingStore,
    Protocol,
):
    """All of them, as SQLite and PostgreSQL implement them."""

    async def close(self) -> None:
        """Lets go of the database."""
