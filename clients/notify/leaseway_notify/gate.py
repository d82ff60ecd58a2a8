"""What is looked at before a delivery is sent: whether it is still wanted, by now, of these, and not too often.

Asks the store and the policies, and changes nothing but the places under a cap, which are taken here. What becomes of
the answer is `execute.py`'s.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from leaseway_notify.caps import Caps, of_storm
from leaseway_notify.delivery import Reason, Sending
from leaseway_notify.event import Event
from leaseway_notify.keys import digest_key
from leaseway_notify.policy import Action, Policies, SendNow, Situation, Skip
from leaseway_notify.profile import Channel, Profile
from leaseway_notify.stores.base import Begun, DeliveryStore, InboxStore, ProfileStore
from leaseway_notify.verdict import Drop, Go, PutOff, Verdict

EARLY_MS: Final = 1_000
"""So much earlier than it is due a delivery may be sent: clocks of two machines differ."""
_BY_NOW: Final[Mapping[Reason, Reason]] = {
    "no_push_subscription": "push_subscription_revoked",
    "muted": "unsubscribed",
    "channel_disabled": "unsubscribed",
}
"""What planning says of a recipient, and what it means for what was planned before."""


class GateStore(DeliveryStore, ProfileStore, InboxStore, Protocol):
    """What is asked before something is sent."""


class Gate:
    """Looks at deliveries before they are sent."""

    def __init__(self, store: GateStore, policies: Policies, caps: Caps, read_types: frozenset[str]) -> None:
        self._store = store
        self._policies = policies
        self._caps = caps
        self._read_types = read_types

    async def look(self, begun: Begun, frozen: frozenset[str], now: int) -> Verdict:
        """What is to become of a delivery that an attempt has begun, with those of its batch; `now` in ms.

        `frozen` are the ids of a batch that an attempt before may have sent: it stays as it is, as far as its
        notifications are still wanted. A digest, also that of a storm, holds whatever is still wanted.
        Raises `UnknownType`, and `StoreAway`.
        """
        own = begun.sending.delivery
        storm = of_storm(own)
        if own.due_at > now + EARLY_MS:
            return PutOff(own.due_at, own.reason)
        profile = await self._store.profile(own.recipient)
        members = [one for one in (begun.sending, *begun.along) if not frozen or one.delivery.id in frozen]
        members.sort(key=lambda one: (one.notification.created_at, one.delivery.id))
        if profile is None:
            return _none_of(members, "unsubscribed")
        actions = {one.delivery.id: self._action(situation(one, profile, now)) for one in members}
        dropped = left_out(own.id, frozen) | _unwanted(actions)
        members = [one for one in members if one.delivery.id not in dropped]
        # One that waits for no quiet hours takes the others along.
        urgent = any(isinstance(actions[one.delivery.id], SendNow) for one in members)
        if members and not urgent and (quiet := situation(members[0], profile, now).after_quiet_hours(now)) > now:
            return PutOff(quiet, "storm" if storm else "quiet_hours")
        outdated = {} if storm or _of_digest(begun.sending) else await self._outdated(members, frozen)
        return await self._going(begun.sending, profile, members, dropped | outdated, now)

    async def _going(
        self, own: Sending, profile: Profile, members: list[Sending], dropped: Mapping[str, Reason], now: int
    ) -> Verdict:
        """Once it is known what the message would hold: whether it holds anything, and whether it is one too many."""
        left = tuple(one for one in members if one.delivery.id not in dropped)
        if not left:
            return Drop(dropped)
        match await self._caps.look(own, now):
            case None:
                return Go(profile, left, dropped)
            case PutOff() as later:
                return later
            case reason:
                return Drop({**dropped, **_none_of(left, reason).reasons})

    def _action(self, asked: Situation) -> Action:
        return self._policies.of(asked.event.type).decide(asked)

    async def _outdated(self, members: list[Sending], frozen: frozenset[str]) -> dict[str, Reason]:
        """What was read in the application meanwhile, and what something newer was sent after.

        An inbox keeps everything. A batch that may have been sent is dropped as a whole or not at all.
        """
        if not members or members[-1].delivery.channel == "in_app":
            return {}
        if await self._store.newer_sent(members[-1]):
            return {one.delivery.id: "superseded" for one in members}
        if members[-1].delivery.channel != "email":
            return {}
        read: dict[str, Reason] = {
            one.delivery.id: "already_read"
            for one in members
            if one.notification.type in self._read_types and await self._store.is_read(one.notification.id)
        }
        return read if not frozen or len(read) == len(members) else {}


def left_out(own: str, sent: frozenset[str]) -> dict[str, Reason]:
    """A delivery that leads a message which does not hold it: it was read in the application before the others."""
    return {own: "already_read"} if sent and own not in sent else {}


def _of_digest(sending: Sending) -> bool:
    own = sending.delivery
    return own.batch_key == digest_key(own.recipient, sending.notification.type, own.channel)


def _unwanted(actions: Mapping[str, Action]) -> dict[str, Reason]:
    """What the recipient does not want by now, or cannot get."""
    skips = {one: action.reason for one, action in actions.items() if isinstance(action, Skip)}
    return {one: _BY_NOW.get(reason, reason) for one, reason in skips.items()}


def _none_of(members: Iterable[Sending], reason: Reason) -> Drop:
    return Drop({one.delivery.id: reason for one in members})


def situation(sending: Sending, profile: Profile, now: int) -> Situation:
    """What a policy decides on, as it is by now. A policy is asked only whether it is wanted, and not again when."""
    said = sending.notification
    event = Event(
        id=said.id,
        type=said.type,
        recipient=said.recipient,
        title=said.title,
        body=said.body,
        actor=said.actor,
        context=said.context,
        payload=said.payload,
        priority=sending.delivery.priority,
    )
    channel: Channel = sending.delivery.channel
    return Situation(event, profile, channel, now)
