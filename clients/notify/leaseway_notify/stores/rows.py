"""Rows of the database as values, and back."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import orjson

from leaseway_notify.delivery import Delivery, Notification, Sending
from leaseway_notify.profile import Preferences, Profile, PushSubscription
from leaseway_notify.stores.base import InboxEntry
from leaseway_notify.stores.database import Row


def delivery_of(row: Row, prefix: str = "") -> Delivery:
    """A delivery; its columns may have a prefix."""
    return Delivery(**{of.name: row[prefix + of.name] for of in fields(Delivery)})


def notification_of(row: Row, prefix: str = "") -> Notification:
    """A notification; its columns may have a prefix."""
    members = {of.name: row[prefix + of.name] for of in fields(Notification)}
    return Notification(**members | {"payload": orjson.loads(members["payload"])})


def sending_of(row: Row) -> Sending:
    """Both, side by side."""
    return Sending(delivery_of(row, "d_"), notification_of(row, "n_"))


def entry_of(row: Row) -> InboxEntry:
    """An entry of an inbox."""
    return InboxEntry(
        row["number"], notification_of(row, "n_"), row["delivered_at"], row["read_at"], row["archived_at"]
    )


def values_of(one: Any) -> list[Any]:
    """What is bound for a delivery, a notification or a token, in the order of its columns."""
    values = [getattr(one, of.name) for of in fields(one)]
    return [value if isinstance(value, str | int) else to_json(value) for value in values]


def to_json(value: Any) -> str:
    """As the database keeps it."""
    return orjson.dumps(value).decode()


def preferences_of(text: str) -> Preferences:
    """What `to_json` made of them."""
    return Preferences.of(orjson.loads(text))


def profiles_of(rows: Iterable[Row], subscriptions: Iterable[Row], working_on: Iterable[Row]) -> dict[str, Profile]:
    """Profiles by id."""
    taking: dict[str, list[PushSubscription]] = defaultdict(list)
    for row in subscriptions:
        taking[row["recipient"]].append(PushSubscription(row["id"], row["endpoint"], row["p256dh"], row["auth"]))
    working: dict[str, dict[str, int]] = defaultdict(dict)
    for row in working_on:
        working[row["recipient"]][row["context"]] = row["until"]
    return {
        row["id"]: Profile(
            row["id"],
            address=row["address"],
            name=row["name"],
            zone=row["zone"],
            preferences=preferences_of(row["preferences"]),
            subscriptions=tuple(taking[row["id"]]),
            working_on=working[row["id"]],
        )
        for row in rows
    }
