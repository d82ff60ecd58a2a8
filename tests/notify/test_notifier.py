"""From an event to the queue: written in one transaction, posted after the commit; no crash between loses anything."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from leaseway import Client, Permanent
from leaseway_notify.delivery import Delivery
from leaseway_notify.errors import Refused, StoreAway, UnknownRecipient, UnknownType
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox
from leaseway_notify.queue import QUEUE
from leaseway_notify.settings import EmailSettings, OutboxSettings, PushSettings, Settings
from leaseway_notify.stores.base import DeliveryFilter
from leaseway_notify.stores.postgres import open_postgres
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from support.notify_scene import items_in, queue_of, served_queue, worked_off
from support.notify_stores import DAY, NOW, Enough, Opener, Rounds, cut, event, profile, subscription, written
from support.postgres import Postgres
from support.server import TestServer

HASTY = OutboxSettings(patience=1)
SETTINGS = Settings(outbox=HASTY, email=EmailSettings("smtp"), push=PushSettings(Path("vapid.pem")))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with served_queue(tmp_path / "server") as server:
        yield server


@pytest.fixture
async def queue(server: TestServer) -> AsyncIterator[Client[Any, Any]]:
    async with queue_of(server) as queue:
        yield queue


async def kept_ids(store: SqlStore) -> set[str]:
    return {one.notification.id for one in await store.deliveries(DeliveryFilter(), 1_000)}


# ── The way of an event ──


async def test_an_event_is_planned_written_and_posted(
    store: SqlStore, server: TestServer, queue: Client[Any, Any]
) -> None:
    kept = await Notifier(store, queue).notify(event(id="event-1", priority="immediate"))
    assert await store.unposted(10) == []
    items = await items_in(queue)
    assert set(items) == {"event-1-in_app", "event-1-push", "event-1-email"}
    assert {view.priority for view in items.values()} == {10}
    assert items["event-1-email"].due_at == kept.deliveries[2].due_at
    got = await worked_off(server)
    assert sorted(got, key=lambda item: str(item["channel"])) == [
        {
            "version": 1,
            "type": "notification_delivery.execute",
            "deliveryId": f"event-1-{channel}",
            "notificationId": "event-1",
            "channel": channel,
            "priority": "immediate",
            "queuedAt": kept.notification.created_at,
        }
        for channel in ("in_app", "push")
    ]


async def test_what_is_skipped_is_not_posted(store: SqlStore, queue: Client[Any, Any]) -> None:
    notifier = Notifier(store, queue)
    first, second = await notifier.notify_many([event(), event()])
    assert {first.duplicate, second.duplicate} == {True, False}
    assert len(await items_in(queue)) == 3
    assert await Outbox(store, queue).post((await notifier.notify(event(actor="ada"))).deliveries)
    assert len(await items_in(queue)) == 3


async def test_the_same_event_again_posts_nothing_twice(store: SqlStore, queue: Client[Any, Any]) -> None:
    notifier = Notifier(store, queue)
    said = event()
    first, second = await notifier.notify(said), await notifier.notify(said)
    assert second.notification == first.notification
    assert len(await items_in(queue)) == 3


@pytest.mark.parametrize("bad", ["recipient", "type", "id", "zone"])
async def test_a_bad_event_among_others_changes_nothing(
    store: SqlStore, queue: Client[Any, Any], place: tuple[str, Opener], bad: str
) -> None:
    notifier = Notifier(store, queue)
    await notifier.notify(event(id="known"))
    if bad == "zone":
        await spoil_zone(store, place[0])
    said, error, message = {
        "recipient": ({"recipient": "nobody"}, UnknownRecipient, "recipient: there is no profile of 'nobody'"),
        "type": ({"type": "gossip"}, UnknownType, "type: no policy is registered for 'gossip'"),
        "id": ({"id": "known", "title": "other"}, Refused, "id: another notification has the id 'known'"),
        "zone": ({"recipient": "grace"}, Refused, "zone: there is no time zone 'Mars/Base'"),
    }[bad]
    with pytest.raises(error, match=f"^{message}"):
        await notifier.notify_many([event(title="good"), event(**said)])
    assert await kept_ids(store) == {"known"}
    assert len(await items_in(queue)) == 3
    assert not (await notifier.notify(event(title="good"))).duplicate


async def spoil_zone(store: SqlStore, url: str) -> None:
    """As where the zones of the machine were changed after the profile was saved."""
    await store.save_profile(profile("grace", subscriptions=(subscription(2),)))
    statement = "UPDATE {}recipient SET zone = 'Mars/Base' WHERE id = 'grace'"
    if url.startswith("sqlite:"):
        with sqlite3.connect(url.removeprefix("sqlite:")) as connection:
            connection.execute(statement.format(""))
        connection.close()
        return
    other = await asyncpg.connect(url)
    await other.execute(statement.format("leaseway_notify."))
    await other.close()


# ── The queue or the database away ──


async def test_without_a_queue_it_is_written_and_posted_later(store: SqlStore, tmp_path: Path) -> None:
    async with served_queue(tmp_path / "server") as server, queue_of(server) as queue:
        port = server.port
        server.running.stop()
        kept = await Notifier(store, queue, SETTINGS).notify(event())
        assert len(await store.unposted(10)) == 3
        assert not await Outbox(store, queue, HASTY).post(kept.deliveries)
        assert await Outbox(store, queue, HASTY).repost() == 0
    async with served_queue(tmp_path / "server", port) as server, queue_of(server) as queue:
        assert await Outbox(store, queue).repost() == 3
        assert await Outbox(store, queue).repost() == 0
        assert len(await items_in(queue)) == 3


async def test_a_crash_between_the_commit_and_the_post_loses_nothing(store: SqlStore, queue: Client[Any, Any]) -> None:
    crashed = await Notifier(store, queue).write([event()])
    assert await items_in(queue) == {}
    rounds = Rounds(2)
    with pytest.raises(Enough):
        await Outbox(store, queue).run(rounds.pause)
    assert set(await items_in(queue)) == {one.id for one in crashed[0].deliveries}
    assert rounds.pauses == [60.0, 60.0]


async def test_a_crash_between_the_post_and_the_mark_posts_once_more_to_no_effect(
    store: SqlStore, queue: Client[Any, Any]
) -> None:
    unmarked = NeverMarked(store)
    await Notifier(unmarked, queue).notify(event())
    before = await items_in(queue)
    assert len(await store.unposted(10)) == 3
    assert await Outbox(store, queue, OutboxSettings(portion=2)).repost() == 3
    assert {key: view.id for key, view in (await items_in(queue)).items()} == {
        key: view.id for key, view in before.items()
    }


async def test_the_database_may_go_away_between_commit_and_post(tmp_path: Path, postgres: Postgres) -> None:
    """It goes away with the mark that is to be set; when it is back, the next round finds what was committed."""
    name = postgres.new_name("away")
    await postgres.run(f"CREATE DATABASE {name}")
    try:
        async with (
            served_queue(tmp_path / "server") as server,
            queue_of(server) as queue,
            await open_postgres(postgres.url_of(name)) as store,
        ):
            await store.save_profile(profile())
            notifier = Notifier(store, queue)
            (kept,) = await notifier.write([event()])
            await postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", cut(name))
            await notifier.post([kept])
            assert len(await items_in(queue)) == 3
            new = event(title="new")
            with pytest.raises(StoreAway):
                await notifier.notify(new)
            await postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            assert await Outbox(store, queue).repost() == 3
            assert len(await items_in(queue)) == 3
            assert not (await notifier.notify(new)).duplicate
    finally:
        await postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


# ── The caller's own transaction ──


@pytest.fixture
async def own(postgres: Postgres) -> AsyncIterator[tuple[SqlStore, asyncpg.Connection]]:
    """A store in the caller's database, and a connection of theirs with a table of theirs."""
    url = await postgres.shared()
    async with await open_postgres(url) as store:
        connection = await asyncpg.connect(url)
        await connection.execute("DELETE FROM leaseway_notify.held_key; CREATE TABLE comment (text text)")
        await store.save_profile(profile())
        yield store, connection
        if not connection.is_closed():
            await connection.execute("DROP TABLE comment")
            await connection.close()


