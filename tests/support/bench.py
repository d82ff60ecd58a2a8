"""An engine that a test turns by hand, on either store, and what it was told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from leaseway_server.core.commands import Ask, Command, Failed, Found, Handed, Outcome, Post, Posted, Read
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import StoreLost, Unavailable
from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.match import Match, texts_of
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.engine import Engine
from leaseway_server.runtime.shortage import RETRY_MS
from leaseway_server.store.base import Store
from support.clock import ManualClock
from support.faulty_store import Faults, FaultyStore
from support.memory_store import Disk, MemoryStore
from support.model import POLICY
from support.postgres import Postgres
from support.stores import Kind, no_postgres, opener

GRACE: Final = 5_000
PATIENCE: Final = 3_000


class Bench:
    """An engine that a test turns by hand, and what it was told."""

    def __init__(self, open_store: Callable[[ManualClock], Awaitable[Store]]) -> None:
        self.match: Match = ()
        """The members that are indexed from the next start on."""
        self.clock = ManualClock()
        self.faults = Faults()
        self.lost: list[StoreLost] = []
        self._open_store = open_store

    async def start(self) -> None:
        """Opens the store and begins, perhaps again."""
        self._store = FaultyStore(await self._open_store(self.clock), self.faults)
        self.engine = Engine(
            Queue("queue", POLICY, match=self.match),
            self._store,
            self.clock,
            resume_grace=GRACE,
            ping_timeout=PATIENCE,
            on_lost=self.lost.append,
        )
        await self.engine.start()

    async def close(self) -> None:
        """Lets go of the store."""
        await self._store.close()

    async def restart(self) -> None:
        """The server ends, however, and begins anew."""
        await self.close()
        await self.start()

    def say(self, command: Command) -> list[Outcome]:
        """Has it done with the next turn; gives where its outcomes will stand."""
        outcomes: list[Outcome] = []
        self.engine.submit(command, outcomes.append)
        return outcomes

    async def do(self, *commands: Command) -> list[Outcome]:
        """All of it in one turn; gives all outcomes, in the order of the commands."""
        said = [self.say(command) for command in commands]
        await self.engine.step()
        return [outcome for outcomes in said for outcome in outcomes]

    async def post(self, body: str = "{}", **options: Any) -> Item:
        """Posts an item, in a turn of its own."""
        (posted,) = await self.do(Post(NewItem(body, match=self._texts(body), **options)))
        assert isinstance(posted, Posted), posted
        return posted.item

    def _texts(self, body: str) -> Match:
        return texts_of(parse(body), self.match) if self.match else ()

    async def claimed(self, holder: int, worker: str = "box-1") -> Item:
        """An item that was posted and claimed."""
        await self.post()
        (handed,) = await self.do(claim(holder, worker=worker))
        assert isinstance(handed, Handed), handed
        return handed.item

    async def read(self, item_id: str) -> Item:
        """The item as it stands."""
        (found,) = await self.do(Read((item_id,)))
        assert isinstance(found, Found)
        return found.items[item_id]

    def writable(self) -> bool:
        """Whether the engine finds its store writable."""
        return self.engine.writable

    async def pass_by(self, ms: int) -> None:
        """Time goes by, and the engine keeps up with it."""
        for passed in range(0, ms, RETRY_MS):
            self.clock.advance(min(RETRY_MS, ms - passed))
            await self.engine.step()


def claim(holder: int, criteria: Json = None, *, count: int = 1, wait_ms: int = 0, worker: str = "box-1") -> Ask:
    """A claim of the user `box`."""
    return Ask(holder, "box", worker, Criteria.parse(criteria), count=count, wait_ms=wait_ms)


def refused(outcomes: list[Outcome]) -> bool:
    """Whether all that was said was refused as unavailable, and each once."""
    return bool(outcomes) and all(isinstance(each, Failed) and isinstance(each.error, Unavailable) for each in outcomes)


@asynccontextmanager
async def open_bench(
    kind: Literal["memory"] | Kind, folder: Path, postgres: Callable[[], Postgres] = no_postgres
) -> AsyncIterator[Bench]:
    """An engine that has started, on a store of this kind; `postgres` is asked only where one is needed."""
    async with AsyncExitStack() as stack:
        if kind == "memory":
            disk = Disk()

            async def open_store(clock: ManualClock) -> Store:
                return MemoryStore(disk, clock.now)
        else:
            opened = await stack.enter_async_context(opener(kind, folder, postgres))

            async def open_store(clock: ManualClock) -> Store:
                return await opened(clock.now)

        bench = Bench(open_store)
        await bench.start()
        try:
            yield bench
        finally:
            await bench.close()
