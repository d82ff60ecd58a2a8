"""On PostgreSQL several write at once, and a database can go away: what that may not do to notifications."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from leaseway import Client
from leaseway_notify.compose import execution
from leaseway_notify.delivery import Sending
from leaseway_notify.errors import UnknownRecipient
from leaseway_notify.event import Event
from leaseway_notify.execute import Done, Execution, Wait
from leaseway_notify.message import Notes
from leaseway_notify.notifier import Notifier
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Preferences, Profile
from leaseway_notify.rules import Rules
from leaseway_notify.stores.base import DeliveryFilter
from leaseway_notify.stores.postgres import open_postgres
from support.execution_scene import execution_scene, settings_for
from support.mail_server import mail_server
from support.notify_scene import queue_of, served_queue
from support.notify_stores import NOW, cut, event, notify_store, planned, profile, written
from support.postgres import Postgres

PATIENCE: Final = 30.0
WAITING: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
GATE: Final = 7
"""A lock of the tests, at which a transaction can be held."""


@pytest.fixture
async def url(tmp_path: Path, postgres: Postgres) -> AsyncIterator[str]:
    """An empty store."""
    async with notify_store("postgres", tmp_path, lambda: postgres) as (url, _):
        yield url


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def until_waiting(connection: asyncpg.Connection, many: int) -> None:
    """Returns when so many transactions wait for another one."""
    async with asyncio.timeout(PATIENCE):
        while await connection.fetchval(WAITING) < many:
            pass


async def first(one: Awaitable[Any], other: Awaitable[Any]) -> None:
    """Returns when one of them is done."""
    tasks = {asyncio.ensure_future(one), asyncio.ensure_future(other)}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


# ── Two at once ──


async def test_who_has_seen_an_entry_of_an_inbox_misses_none_before_it(url: str) -> None:
    """The first transaction is held right before its commit: the second one must not be seen before it."""
    async with await open_postgres(url) as store, connected(url) as other:
        await store.save_profile(profile())
        early, late = [(await written(store, title=title)).notification for title in ("early", "late")]
        first_one = f"INSERT ON leaseway_notify.inbox FOR EACH ROW WHEN (NEW.notification_id = '{early.id}')"
        async with held_after(other, first_one) as let_go:
            putting = [asyncio.create_task(store.put_in_inbox(early, 1))]
            await until_waiting(other, 1)
            putting.append(asyncio.create_task(store.put_in_inbox(late, 2)))
            await first(asyncio.shield(putting[1]), until_waiting(other, 2))
            assert await store.inbox("ada", 10) == []
            await let_go()
            entries = await asyncio.gather(*putting)
        assert await store.inbox("ada", 10) == entries[::-1]


@pytest.mark.parametrize("committed", [True, False])
async def test_who_forgets_waits_for_who_writes_and_drops_that_too(url: str, *, committed: bool) -> None:
    """In the planner's transaction all else may be done with the recipient meanwhile."""
    async with await open_postgres(url) as store, connected(url) as caller, connected(url) as other:
        await store.save_profile(profile())
        before = (await written(store, title="before")).notification
        transaction = caller.transaction()
        await transaction.start()
        (mine,) = await store.write([planned(title="mine")], now=NOW, held_until=NOW, within=caller)
        async with asyncio.timeout(PATIENCE):
            assert await store.put_in_inbox(before, NOW) is not None
            await store.change_preferences("ada", lambda _: Preferences(collaborating=True))
            await store.save_contact(profile(address="new@example.com"))
            await written(store, title="another planner's")
        forgetting = asyncio.create_task(store.forget("ada"))
        await until_waiting(other, 1)
        await (transaction.commit() if committed else transaction.rollback())
        assert await forgetting
        assert await store.notification(mine.notification.id) is None
        assert await store.deliveries(DeliveryFilter(), 10) == []