async def test_a_notification_is_part_of_the_callers_transaction(
    own: tuple[SqlStore, asyncpg.Connection], queue: Client[Any, Any]
) -> None:
    store, connection = own
    notifier = Notifier(store, queue)
    async with notifier.transaction(connection) as notify:
        await connection.execute("INSERT INTO comment VALUES ('hello')")
        kept = await notify(event(title="within"))
        assert await store.notification(kept.notification.id) is None
        assert await items_in(queue) == {}
    assert await store.notification(kept.notification.id) is not None
    assert len(await items_in(queue)) == 3

    lost = event(title="lost")
    with pytest.raises(ZeroDivisionError):
        await fail_after(notifier, connection, lost)
    assert await store.notification(lost.id) is None
    assert not (await notifier.notify(event(title="lost"))).duplicate
    assert await connection.fetchval("SELECT count(*) FROM comment") == 1


async def fail_after(notifier: Notifier, connection: asyncpg.Connection, said: Event) -> None:
    async with notifier.transaction(connection) as notify:
        await notify(said)
        raise ZeroDivisionError


async def test_a_refused_event_leaves_the_callers_transaction_whole(
    own: tuple[SqlStore, asyncpg.Connection], queue: Client[Any, Any]
) -> None:
    store, connection = own
    async with Notifier(store, queue).transaction(connection) as notify:
        first = await notify(event(id="first-within"))
        for refused in (event(recipient="nobody"), event(id="first-within", title="other")):
            with pytest.raises(Refused):
                await notify(refused)
        await connection.execute("INSERT INTO comment VALUES ('still')")
    assert await store.notification(first.notification.id) is not None
    assert await connection.fetchval("SELECT count(*) FROM comment") == 1


