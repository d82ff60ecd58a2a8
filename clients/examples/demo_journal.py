"""What a watcher saw of every item, in order: each state and the moment it came, over one monitor socket.

It only writes down. What follows from it is decided in `demo_stages.py`, how it looks in `demo_screen.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from demo_news import DemoFailed, News

from leaseway import Client, LeasewayError, View


@dataclass(frozen=True, slots=True)
class Seen:
    """A state of an item, and when it was seen, on the monotonic clock."""

    view: View
    at: float


@dataclass(eq=False, slots=True)
class Entry:
    """One item in the journal."""

    id: str
    name: str
    seen: list[Seen] = field(default_factory=list)

    @property
    def view(self) -> View | None:
        """The newest state."""
        return self.seen[-1].view if self.seen else None

    @property
    def ended(self) -> bool:
        """Whether its end was seen."""
        return self.view is not None and self.view.ended

    @property
    def status(self) -> str:
        """Its newest status; "posted" until a view came."""
        return self.view.status if self.view else "posted"

    @property
    def worker(self) -> str:
        """Whose work it is or was, by the demo's name: the client adds its process's number and more."""
        if self.view is None or self.view.worker is None or self.view.status == "pending":
            return ""
        return self.view.worker.rsplit("-", 2)[0]

    @property
    def percent(self) -> float:
        """How far it is."""
        if self.view is None:
            return 0.0
        return 100.0 if self.view.status == "finished" else float((self.view.progress or {}).get("percent", 0))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The progress records that were seen, in order."""
        records = [seen.view.progress for seen in self.seen if seen.view.progress]
        return [record for n, record in enumerate(records) if n == 0 or record != records[n - 1]]


class Journal:
    """One watcher with a connection of its own. `on_change` is told each entry that changed."""

    def __init__(self, queue: str, news: News, on_change: Callable[[Entry], None] = lambda entry: None) -> None:
        self._client = Client(queue)
        self._news = news
        self._on_change = on_change
        self._entries: dict[str, Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Entry]:
        """The entries, oldest first."""
        return iter(self._entries.values())

    def __getitem__(self, item_id: str) -> Entry:
        """The entry of an item that is followed."""
        return self._entries[item_id]

    async def __aenter__(self) -> Self:
        """Connects."""
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__(kind, error, trace)

    def follow(self, item_id: str, name: str) -> None:
        """Watches an item to its end."""
        entry = self._entries[item_id] = Entry(item_id, name)
        task = asyncio.create_task(self._follow(entry), name=f"follow-{item_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget_ended(self, keep: int) -> None:
        """Drops the oldest that have ended, so that `keep` entries stay."""
        for entry in list(self)[: max(0, len(self._entries) - keep)]:
            if entry.ended:
                del self._entries[entry.id]

    async def _follow(self, entry: Entry) -> None:
        try:
            async for view in self._client.watch([entry.id]):
                entry.seen.append(Seen(view, time.monotonic()))
                self._on_change(entry)
                self._news.tell()
        except LeasewayError as error:
            self._news.fail(DemoFailed(f"item {entry.id} cannot be watched any more: {error}"))
