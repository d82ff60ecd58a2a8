"""One queue, copied from side to side and compared. What was copied before is where the copy goes on."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import orjson

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.model import Status
from leaseway_server.moving.side import Facts, QueueSide
from leaseway_server.moving.tables import ITEM, STATUS, TABLES, Row

Told: TypeAlias = Callable[[int], None]
"""So many rows more were copied or compared."""
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Content:
    """What a queue holds: rows by table, items by status, and a digest over all of it."""

    rows: Counter[str]
    statuses: Counter[Status]
    digest: str


async def copy(source: QueueSide, target: QueueSide, told: Told) -> None:
    """Copies what is not there yet. All that is there was copied from this source, in the same order."""
    for table in TABLES:
        rows = await source.read(table, await target.last(table))
        while rows:
            written = rows
            after = table.key_of(written[-1])
            rows, _ = await asyncio.gather(source.read(table, after), target.write(table, written))
            told(len(written))


async def content_of(queue: QueueSide, told: Told) -> Content:
    """Reads all of a queue, each row and body, as its store has it by now.

    The digest is over its pause, its key of ids, what `match` is computed for, and every column of every row, in the
    order of keys. Only of the numbers of sockets the count of starts is left out, since each store has its own.
    """
    facts = (await queue.look()).facts
    assert facts is not None
    hashed = blake2b(_head(facts), digest_size=_DIGEST_BYTES)
    rows: Counter[str] = Counter()
    statuses: Counter[Status] = Counter()
    for table in TABLES:
        after = table.first
        hashed.update(table.name.encode())
        while found := await queue.read(table, after):
            after = table.key_of(found[-1])
            _digest(hashed, found)
            rows[table.name] += len(found)
            if table is ITEM:
                statuses.update(row[STATUS] for row in found)
            told(len(found))
    return Content(rows, statuses, hashed.hexdigest())


def _head(facts: Facts) -> bytes:
    return orjson.dumps([facts.id_key.hex(), facts.paused, facts.match])


def _digest(hashed: "blake2b", rows: Sequence[Row]) -> None:
    for row in rows:
        hashed.update(orjson.dumps(row))


async def compare(source: QueueSide, target: QueueSide, told: Told) -> Content:
    """What both hold. Raises `StoreRefused` where they do not hold the same."""
    there, here = await asyncio.gather(content_of(source, told), content_of(target, told))
    if there != here:
        raise StoreRefused(
            f"{target.where} does not hold what {source.where} holds ({_in_words(here)}, there {_in_words(there)}), so "
            "nothing was switched; take the move back by `leaseway move --undo`, and move again"
        )
    return here


def _in_words(content: Content) -> str:
    return f"{content.rows['item']:,} items, {content.rows.total():,} rows, digest {content.digest}"
