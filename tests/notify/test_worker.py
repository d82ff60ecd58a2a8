"""The worker of deliveries, on a real queue: from an event to its mail, over faults, stops and kills."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import time
from pathlib import Path
from typing import Any, Never

import orjson
import pytest
from aiohttp import web

from leaseway import Client, NoSuchQueue
from leaseway.testing import Served, serving
from leaseway_notify.clock import now_ms
from leaseway_notify.compose import execution
from leaseway_notify.event import Event
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox
from leaseway_notify.plan import Plan
from leaseway_notify.policy import TypePolicy
from leaseway_notify.profile import Preferences, QuietHours
from leaseway_notify.rules import DEFAULT, LeaseTooShort, Rules
from leaseway_notify.settings import HOUR, OutboxSettings, QueueSettings, Settings
from leaseway_notify.stores.base import Token
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from leaseway_notify.worker import DeliveryWorker
from leaseway_notify.working import work
from leaseway_schemas import example_folder
from support.execution_scene import settings_for
from support.faulty_notify_store import Faulty
from support.mail_server import Mailroom, mail_server
from support.notify_stores import profile
from support.web_service import WebService, web_service

QUEUES = 32
OPEN = dict.fromkeys(("post", "fetch", "work", "admin"), "open")
QUEUE = {
    "access": OPEN,
    "schemas": str(example_folder("notification-deliveries")),
    "lease": "5m",
    "retry": {"max_attempts": 3, "delays": ["5m"], "cap": "3h"},
}
PATIENCE = 20.0


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server with a queue for each test, and one whose lease is short."""
    queues: dict[str, dict[str, Any]] = {f"deliveries-{number}": QUEUE for number in range(QUEUES)}
    with serving(queues=queues | {"short": {**QUEUE, "lease": "30s"}}) as served:
        yield served


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """The next queue that nobody used."""
    return itertools.count()


@dataclass
class Scene:
    """A store, a notifier, and workers as the test wants them."""

    served: Served
    folder: Path
    store: SqlStore
    queue: Client[Any, Any]
    settings: Settings
    room: Mailroom

    async def notify(self, **members: Any) -> Plan:
        """Something of the system, by mail and in the inbox, at once."""
        said = {"type": "system", "recipient": "ada", "title": "The disk is full"}
        return await Notifier(self.store, self.queue, self.settings).notify(Event(**said | members))

    @asynccontextmanager
    async def worker(self, rules: Rules = DEFAULT, **options: Any) -> AsyncIterator[DeliveryWorker]:
        """A worker beside the test, until its end."""
        async with execution(self.store, self.settings, rules=rules) as executing:
            worker = DeliveryWorker(executing, self.settings, **options)
            working = asyncio.create_task(worker.work())
            try:
                yield worker
                worker.stop()
                await working
            finally:
                working.cancel()

    async def drain(self, rules: Rules = DEFAULT) -> None:
        """What a timer does: works until nothing is due."""
        async with execution(self.store, self.settings, rules=rules) as executing, asyncio.timeout(PATIENCE):
            await DeliveryWorker(executing, self.settings, drain=True).work()

    async def told(self, plan: Plan, channel: str = "email") -> tuple[str, str]:
        """The delivery's label by now, and how it failed."""
        sending = await self.store.delivery(f"{plan.notification.id}-{channel}")
        assert sending is not None
        return sending.delivery.label, sending.delivery.error

    async def item(self, plan: Plan, channel: str = "email") -> Any:
        """Its item in the queue."""
        (view,) = [view async for view in self.queue.items(key=f"{plan.notification.id}-{channel}")]
        return view


@asynccontextmanager
async def scene_on(queue: str, served: Served, folder: Path, **tables: Any) -> AsyncIterator[Scene]:
    """A scene on one queue of the server."""
    url = served.url(queue)
    async with mail_server() as room, await open_sqlite(folder / "notify.db") as store, Client[Any, Any](url) as client:
        await store.save_profile(profile(subscriptions=()))
        settings = replace(settings_for(room, **tables), queue=QueueSettings(url))
        yield Scene(served, folder, store, client, settings, room)


@pytest.fixture
async def scene(served: Served, numbers: Iterator[int], tmp_path: Path) -> AsyncIterator[Scene]:
    """On a queue of its own."""
    async with scene_on(f"deliveries-{next(numbers)}", served, tmp_path) as scene:
        yield scene


async def test_a_resident_worker_delivers_what_is_notified(scene: Scene) -> None:
    async with scene.worker():
        plan = await scene.notify()
        job = await scene.queue.get((await scene.item(plan)).id)
        assert await job.result(timeout=PATIENCE) == {"status": "sent", "reason": ""}
    assert await scene.told(plan) == ("sent", "")
    assert await scene.told(plan, "in_app") == ("delivered", "")
    assert [mail["Subject"] for mail in scene.room.mails] == ["The disk is full"]