async def test_within_another_transaction_it_is_written_there_and_posted_by_the_caller(
    own: tuple[SqlStore, asyncpg.Connection], queue: Client[Any, Any]
) -> None:
    store, connection = own
    notifier = Notifier(store, queue)
    async with connection.transaction():
        with pytest.raises(ValueError, match=r"use write\(\) in it, and post\(\) after its commit"):
            async with notifier.transaction(connection):
                pass
        plans = await notifier.write([event(title="nested")], connection)
        assert await items_in(queue) == {}
    await notifier.post(plans)
    assert len(await items_in(queue)) == 3


async def test_a_file_has_no_transaction_of_the_callers(tmp_path: Path, queue: Client[Any, Any]) -> None:
    async with await open_sqlite(tmp_path / "notify.db") as store:
        with pytest.raises(TypeError, match="only be used where the store is in its PostgreSQL"):
            await Notifier(store, queue).write([event()], object())


# ── What the queue has given up ──


async def test_what_the_queue_gave_up_without_a_word_is_dead_here(
    store: SqlStore, server: TestServer, queue: Client[Any, Any]
) -> None:
    kept = await Notifier(store, queue, clock=lambda: NOW).notify(event())
    in_app, push, email = kept.deliveries
    await store.cancel(email.id, NOW)
    items = await items_in(queue)
    await worked_off(server, Permanent("a worker that told the store nothing"))
    outbox = Outbox(store, queue, clock=lambda: NOW + DAY)
    assert await outbox.ask() == 2
    assert await outbox.ask() == 0
    dead, other = await store.attention(10)
    assert {dead.delivery.id, other.delivery.id} == {in_app.id, push.id}
    assert dead.delivery.error == (
        f"its item in the queue, {items[dead.delivery.id].id}, has ended as failed without a word of it here"
    )
    anew = await store.reopen(in_app.id, NOW + DAY)
    assert anew is not None
    assert await outbox.repost() == 1
    assert f"{in_app.id}.1" in await items_in(queue)