async def test_who_writes_for_somebody_who_is_being_forgotten_is_refused(url: str) -> None:
    async with await open_postgres(url) as store, connected(url) as other:
        await store.save_profile(profile())
        await written(store, title="before")
        async with held_after(other, "DELETE ON leaseway_notify.held_key FOR EACH ROW") as let_go:
            forgetting = asyncio.create_task(store.forget("ada"))
            await until_waiting(other, 1)
            writing = asyncio.create_task(written(store, title="too late"))
            await first(asyncio.shield(writing), until_waiting(other, 2))
            await let_go()
            assert await forgetting
            with pytest.raises(UnknownRecipient):
                await writing
        assert await store.deliveries(DeliveryFilter(), 10) == []


@asynccontextmanager
async def held_after(connection: asyncpg.Connection, statement: str) -> AsyncIterator[Any]:
    """Whoever does this waits within the transaction, until what is given is called."""
    await connection.execute(
        f"""
        CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock({GATE}); RETURN NULL; END $$;
        CREATE TRIGGER held AFTER {statement} EXECUTE FUNCTION held();
        SELECT pg_advisory_lock({GATE});
        """
    )
    table = statement.split()[2]
    try:
        yield lambda: connection.execute(f"SELECT pg_advisory_unlock({GATE})")
    finally:
        await connection.execute("SELECT pg_advisory_unlock_all()")
        await connection.execute(f"DROP TRIGGER held ON {table}; DROP FUNCTION held()")


@pytest.mark.parametrize("committed", [True, False])
async def test_an_equal_event_waits_for_the_callers_transaction_and_takes_its_place_after_a_rollback(
    url: str, tmp_path: Path, committed: bool
) -> None:
    async with (
        served_queue(tmp_path / "server") as server,
        queue_of(server) as queue,
        await open_postgres(url) as store,
        connected(url) as caller,
        connected(url) as other,
    ):
        await store.save_profile(profile())
        notifier = Notifier(store, queue)
        transaction = caller.transaction()
        await transaction.start()
        (mine,) = await notifier.write([event(id="mine")], caller)
        theirs = asyncio.create_task(notifier.notify(event(id="theirs")))
        await until_waiting(other, 1)
        await (transaction.commit() if committed else transaction.rollback())
        await notifier.post([mine] if committed else [])
        assert (await theirs).notification.duplicate_of == ("mine" if committed else "")
        holder = "mine" if committed else "theirs"
        assert {(view.key or "").rpartition("-")[0] async for view in queue.items()} == {holder}


BATCHED_AT_ONCE: Final = {kind: {"batch": {"email": "1ms"}} for kind in ("mention", "chat")}


async def test_two_workers_and_a_planner_disturb_nobody(url: str) -> None:
    """Whatever was sent is in one mail, all of it is once in the inbox, and a cap counts over both workers."""
    async with (
        mail_server() as room,
        await open_postgres(url) as planning,
        await open_postgres(url) as one,
        await open_postgres(url) as two,
    ):
        people = [profile(name, subscriptions=()) for name in ("ada", "kim")]
        for person in people:
            await planning.save_profile(person)
        settings = settings_for(room, types=BATCHED_AT_ONCE)
        async with execution(one, settings) as first, execution(two, settings) as second:
            notifier = Notifier(planning, Client("ws://127.0.0.1:1/nowhere"), settings)
            plans = await notifier.write(events(people, 0))
            async with asyncio.timeout(PATIENCE):
                _, _, *more = await asyncio.gather(
                    worked(first, plans[::2]),
                    worked(second, plans[1::2]),
                    *(notifier.write(events([person], 10)) for person in people),
                )
                plans = [plan for each in more for plan in each or ()]
                await asyncio.gather(worked(first, plans[::2]), worked(second, plans[1::2]))
        log = await planning.deliveries(DeliveryFilter(), 1_000)
        unread = [await planning.unread(person.id) for person in people]
    assert unread == [len(plans)] * 2
    mails = [(str(mail["To"]), titles(mail)) for mail in room.mails]
    sent = [(one.notification.recipient, one.notification.title) for one in log if became(one) == "sent"]
    assert Counter(sent) == Counter((to.partition("@")[0], title) for to, said in mails for title in said)
    assert {became(one) for one in log} <= {"", "sent", "superseded", "hourly_cap"}
    assert Counter(to for to, said in mails if "chat" in said[0]) == {person.address: 1 for person in people}