async def test_a_drain_delivers_what_is_due_and_ends(scene: Scene) -> None:
    plans = [await scene.notify(title=f"Disk {number} is full") for number in range(30)]
    later = await scene.notify(type="mention")
    await scene.drain()
    labels = [(await scene.told(plan))[0] for plan in plans]
    assert (labels.count("sent"), labels.count("scheduled")) == (20, 10)  # The rest is a storm.
    assert await scene.told(later) == ("scheduled", "")
    assert len(scene.room.mails) == 20
    assert await scene.store.unread("ada") == 31


async def test_a_drain_of_an_empty_queue_ends(scene: Scene) -> None:
    await scene.drain()


async def test_a_transient_fault_is_tried_again_after_the_queues_delay_and_dies_at_last(scene: Scene) -> None:
    plan = await scene.notify()
    scene.room.answer = lambda: "451 try later"
    before = scene.served.clock.time()
    await scene.drain()
    after = scene.served.clock.time()
    assert await scene.told(plan) == ("retrying", "unavailable: 451 try later")
    assert before + 0.85 * 300 - 1 < (await scene.item(plan)).due_at / 1000 < after + 1.15 * 300 + 1
    for tries in (2, 3):
        scene.served.clock.advance(1.2 * 300)
        await scene.drain()
        assert len(scene.room.mails) == tries
    assert await scene.told(plan) == ("dead", "unavailable: 451 try later")
    assert (await scene.item(plan)).status == "dead"
    assert [one.delivery.id for one in await scene.store.attention(10)] == [f"{plan.notification.id}-email"]


