"""What a store can do: lock rows, pick claimable rows, insert and save. It knows no rule of the protocol.

A store belongs to one queue. A `Turn` is one transaction of it; its verbs work on whole batches. Errors are those of
`core/errors.py`: `StoreFull` (the turn is rolled back, a later one may succeed), `StoreBusy` (rolled back, to be run
again), `StoreAway` (no database; rolled back, or unknown until `committed` says so) and `StoreLost` (the outcome is
unknown; nothing may be answered, the process ends and recovers). Anything else is a fault of the data in the turn.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.keys import Key
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.match import Match, Narrowing
from leaseway_server.core.model import Candidate, Item, Position, Status
from leaseway_server.core.retention import Outstayed


class Turn(Protocol):
    """One transaction. Left without `commit`, it is rolled back."""

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist, locked, without `body` and `result`; read before `time`."""
        ...

    async def load_free(self, ids: Collection[str]) -> tuple[dict[str, Item], list[str]]:
        """As `load`, but what another server has locked is passed by; and the ids of what was."""
        ...

    async def look(self, ids: Collection[str]) -> dict[str, Item]:
        """As `load`, but not locked: as they were committed last. Nothing is decided by them."""
        ...

    async def time(self) -> int:
        """The turn's time, ms since the epoch, read once all rows are locked."""
        ...

    @property
    def paused(self) -> bool | None:
        """Whether the queue is paused, as of `time`; None where nobody but this server may say so."""
        ...

    missed: list[str]
    """The ids of what `take` was to give and did not: another server has it, or just looks at it."""

    async def pick(
        self,
        after: Position,
        limit: int,
        skip: Collection[int],
        narrowing: Narrowing | None = None,
        *,
        taking: bool = False,
    ) -> list[Candidate]:
        """The next ready items in the order of claims; `skip` are row numbers to leave out.

        With a `narrowing` only those that have one of its texts. Where all are for `taking`, what another server has
        locked is left out, and nobody else gets the others.

        They may be fewer than `limit` where their bodies are large; none at all means that there are no more.
        """
        ...

    async def left_to_others(self, skip: Collection[int], now: int) -> list[str]:
        """The ids of some items that can be claimed, though `pick` for taking gives no more: others have them."""
        ...

    async def take(self, candidates: Collection[Candidate]) -> dict[int, Item]:
        """The items that the turn picked, locked, with `body`; by row number; `missed` tells the others."""
        ...

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items whose due time passed, but which are not in the index of the ready ones."""
        ...

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items that are not terminal and whose time to live is over."""
        ...

    async def mine(self, poster: str, before: int, limit: int) -> list[Item]:
        """What this poster has open, and its ends that no producer was told, of row numbers below `before`: the newest
        first."""
        ...

    async def newest(self, before: int, limit: int) -> list[Item]:
        """Items of row numbers below `before`, the newest first."""
        ...

    async def read_bodies(self, items: Collection[Item]) -> None:
        """Fills in `body`."""
        ...

    async def read_results(self, items: Collection[Item]) -> None:
        """Fills in `result` where there is one."""
        ...

    async def new_ids(self, count: int) -> list[tuple[int, str]]:
        """Row numbers and ids for new items, in rising order, never used before."""
        ...

    async def insert(self, items: Sequence[Item]) -> None:
        """New items, with `body`; and `result` where they ended at once."""
        ...

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """Changed items as (before, after); a `result` that is new in `after` is stored."""
        ...

    async def stamp(self, told: Collection[tuple[str, int]]) -> None:
        """Notes that a producer was told these ends, (id, rev) each: where the item is still at that `rev`, and where
        it is the first time, `fetched_at` becomes the present."""
        ...

    async def outstayed(self, which: Outstayed, limit: int) -> list[Item]:
        """Ended items whose time is over and whose key is not held, those that ended (or were fetched) first, first.

        They may be fewer than `limit` where they are large; none at all means that there are no more.
        """
        ...

    async def save_attempts(self, attempts: Mapping[tuple[int, int], Attempt | None]) -> None:
        """Attempts that ended, by row number and number of the attempt, in place of what is there; None: it goes."""
        ...

    async def read_attempts(self, items: Collection[Item]) -> dict[str, list[Attempt]]:
        """The attempts of each item, by its id, oldest first; of very many the newest."""
        ...

    async def count(self, more: Mapping[Status, int]) -> None:
        """There are so many more items of each status, or fewer."""
        ...

    async def pause(self, on: bool) -> None:
        """The queue is paused from now on, or is not."""
        ...

    async def delete(self, items: Collection[Item]) -> None:
        """Nothing is left of these items: neither body, result nor attempts."""
        ...

    async def body_sizes(self, items: Collection[Item]) -> dict[str, int]:
        """How large the bodies are, in bytes, by id; cheaper than reading them."""
        ...

    async def lock_keys(self, keys: Collection[str]) -> None:
        """Until the turn is over no other server posts with one of these keys. Ask before rows are locked: then two
        servers that post what holds a key, and change its holder, do not wait in a circle."""
        ...

    async def key_holders(self, keys: Collection[Key]) -> list[Item]:
        """The items that hold these keys of their posters, also ended ones whose time is over; locked."""
        ...

    async def shared_key_holders(self, keys: Collection[str], posted_after: int) -> list[Item]:
        """Of each key one item that holds it, whoever posted it, open or posted after that time; locked."""
        ...

    async def past_keys(self, posted_until: int, limit: int) -> list[Item]:
        """Ended items that hold a key and were posted by then, those first that were posted first."""
        ...

    async def oldest_passing_key(self) -> int:
        """When the first of the ended items that hold a key was posted; 0 where there is none."""
        ...

    async def next_due(self) -> int:
        """When the next item that is not ready comes due; 0 where there is none."""
        ...

    async def next_expiry(self) -> int:
        """When the next time to live is over; 0 where there is none."""
        ...

    async def oldest_ready(self) -> int:
        """When the item came due that is ready longest, whatever its priority; 0 where none is ready."""
        ...

    async def commit(self) -> None:
        """Makes it durable. Only after this may anything be answered."""
        ...


