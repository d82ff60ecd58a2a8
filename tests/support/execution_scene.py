"""A scene of execution: a store, a mail server, an inbox that is looked at, and a clock that the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from leaseway_notify.compose import execution
from leaseway_notify.delivery import Delivery, Sending
from leaseway_notify.execute import Ending, Execution
from leaseway_notify.message import Notes
from leaseway_notify.notify_toml import settings_of
from leaseway_notify.profile import Channel
from leaseway_notify.rules import DEFAULT, Rules
from leaseway_notify.settings import Settings
from leaseway_notify.stores.base import InboxEntry
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from support.mail_server import Mailroom, mail_server
from support.notify_stores import NOW, Opener, profile, written


@dataclass
class Queue:
    """What the queue keeps of an item: how often it was claimed, and what the last attempt noted."""

    attempts: int = 0
    noted: dict[str, Any] | None = None


@dataclass
class Scene:
    """What a test sees. `now` is in ms."""

    store: SqlStore
    execution: Execution
    room: Mailroom
    settings: Settings
    announced: list[InboxEntry]
    now: int = NOW
    items: dict[str, Queue] = field(default_factory=dict)

    async def plan(self, channel: Channel = "email", **members: Any) -> Delivery:
        """The delivery, on one channel, of an event that happens now."""
        plan = await written(self.store, self.now, **members)
        return next(one for one in plan.deliveries if one.channel == channel)

    async def attempt(self, delivery: Delivery, execution: Execution | None = None) -> Ending:
        """The queue's next attempt at it."""
        item = self.items.setdefault(delivery.id, Queue())
        item.attempts += 1

        async def keep(said: dict[str, Any]) -> None:
            item.noted = said

        return await (execution or self.execution).run(delivery.id, item.attempts, Notes(item.noted, keep))

    async def of(self, delivery: Delivery) -> Delivery:
        """As it is by now."""
        sending = await self.store.delivery(delivery.id)
        assert isinstance(sending, Sending)
        return sending.delivery

    async def told(self, delivery: Delivery) -> tuple[str, str]:
        """Its status by now, and why."""
        now = await self.of(delivery)
        return now.status, now.reason

    @property
    def mails(self) -> list[EmailMessage]:
        """Those that arrived."""
        return self.room.mails


def settings_for(room: Mailroom, **tables: Any) -> Settings:
    """Settings by which mails go to this server; `tables` are added to those of notify.toml."""
    email = {
        "transport": "smtp",
        "sender": "bell@app.example",
        "host": room.host,
        "port": room.port,
        "security": "none",
        "timeout": "5s",
    }
    return settings_of({**tables, "email": {**email, **tables.get("email", {})}})


@asynccontextmanager
async def execution_scene(
    folder: Path, opener: Opener | None = None, *, rules: Rules = DEFAULT, **tables: Any
) -> AsyncIterator[Scene]:
    """A scene in which ada has a profile. On the store that `opener` opens, or on a file."""
    announced: list[InboxEntry] = []

    async def announce(entry: InboxEntry) -> None:
        announced.append(entry)

    async with mail_server() as room, await (opener() if opener else open_sqlite(folder / "notify.db")) as store:
        await store.save_profile(profile())
        settings = settings_for(room, **tables)
        scenes: list[Scene] = []

        def clock() -> float:
            return scenes[0].now / 1000 if scenes else NOW / 1000

        async with execution(store, settings, announce=announce, rules=rules, clock=clock) as executing:
            scenes.append(Scene(store, executing, room, settings, announced))
            yield scenes[0]
