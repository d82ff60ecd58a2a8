"""What servers tell each other through a database: who is alive, what each did to a queue; see `store/shared.py`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.model import STATUSES, Item
from leaseway_server.store.columns import item_of
from leaseway_server.store.postgres import servers
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.schema import PACKAGE
from leaseway_server.store.postgres.statements import SQL as QUEUE_SQL
from leaseway_server.store.postgres.store import PostgresStore
from leaseway_server.store.postgres.turn import Numbering
from leaseway_server.store.queries import load_queries
from leaseway_server.store.shared import Roll, Share, Turned

KEPT_MS: Final = 600_000
"""So long after its last word a server is still known; what it counted stays for ever."""
RATES_MS: Final = 2 * 3_600_000
"""So long it is known what happened in a minute; an hour of it is told."""
SQL: Final = load_queries(PACKAGE, "neighbours.sql")


class PostgresRegistry:
    """The servers of one database; see `shared.Registry`. `epoch` is what `servers.enter` gave."""

    def __init__(self, database: Database, epoch: int, name: str, version: str) -> None:
        self.epoch = epoch
        self._database = database
        self._said = (epoch, name, version, servers.GONE_MS)

    async def beat(self) -> Roll:
        """This server is alive. What takes so long that others take it for gone meanwhile is said anew."""
        patience = servers.GONE_MS / 1_000
        async with self._database.urgent(patience) as connection:
            [(now, newest, alive, beats)] = await connection.fetch(SQL["beat"], *self._said, timeout=patience)
        return Roll(now, dict(zip(alive, beats, strict=True)), newest)

    async def forget(self) -> int:
        """Removes what is left of servers that are gone for long, but for what they counted."""
        async with self._database.transaction() as connection:
            gone = [epoch for (epoch,) in await connection.fetch(SQL["long_gone"], KEPT_MS)]
            for epoch in gone:
                await connection.execute(SQL["forget"], epoch)
            await connection.execute(SQL["forget_rates"], RATES_MS)
        return len(gone)

    async def leave(self) -> None:
        """The others take it for gone from now on, and soon by themselves."""
        async with self._database.urgent(servers.GONE_MS / 1_000) as connection:
            await connection.execute(SQL["leave"], self.epoch, servers.GONE_MS)


class PostgresSharedQueue:
    """One queue, as other servers see and show it; see `shared.SharedQueue`."""

    def __init__(self, store: PostgresStore) -> None:
        self.number: Final = store.queue
        self._epoch = store.epoch
        self._ids: IdPermutation = store.ids
        self._numbering: Numbering = store.numbering
        self._ask = store.ask

    def announce(self, on: bool) -> None:
        """From the next turn on, turns say what they changed, or do not."""
        self._numbering.announce = on

    async def look(self) -> tuple[bool, list[Share]]:
        """How it stands with all servers."""
        rows = await self._ask(SQL["shares"], self.number)
        return any(row[0] for row in rows), [_share(*row[1:]) for row in rows]

    async def changes(self, seen: Mapping[int, int]) -> list[Turned]:
        """The turns that were not seen."""
        rows = await self._ask(SQL["changes"], self.number, list(seen), list(seen.values()))
        turned = []
        for server, turn, *seqs, posters in rows:
            changed, ready, ended = map(self._named, seqs)
            turned.append(Turned(server, turn, changed, ready, dict(zip(ended, posters, strict=True))))
        return turned

    def _named(self, seqs: Sequence[int]) -> list[str]:
        return [self._ids.id_of(seq) for seq in seqs]

    async def rows(self, ids: Collection[str]) -> dict[str, Item]:
        """The items, finished ones with their results."""
        seqs = [seq for seq in map(self._ids.seq_of, ids) if seq is not None]
        items = [item_of(self._ids, row) for row in await self._ask(QUEUE_SQL["look"], self.number, seqs)]
        finished = {item.seq: item for item in items if item.status == "finished"}
        results = await self._ask(QUEUE_SQL["results"], self.number, list(finished)) if finished else ()
        for seq, result in results:
            finished[seq].result = result
        return {item.id: item for item in items}

    async def show(self, workers: int, *, watched: bool) -> None:
        """So it is here."""
        await self._ask(SQL["show"], self.number, self._epoch, workers, watched)

    async def count(self, minutes: Mapping[int, Sequence[int]]) -> None:
        """So it was in these minutes here."""
        columns = zip(*minutes.values(), strict=True)
        await self._ask(SQL["count_rates"], self.number, self._epoch, list(minutes), *map(list, columns))

    async def rates(self, since: int) -> dict[int, Sequence[int]]:
        """So it was since then elsewhere, and before this start."""
        rows = await self._ask(SQL["rates"], self.number, self._epoch, since)
        return {minute: counts for minute, *counts in rows}


def _share(server: int, turn: int, workers: int, watched: bool, *counts: int) -> Share:
    return Share(server, turn, workers, watched, dict(zip(STATUSES, counts, strict=True)))
