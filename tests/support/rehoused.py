"""Stores to be moved: filled with anything that a store may hold, and what is found in them, row by row.

await fill(one := House(SqliteFolder(folder)), random.Random(1))
assert await content(one, "demo") == await content(another, "demo")
"""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.match import MOST_MATCHES
from leaseway_server.core.model import HTTP, NOBODY, Item
from leaseway_server.moving.tables import TABLES
from leaseway_server.store.base import Store
from leaseway_server.store.place import Place
from leaseway_server.stores import kind_of
from support.model import NOW
from support.stored import rows_of

STATUSES: Final = ("pending", "processing", "finished", "failed", "dead", "cancelled", "expired")
TEXTS: Final = ("", "k", "ключ", "a'b\"c", "🙂" * 20, " x ", "%", "\\", "nul\\u0000l", "ÿ")
BODIES: Final = (
    "1", "null", '"\\u0000"', '{"a":"\\u0000\\ud83d\\ude42","__proto__":1}', "1e200000", "-0.0", "9223372036854775807",
    "18446744073709551615", '"ünï"', '"' + "long" * 80_000 + '"', "[" * 60 + "]" * 60,
)  # fmt: skip


_SOCKET: Final = "CASE WHEN holder > 1 THEN holder & 4294967295 ELSE holder END"


@dataclass(frozen=True, slots=True)
class House:
    """A store at a place, whatever kind it is of."""

    place: Place

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Store]:
        """A queue of it, as a server has it; afterwards that server is gone."""
        async with kind_of(self.place).stores(lambda: NOW) as stores:
            try:
                yield await stores.queue(name)
            finally:
                if stores.sharing is not None:
                    await stores.sharing.registry.leave()


async def fill(house: House, dice: random.Random, names: tuple[str, ...] = ("demo", "other"), items: int = 40) -> None:
    """Fills queues with items in every state, and makes tokens."""
    for name in names:
        async with house.opened(name) as store, store.turn(durable=True) as turn:
            ids = await turn.new_ids(items)
            made = [item_of(dice, number, seq, item_id) for number, (seq, item_id) in enumerate(ids)]
            await turn.insert(made)
            for status in STATUSES:
                await turn.count({status: sum(item.status == status for item in made)})
            await turn.save_attempts(dict(attempts_of(dice, made)))
            await turn.pause(dice.random() < 0.5)
            await turn.commit()
    async with kind_of(house.place).access(make=True) as tokens:
        for user in ("ann", "böb"):
            await tokens.add(user, dice.choice([None, frozenset({"demo"})]), None, dice.choice([0, NOW]), NOW)


def item_of(dice: random.Random, number: int, seq: int, item_id: str) -> Item:
    """An item in any state; no rule says that it could have come to be so."""
    status = STATUSES[number % len(STATUSES)]
    held_by = [(1 + dice.randrange(3)) << 32 | dice.randrange(2**32), HTTP]
    large = dice.randrange(2**53)
    match = tuple(dice.choice(["", '"nul\0l"', "1", '"ü"']) for _ in range(dice.randrange(MOST_MATCHES + 1)))
    return Item(
        id=item_id,
        seq=seq,
        status=status,  # type: ignore[arg-type]
        ready=int(status == "pending" and dice.random() < 0.5),
        rank=dice.choice([0, -9, 2**31 - 1, -(2**31)]),
        due_at=NOW + dice.randrange(10**6),
        posted_by=dice.choice(TEXTS),
        posted_at=large,
        updated_at=dice.randrange(2**53),
        started_at=dice.choice([0, NOW]),
        finished_at=0 if number % len(STATUSES) < 2 else NOW,
        fetched_at=dice.choice([0, NOW]),
        expires_at=dice.choice([0, NOW + 10**9]),
        lease_until=NOW if status == "processing" else 0,
        progress_at=dice.choice([0, NOW]),
        attempts=dice.choice([0, 1, 2**31 - 1]),
        attempts_base=0,
        failures=dice.randrange(5),
        losses=dice.randrange(5),
        max_attempts=dice.choice([0, 5]),
        rev=dice.choice([1, 2**40]),
        ending=dice.choice(["", "open", "lost", "parted"]) if status == "processing" else "",
        holder=dice.choice(held_by) if status == "processing" else NOBODY,
        lease_user=dice.choice(TEXTS),
        worker=dice.choice(TEXTS),
        meta=dice.choice(["", '{"m":"\\u0000"}']),
        progress=dice.choice(["", json.dumps({"p": "ü" * dice.randrange(9)})]),
        error=dice.choice(["", '{"message":"\\u0000"}']),
        key=dice.choice(TEXTS),
        held=dice.randrange(2),
        body=dice.choice(BODIES),
        result=dice.choice(BODIES) if status == "finished" else "",
        match=match,
    )


def attempts_of(dice: random.Random, items: list[Item]) -> dict[tuple[int, int], Attempt | None]:
    """Some attempts of some of them."""
    return {
        (item.seq, number): Attempt(number, dice.choice(TEXTS), NOW, NOW + number, "failed", dice.choice(["", '"e"']))
        for item in items
        for number in range(1, 1 + dice.randrange(4))
    }


async def content(house: House, name: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of a queue by table; of the numbers of sockets without the count of starts."""
    found: dict[str, list[tuple[object, ...]]] = {}
    async with house.opened(name) as store:
        for table in TABLES:
            columns = ", ".join(table.columns).replace("holder", _SOCKET)
            found[table.name] = sorted(await rows_of(store, table.name, columns))
        counts = await store.counts()
        found["counts"] = [(status, counts.get(status, 0)) for status in STATUSES]
        found["facts"] = [(store.ids.id_of(1), await store.paused(), await store.matched())]  # type: ignore[attr-defined]
    return found


async def tokens_of(house: House) -> list[Any]:
    """All tokens, as they are kept: by the hashes of their secrets."""
    async with kind_of(house.place).side(make=False) as side:
        return await side.tokens()