async def test_a_store_that_is_away_when_a_delivery_dies_is_told_later(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    plan = await scene.notify()
    scene.room.answer = lambda: "451 try later"
    for _ in range(2):
        await scene.drain()
        scene.served.clock.advance(1.2 * 300)
    faulty = Faulty(scene.store)
    faulty.away["change"] = [False, True]
    await replace(scene, store=faulty).drain()
    assert (await scene.item(plan)).status == "dead"
    assert await scene.told(plan) == ("retrying", "unavailable: 451 try later")
    assert any("is dead, which the store could not be told" in line for line in caplog.messages)
    outbox = Outbox(scene.store, scene.queue, OutboxSettings(silence=0), lambda: now_ms() + HOUR)
    assert await outbox.ask() == 1
    assert (await scene.told(plan))[0] == "dead"


async def test_a_permanent_fault_fails_here_and_in_the_queue(scene: Scene) -> None:
    plan = await scene.notify()
    scene.room.recipient = "550 no such user"
    await scene.drain()
    assert await scene.told(plan) == ("failed", "bad_address: 550 no such user")
    view = await scene.item(plan)
    assert (view.status, view.error["code"]) == ("failed", "bad_address")


async def test_very_many_with_long_ids_are_a_few_mails(served: Served, numbers: Iterator[int], tmp_path: Path) -> None:
    """What an attempt notes of a message fits into what the queue keeps of it."""
    types = {"mention": {"channels": ["email"], "batch": {"email": "1ms"}}}
    async with scene_on(f"deliveries-{next(numbers)}", served, tmp_path, types=types) as scene:
        events = [
            Event(id=f"{number:064}", type="mention", recipient="ada", title=f"no {number}") for number in range(501)
        ]
        await Notifier(scene.store, scene.queue, scene.settings).notify_many(events)
        await scene.drain()
        assert await scene.store.counts() == {}
        assert sorted(mail["Subject"].partition(" new")[0] for mail in scene.room.mails) == ["201", "201", "99"]


async def test_what_quiet_hours_hold_back_is_handed_back_at_no_charge(scene: Scene) -> None:
    plan = await scene.notify()
    quiet = Preferences(quiet_hours=QuietHours(time(0), time(0)))
    await scene.store.change_preferences("ada", lambda _: quiet)
    await scene.drain()
    view = await scene.item(plan)
    assert (view.status, view.failures) == ("pending", 0)
    delivery = await scene.store.delivery(f"{plan.notification.id}-email")
    assert delivery is not None
    assert view.due_at >= delivery.delivery.due_at - 1_000
    assert await scene.told(plan) == ("scheduled", "")


async def test_25_are_in_flight_at_a_time(scene: Scene) -> None:
    settings = replace(scene.settings, storm=replace(scene.settings.storm, most=100))
    scene = replace(scene, settings=settings)
    for number in range(30):
        await scene.notify(title=f"Disk {number} is full")
    full, go = asyncio.Event(), asyncio.Event()

    async def answer() -> str:
        if len(scene.room.mails) == 25:
            full.set()
        await go.wait()
        return "250 OK"

    scene.room.answer = answer
    draining = asyncio.create_task(scene.drain())
    async with asyncio.timeout(PATIENCE):
        await full.wait()
    go.set()
    await draining
    assert len(scene.room.mails) == 30


async def test_a_stop_lets_what_is_being_sent_end_by_itself(scene: Scene) -> None:
    stopped = asyncio.Event()

    async def answer() -> str:
        await stopped.wait()
        return "250 OK"

    scene.room.answer = answer
    async with scene.worker() as worker:
        plan = await scene.notify()
        await scene.room.arrived.wait()
        worker.stop()
        asyncio.get_running_loop().call_soon(stopped.set)
    assert await scene.told(plan) == ("sent", "")
    assert len(scene.room.mails) == 1


async def test_a_lease_that_a_claim_may_outlast_is_refused_at_the_start(scene: Scene) -> None:
    queue = replace(scene.settings.queue, lease=30_000)
    with pytest.raises(LeaseTooShort, match="lease is 30 s and a claim of 25 may take 40 s"):
        await replace(scene, settings=replace(scene.settings, queue=queue)).drain()


async def test_a_queue_whose_own_lease_is_shorter_than_was_said_gets_nothing_sent(
    served: Served, tmp_path: Path
) -> None:
    async with scene_on("short", served, tmp_path) as scene:
        plan = await scene.notify()
        with pytest.raises(LeaseTooShort, match="lease is 3"):
            await scene.drain()
        assert not scene.room.mails
        view = await scene.item(plan)
        assert (view.status, view.failures) == ("pending", 0)


async def test_an_item_of_another_kind_fails_at_once(scene: Scene) -> None:
    with serving(queues={"any": {"access": OPEN}}) as other:
        settings = replace(scene.settings, queue=QueueSettings(other.url("any")))
        async with Client[Any, Any](other.url("any")) as client:
            items: list[Any] = [{"version": 2}, [], 7]
            jobs = [await client.post(item) for item in items]
            await replace(scene, settings=settings).drain()
            views = [(await client.get(job.id)).view for job in jobs]
    assert {view and (view.status, view.error and view.error["code"]) for view in views} == {
        ("failed", "unsupported_type")
    }


# ── As a process, with all that it does ──

WORKER = """
import sys
from pathlib import Path
from leaseway_notify.notify_toml import load_settings
from leaseway_notify.working import run

run(load_settings(Path(sys.argv[1])), drain="--drain" in sys.argv)
"""


@asynccontextmanager
async def worker_process(
    scene: Scene, email: dict[str, Any], *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker of its own, by the settings of a file."""
    file = scene.folder / "notify.toml"
    lines = "\n".join(f"{name} = {orjson.dumps(value).decode()}" for name, value in email.items())
    file.write_text(f'store = "sqlite:notify.db"\n[queue]\nurl = "{scene.settings.queue.url}"\n[email]\n{lines}\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(file), *options, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def smtp(room: Mailroom) -> dict[str, Any]:
    return {
        "transport": "smtp",
        "sender": "bell@app.example",
        "host": room.host,
        "port": room.port,
        "security": "none",
        "timeout": "5s",
    }


async def test_a_drain_posts_what_was_left_sends_it_keeps_house_and_ends(scene: Scene) -> None:
    """What a timer starts: the event was committed, and whoever would have posted it died."""
    notifier = Notifier(scene.store, scene.queue, scene.settings)
    (plan,) = await notifier.write([Event(type="system", recipient="ada", title="The disk is full")])
    old = Token("old", "open", "n0-email", "ada", "system", "email", expires_at=1)
    await scene.store.add_tokens([old])
    async with worker_process(scene, smtp(scene.room), "--drain") as process, asyncio.timeout(PATIENCE):
        assert await process.wait() == 0
    assert await scene.told(plan) == ("sent", "")
    assert len(scene.room.mails) == 1
    assert await scene.store.use_token("old", 0) is None


@pytest.mark.parametrize("drain", [False, True])
async def test_a_whole_worker_raises_what_hinders_it(scene: Scene, drain: bool) -> None:
    store = f"sqlite:{scene.folder / 'notify.db'}"
    queue = replace(scene.settings.queue, lease=30_000)
    with pytest.raises(LeaseTooShort):
        await work(replace(scene.settings, store=store, queue=queue), asyncio.Event(), drain=drain)
    nowhere = QueueSettings(scene.settings.queue.url.replace("deliveries", "nothing"))
    with pytest.raises(NoSuchQueue):
        await work(replace(scene.settings, store=store, queue=nowhere), asyncio.Event(), drain=drain)


async def test_a_whole_worker_knows_the_types_that_a_program_registers(scene: Scene) -> None:
    policies = scene.settings.policies()
    policies.register("invoice", TypePolicy())
    notifier = Notifier(scene.store, scene.queue, scene.settings, policies)
    plan = await notifier.notify(Event(type="invoice", recipient="ada", title="You owe us 7"))
    store = f"sqlite:{scene.folder / 'notify.db'}"
    await work(replace(scene.settings, store=store), asyncio.Event(), drain=True, policies=policies)
    assert await scene.told(plan) == ("sent", "")


async def test_what_fails_beside_a_worker_ends_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_self: Housekeeper) -> Never:
        raise ArithmeticError

    monkeypatch.setattr(Housekeeper, "run", fail)
    store = f"sqlite:{scene.folder / 'notify.db'}"
    with pytest.raises(ArithmeticError):
        await work(replace(scene.settings, store=store), asyncio.Event())


async def test_a_resident_worker_posts_what_was_left_and_ends_in_order_at_a_signal(scene: Scene) -> None:
    notifier = Notifier(scene.store, scene.queue, scene.settings)
    (plan,) = await notifier.write([Event(type="system", recipient="ada", title="The disk is full")])
    told = asyncio.Event()

    async def answer() -> str:
        await told.wait()
        return "250 OK"

    scene.room.answer = answer
    async with worker_process(scene, smtp(scene.room)) as process, asyncio.timeout(PATIENCE):
        await scene.room.arrived.wait()
        process.terminate()
        told.set()
        assert await process.wait() == 0
    assert await scene.told(plan) == ("sent", "")
    assert len(scene.room.mails) == 1


async def test_a_worker_that_is_killed_between_send_and_mark_doubles_a_mail_once_under_one_id(scene: Scene) -> None:
    plan = await scene.notify()
    async with worker_process(scene, smtp(scene.room)) as process, asyncio.timeout(PATIENCE):

        def answer() -> str:
            os.killpg(process.pid, signal.SIGKILL)
            return "250 OK"

        scene.room.answer = answer
        await process.wait()
    scene.room.answer = lambda: "250 OK"
    await gone(scene, plan)
    await scene.drain()
    assert await scene.told(plan) == ("sent", "")
    assert len(scene.room.mails) == 2
    assert len({mail["Message-ID"] for mail in scene.room.mails}) == 1


async def gone(scene: Scene, plan: Plan) -> None:
    """Returns when the server has taken back what the killed worker held."""
    async with asyncio.timeout(PATIENCE):
        async for view in scene.queue.watch([(await scene.item(plan)).id]):
            if view.status == "pending":
                return


class Keyed:
    """A provider that takes a mail once under a key, and answers as the test says."""

    def __init__(self) -> None:
        self.taken: dict[str, bytes] = {}
        self.first = asyncio.Event()

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        key = request.headers["Idempotency-Key"]
        known = key in self.taken
        assert self.taken.setdefault(key, body) == body
        if not known:
            self.first.set()
            await asyncio.Event().wait()  # Its answer never comes.
        return web.json_response({"id": "p-1"})


async def test_a_provider_with_keys_that_timed_out_takes_a_mail_once(scene: Scene) -> None:
    provider = Keyed()
    async with web_service(provider.answer) as service:
        settings = replace(scene.settings, email=provider_settings(scene, service, 200))
        scene = replace(scene, settings=settings)
        plan = await scene.notify()
        await scene.drain()
        assert await scene.told(plan) == ("retrying", "timeout: no answer within 0.2 s")
        scene.served.clock.advance(1.2 * 300)
        await scene.drain()
        assert await scene.told(plan) == ("sent", "")
    assert len(service.asked) == 2
    assert len(provider.taken) == 1


async def test_a_worker_that_is_killed_doubles_nothing_at_a_provider_with_keys(scene: Scene) -> None:
    provider = Keyed()
    async with web_service(provider.answer) as service:
        plan = await scene.notify()
        email = {"transport": "provider", "sender": "bell@app.example", "provider": service.url, "provider_key": "key"}
        async with worker_process(scene, email) as process, asyncio.timeout(PATIENCE):
            await provider.first.wait()
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await gone(scene, plan)
        await replace(scene, settings=replace(scene.settings, email=provider_settings(scene, service, 5_000))).drain()
    assert await scene.told(plan) == ("sent", "")
    assert len(service.asked) == 2
    assert len(provider.taken) == 1


def provider_settings(scene: Scene, service: WebService, timeout: int) -> Any:
    email = scene.settings.email
    return replace(email, transport="provider", provider=service.url, provider_key="key", timeout=timeout)
