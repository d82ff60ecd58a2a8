"""Several at the same work, each a process: drains beside a resident worker, and planners of equal events."""

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import orjson

from docs.snippets import started
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.queue import QUEUE
from leaseway_notify.stores.base import DeliveryFilter
from support.child import ended_after
from support.execution_scene import settings_for
from support.mail_server import Mailroom, mail_server
from support.notify_scene import items_in, queue_of, served_queue
from support.notify_stores import Opener, profile

PATIENCE: Final = 50.0
IN_FLIGHT: Final = 4
WORKERS: Final = (("--drain",), ("--drain",), ())
MANY: Final = IN_FLIGHT * len(WORKERS) + 3


def write(folder: Path, store: str, queue: str, room: Mailroom) -> None:
    """The settings of all of them."""
    (folder / "notify.toml").write_text(
        f'store = "{store}"\n[queue]\nurl = "{queue}/{QUEUE}"\n[worker]\nin_flight = {IN_FLIGHT}\n[email]\n'
        f'transport = "smtp"\nsender = "bell@app.example"\nhost = "{room.host}"\nport = {room.port}\n'
        'security = "none"\ntimeout = "1m"\n'
    )


async def test_two_drains_and_a_resident_worker_send_each_mail_once(place: tuple[str, Opener], tmp_path: Path) -> None:
    """No mail is answered until all three are at work, with nothing in the queue but what they post themselves."""
    store_url, opener = place
    go = asyncio.Event()
    async with (
        asyncio.timeout(PATIENCE),
        served_queue(tmp_path / "queue") as server,
        queue_of(server) as queue,
        mail_server() as room,
        await opener() as store,
        AsyncExitStack() as stack,
    ):

        async def answer() -> str:
            if len(room.mails) > IN_FLIGHT * (len(WORKERS) - 1):
                go.set()
            await go.wait()
            return "250 OK"

        room.answer = answer
        write(tmp_path, store_url, server.ws_url, room)
        people = [f"person-{number}" for number in range(MANY)]
        for person in people:
            await store.save_profile(profile(person, subscriptions=()))
        events = [Event(type="system", recipient=person, title="The disk is full") for person in people]
        await Notifier(store, queue, settings_for(room)).write(events)
        *drains, resident = [
            await stack.enter_async_context(started("leaseway-notify", "worker", *options, folder=tmp_path))
            for options in WORKERS
        ]
        for drain in drains:
            _, errors = await drain.communicate()
            assert drain.returncode == 0, errors.decode()
        resident.terminate()
        _, errors = await resident.communicate()
        assert resident.returncode == 0, errors.decode()
        assert Counter(str(mail["To"]) for mail in room.mails) == {f"{person}@example.com": 1 for person in people}
        for channel, status in (("email", "sent"), ("in_app", "delivered")):
            log = await store.deliveries(DeliveryFilter(channel=channel), 2 * MANY)  # type: ignore[arg-type]
            assert {(one.delivery.status, one.delivery.failures) for one in log} == {(status, 0)}
        assert {view.status for view in (await items_in(queue)).values()} == {"finished"}


PLANNER: Final = """
import asyncio, json, sys
from pathlib import Path
from leaseway import Client
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.notify_toml import load_settings
from leaseway_notify.stores.opening import open_store

async def main():
    settings = load_settings(Path(sys.argv[1]))
    async with await open_store(settings.store) as store, Client(settings.queue.url) as queue:
        notifier = Notifier(store, queue, settings)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(20):
            order = (1, -1)[number % 2 == int(sys.argv[2])]
            events = [Event(type="system", recipient=name, title=f"disk {number}") for name in ("ada", "bea")[::order]]
            plans = await notifier.notify_many(events)
            print(json.dumps([[plan.notification.recipient, plan.notification.title, plan.duplicate]
                              for plan in plans]), flush=True)

asyncio.run(main())
"""


async def test_two_planners_of_equal_events_make_one_notification_of_each(
    place: tuple[str, Opener], tmp_path: Path
) -> None:
    """They begin together, and say the recipients in opposite orders."""
    store_url, opener = place
    async with (
        asyncio.timeout(PATIENCE),
        served_queue(tmp_path / "queue") as server,
        queue_of(server) as queue,
        mail_server() as room,
        await opener() as store,
        AsyncExitStack() as stack,
    ):
        write(tmp_path, store_url, server.ws_url, room)
        for person in ("ada", "bea"):
            await store.save_profile(profile(person))
        planners = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", PLANNER, str(tmp_path / "notify.toml"), str(number),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
            for number in range(2)
        ]  # fmt: skip
        for planner in planners:
            await stack.enter_async_context(ended_after(planner))
            assert planner.stdout is not None
            assert await planner.stdout.readline() == b"ready\n"
        said = [output for output, _ in await asyncio.gather(*(planner.communicate(b"go\n") for planner in planners))]
        assert [planner.returncode for planner in planners] == [0, 0]
        made = Counter(tuple(one) for output in said for line in output.splitlines() for one in orjson.loads(line))
        titles = [(person, f"disk {number}") for person in ("ada", "bea") for number in range(20)]
        assert made == {(*one, duplicate): 1 for one in titles for duplicate in (False, True)}
        log = [one for one in await store.deliveries(DeliveryFilter(), 1_000) if not one.delivery.ended]
        delivered = Counter((one.delivery.channel, one.notification.recipient, one.notification.title) for one in log)
        assert delivered == {(channel, *one): 1 for channel in ("in_app", "email") for one in titles}
        assert set(await items_in(queue)) == {one.delivery.id for one in log}
