"""The planner of the notification campaign: a process that notifies of the events whose numbers it is told.

    python tests/chaos/notify_planner.py notify.toml

Each line of its input is a number; each line of its output one that was notified of. Said again after a kill, an event
has the same id.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from leaseway import Client
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.notify_toml import load_settings
from leaseway_notify.outbox import Outbox, keep_posting
from leaseway_notify.stores.opening import open_store
from leaseway_notify.working import QUEUE_WITHIN

RECIPIENTS: Final = 20


def event_of(number: int) -> Event:
    """The event of this number, the same each time."""
    return Event(type="system", id=f"event-{number}", recipient=f"r{number % RECIPIENTS}", title=f"number {number}")


async def main(file: Path) -> None:
    """Notifies until its input ends."""
    settings = load_settings(file)
    queue: Client[Any, Any] = Client(settings.queue.url, open_timeout=QUEUE_WITHIN)
    async with await open_store(settings.store) as store:
        posting = asyncio.create_task(keep_posting(queue, Outbox(store, queue, settings.outbox)))
        notifier = Notifier(store, queue, settings)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await notifier.notify(event_of(int(line)))
            print(line.strip(), flush=True)
        posting.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