async def worked(executing: Execution, plans: list[Plan]) -> None:
    """All of them are attempted at once, and those again that wait for who took them along."""

    async def keep(_noted: dict[str, Any]) -> None:
        """No attempt follows one that may have sent."""

    waiting = [one for each in plans for one in each.deliveries if not one.ended]
    fence = 0
    while waiting:
        fence += 1
        endings = await asyncio.gather(*(executing.run(one.id, fence, Notes(None, keep)) for one in waiting))
        waiting = [one for one, ending in zip(waiting, endings, strict=True) if isinstance(ending, Wait)]


def events(people: list[Profile], number: int) -> list[Event]:
    """For each of them nine, of which some are batched and some are capped."""
    kinds = [("mention", "doc"), ("chat", "room"), ("system", "disk")]
    return [
        event(type=kind, recipient=person.id, context=f"{where}-{at % 2}", title=f"Title {kind} {number + at}")
        for person in people
        for kind, where in kinds
        for at in range(3)
    ]


def titles(mail: EmailMessage) -> list[str]:
    """Those that a mail tells of."""
    body = mail.get_body(("plain",))
    assert body is not None
    return [line for line in body.get_content().splitlines() if line.startswith("Title")]


def became(one: Sending) -> str:
    """What became of a mail; "" for what is none."""
    return (one.delivery.reason or one.delivery.status) if one.delivery.channel == "email" else ""


async def test_of_two_sweeps_the_later_one_drops_what_both_had_a_part_of(url: str) -> None:
    """Neither sees what the other one has dropped and not committed yet."""
    async with await open_postgres(url) as store, connected(url) as other:
        await store.save_profile(profile())
        kept = await written(store, type="system")
        in_app, _, email = kept.deliveries
        await store.cancel(in_app.id, NOW)
        assert await store.give_up(email.id, "gone", NOW + 1, NOW)
        async with held_after(other, "DELETE ON leaseway_notify.notification FOR EACH STATEMENT") as let_go:
            sweeps = [asyncio.create_task(store.drop(what, NOW + 1, 10)) for what in ("dead", "settled")]
            await until_waiting(other, 2)
            await let_go()
            assert await asyncio.gather(*sweeps) == [1, 2]
        assert await store.notification(kept.notification.id) is None


# ── The database away ──


async def test_a_database_that_goes_away_while_a_mail_is_sent_doubles_nothing(
    tmp_path: Path, postgres: Postgres
) -> None:
    """First its connections break, and are made anew; then it takes none until the next attempt."""
    name = postgres.new_name("away")
    await postgres.run(f"CREATE DATABASE {name}")
    try:
        async with execution_scene(tmp_path, lambda: open_postgres(postgres.url_of(name))) as scene:
            scene.room.answer = lambda: away(postgres, cut(name))
            assert await scene.attempt(await scene.plan(type="system")) == Done("sent")
            scene.execution._rules = Rules(settle=0)
            closed = f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"
            scene.room.answer = lambda: away(postgres, closed, cut(name))
            delivery = await scene.plan(type="system", title="another")
            assert await scene.attempt(delivery) == Wait(30.0)
            assert await scene.attempt(delivery) == Wait(30.0)
            await postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            assert await scene.attempt(delivery) == Done("sent")
            assert await scene.told(delivery) == ("sent", "")
            assert len(scene.mails) == 2
    finally:
        await postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


async def away(postgres: Postgres, *statements: str) -> str:
    """The mail server takes its mail, and the database is struck meanwhile."""
    await postgres.run(*statements)
    return "250 OK"