class Store(Protocol):
    """The items of one queue."""

    epoch: int
    """Counts the starts; a part of the numbers of sockets, so that those of an earlier start are told apart."""
    made: bool
    """Nothing was there when it was opened: the queue begins with this."""

    def turn(self, *, durable: bool) -> AbstractAsyncContextManager[Turn]:
        """A transaction. Where not `durable`, loss of power may cost it, a killed process may not (§7.1)."""
        ...

    async def committed(self) -> bool:
        """Whether the turn was committed whose COMMIT ended in a `StoreAway` that left it `unknown`.

        Raises `StoreAway` while it cannot be told.
        """
        ...

    async def counts(self) -> dict[Status, int]:
        """How many items there are of each status, as the turns have kept it; those of which there were never any may
        be missing. Read once at the start."""
        ...

    async def paused(self) -> bool:
        """Whether the queue is paused; read once at the start."""
        ...

    async def leases(self) -> list[Item]:
        """All items that are `processing`, without `body`; read once at the start."""
        ...

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """The next items that are wanted, newest posted first, without `body`, finished ones with `results` if asked.

        At most `limit`, and a bounded number of rows is looked at: a page may hold few items or none, and have a
        `next`. It sees what is committed. `cursor` is the `next` of the page before, "" for the first; None where it
        is none that was given out. Runs beside the turns and holds up none of them.
        """
        ...

    async def ahead(self, position: Position, most: int) -> int:
        """How many ready items stand before a position in the order of claims; `most` or more where there are more.

        Runs beside the turns, as `page` does.
        """
        ...

    async def matched(self) -> Match | None:
        """The members that `pick` can narrow by; None where a `rematch` did not end."""
        ...

    async def rematch(self, match: Match) -> int:
        """From now on `pick` narrows by these members. Gives how many items were looked at; before the first turn."""
        ...

    def check(self) -> None:
        """Raises `StoreLost` where the store is not any more what was opened."""
        ...

    async def maintain(self) -> None:
        """What may be done between turns, such as writing the log back. May raise as a turn does."""
        ...

    async def close(self) -> None:
        """Lets go of the files."""
        ...