async def test_what_still_waits_in_the_queue_or_was_lost_from_it_is_asked_for_once(
    store: SqlStore, queue: Client[Any, Any]
) -> None:
    kept = await written(store)
    await store.mark_posted([one.id for one in kept.deliveries], NOW)
    outbox = Outbox(store, queue, OutboxSettings(portion=2), clock=lambda: NOW + DAY)
    assert await items_in(queue) == {}
    assert await outbox.ask() == 0
    assert len(await items_in(queue)) == 3
    assert await store.silent(NOW + DAY, 10) == []
    later = Outbox(store, queue, clock=lambda: NOW + 2 * DAY)
    assert await later.ask() == 0
    assert len(await items_in(queue)) == 3


async def test_a_round_that_cannot_be_does_not_end_the_others(store: SqlStore, queue: Client[Any, Any]) -> None:
    await written(store)
    away = AwayOnce(store)
    with pytest.raises(Enough):
        await Outbox(away, queue).run(Rounds(2).pause)
    assert away.asked >= 2
    assert len(await items_in(queue)) == 3


# ── Two processes ──

PROCESS = """
import asyncio, sys
from pathlib import Path
from leaseway import Client
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.stores.opening import open_store

async def main(url, queue):
    async with await open_store(url) as store, Client(queue) as client:
        notifier = Notifier(store, client)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(8):
            event = Event(type="mention", recipient="ada", title=f"{number}", context="doc-1", actor="bob")
            print((await notifier.notify(event)).notification.duplicate_of or "new", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_equal_events_from_two_processes_at_once_are_one_notification(
    store: SqlStore, place: tuple[str, Opener], server: TestServer, queue: Client[Any, Any]
) -> None:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-c", PROCESS, place[0], f"{server.ws_url}/{QUEUE}"]
    processes = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    said = [line for out, _ in outputs for line in out.decode().split()]
    assert len(said) == 16
    assert said.count("new") == 8
    assert len(set(said)) == 9
    assert len(await items_in(queue)) == 24


KILLED = """
import asyncio, os, signal, sys
from leaseway import Client
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.stores.opening import open_store

class Killed(Notifier):
    async def post(self, plans):
        os.kill(os.getpid(), signal.SIGKILL)

async def main(url, queue):
    async with await open_store(url) as store, Client(queue) as client:
        await Killed(store, client).notify(Event(id="killed", type="mention", recipient="ada", title="t"))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_process_killed_between_the_commit_and_the_post_has_lost_nothing(
    store: SqlStore, place: tuple[str, Opener], server: TestServer, queue: Client[Any, Any]
) -> None:
    command = [sys.executable, "-c", KILLED, place[0], f"{server.ws_url}/{QUEUE}"]
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == -9
    assert await items_in(queue) == {}
    again = await Notifier(store, queue).notify(event(id="killed", title="t", actor="", context=""))
    assert not again.duplicate
    assert set(await items_in(queue)) == {"killed-in_app", "killed-push", "killed-email"}
    assert await Outbox(store, queue).repost() == 0


# ── Faults at the seams that are there ──


class NeverMarked:
    """A store whose process ends before it marks what was posted."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def mark_posted(self, _ids: Sequence[str], _now: int) -> None:
        raise StoreAway("gone")


class AwayOnce:
    """A store that is away at first."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def unposted(self, limit: int, after: str = "") -> list[Delivery]:
        self.asked += 1
        if self.asked == 1:
            raise StoreAway("not now")
        return await self._store.unposted(limit, after)
