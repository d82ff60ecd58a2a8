"""A recipient who is forgotten: nothing of them is left, whatever was under way, and others keep what is theirs."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from leaseway_notify.channels.in_app import InApp
from leaseway_notify.errors import UnknownRecipient
from leaseway_notify.execute import Done
from leaseway_notify.message import Message, Notes
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Profile
from leaseway_notify.stores.base import Token
from leaseway_notify.stores.store import SqlStore
from support.execution_scene import execution_scene
from support.notify_stores import DAY, NOW, Opener, planned, profile, written


async def rows(place: str) -> list[str]:
    """Every row of every table, as a text."""
    if place.startswith("sqlite:"):
        with closing(sqlite3.connect(place.removeprefix("sqlite:"))) as database:
            return list(database.iterdump())
    connection = await asyncpg.connect(place)
    try:
        asked = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'leaseway_notify'::regnamespace"
        tables = [table["relname"] for table in await connection.fetch(asked)]
        found = [await connection.fetch(f"SELECT t::text FROM leaseway_notify.{one} AS t") for one in tables]  # noqa: S608
        return [row["t"] for table in found for row in table]
    finally:
        await connection.close()


async def fill(store: SqlStore, recipient: str) -> None:
    """Something of each kind that is kept."""
    await store.save_profile(profile(recipient, name=f"The {recipient}", working_on={f"desk of {recipient}": NOW}))
    for title in ("one", "two", "one"):  # The last one is a duplicate.
        plan = await written(store, recipient=recipient, title=f"{title} for {recipient}")
    await store.put_in_inbox(plan.notification, NOW)
    await store.begin(plan.deliveries[0].id, 1, NOW)
    await store.add_tokens([Token(f"token of {recipient}", "open", "d1", recipient, "chat", "email", NOW)])


async def test_nothing_of_a_recipient_is_left_and_all_of_another(store: SqlStore, place: tuple[str, Opener]) -> None:
    for recipient in ("zoe", "tom"):
        await fill(store, recipient)
    before = await rows(place[0])
    assert await store.forget("zoe")
    after = await rows(place[0])
    assert [row for row in after if "zoe" in row] == []
    assert [row for row in after if "tom" in row] == [row for row in before if "tom" in row]
    assert not await store.forget("zoe")


async def test_who_is_forgotten_meanwhile_gets_nothing_written(store: SqlStore, place: tuple[str, Opener]) -> None:
    """What was begun while there was a profile, and is written when there is none any more."""
    await store.save_profile(profile("zoe"))
    before, others = [written_later(recipient) for recipient in ("zoe", "ada")]
    put = (await written(store, recipient="zoe", title="under way")).notification
    await store.forget("zoe")
    with pytest.raises(UnknownRecipient, match="zoe"):
        await store.write([others, before], now=NOW, held_until=NOW + DAY)
    with pytest.raises(UnknownRecipient, match="zoe"):
        await store.set_working_on("zoe", "desk", NOW)
    assert await store.put_in_inbox(put, NOW) is None
    await store.add_tokens([Token("the token", "open", "d1", "zoe", "chat", "email", NOW)])
    assert [row for row in await rows(place[0]) if "zoe" in row] == []
    assert await store.notification(others.notification.id) is None, "all are written or none"


def written_later(recipient: str) -> Plan:
    """A plan that is not written yet."""
    return planned(recipient=recipient, title="one")


async def test_who_is_forgotten_while_an_inbox_is_filled_is_no_fault(tmp_path: Path) -> None:
    async with execution_scene(tmp_path) as scene:
        delivery = await scene.plan("in_app", type="system")

        class Forgetful(InApp):
            """Everything is asked before the recipient is forgotten, and put after."""

            async def send(self, message: Message, to: Profile, notes: Notes) -> str:
                await scene.store.forget(to.id)
                return await super().send(message, to, notes)

        scene.execution._channels = {"in_app": Forgetful(scene.store)}
        assert await scene.attempt(delivery) == Done("skipped", "forgotten")
        assert await scene.store.inbox("ada", 10) == []


async def test_who_is_forgotten_while_a_send_is_under_way_is_no_fault(tmp_path: Path) -> None:
    async with execution_scene(tmp_path) as scene:
        delivery = await scene.plan(type="system")
        forgotten = asyncio.Event()

        async def answer() -> str:
            await forgotten.wait()
            return "250 OK"

        scene.room.answer = answer
        sending = asyncio.create_task(scene.attempt(delivery))
        await scene.room.arrived.wait()
        assert await scene.store.forget("ada")
        forgotten.set()
        assert await sending == Done("skipped", "forgotten")
        assert await scene.attempt(delivery) == Done("skipped", "forgotten")
        assert len(scene.mails) == 1
