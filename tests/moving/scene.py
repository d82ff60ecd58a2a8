"""A move from house to house, as tests ask for it, and how it stands with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.moving.move import Moved, Moving, Tokens
from leaseway_server.moving.side import Side
from leaseway_server.moving.undo import undo as take_back
from leaseway_server.store.place import SqliteFolder
from leaseway_server.stores import kind_of
from support.faulty_side import Count, FaultySide
from support.rehoused import House, content, tokens_of

QUEUES = ("demo", "other")


@asynccontextmanager
async def ends(source: House, target: House, count: Count | None = None) -> AsyncIterator[tuple[Side, Side]]:
    """Both ends; what is done to them is counted where there is a count."""
    async with kind_of(source.place).side(make=False) as there, kind_of(target.place).side(make=True) as here:
        yield (FaultySide(there, count), FaultySide(here, count)) if count else (there, here)


async def move(
    source: House, target: House, names: set[str] | None = None, tokens: Tokens = "same", count: Count | None = None
) -> Moved:
    async with ends(source, target, count) as (there, here):
        return await Moving(there, here, lambda *_said: None).run(names, tokens)


async def undo(source: House, target: House, count: Count | None = None) -> list[str]:
    async with ends(source, target, count) as (there, here):
        return await take_back(there, here, None)


def data_of(house: House) -> Path:
    """Its folder."""
    assert isinstance(house.place, SqliteFolder)
    return house.place.folder


async def contents(house: House) -> list[object]:
    return [await content(house, name) for name in QUEUES] + [await tokens_of(house)]


async def refused(source: House, target: House, **how: object) -> str:
    with pytest.raises(StoreRefused) as told:
        await move(source, target, **how)  # type: ignore[arg-type]
    return str(told.value)


async def mark_of(house: House, name: str) -> str:
    async with kind_of(house.place).side(make=True) as side:
        mark = (await (await side.queue(name)).look()).mark
    return mark.state if mark else ""


async def served(house: House, name: str) -> str:
    """Which mark a server is refused by."""
    with pytest.raises(StoreRefused) as told:
        async with house.opened(name):
            pass
    for text, state in (("is being moved", "leaving"), ("was moved", "left"), ("is being filled", "filling")):
        if text in str(told.value):
            return state
    raise AssertionError(told.value)


async def run(house: House, statement: str) -> None:
    """Changes the database behind the move's back."""
    async with (
        kind_of(house.place).side(make=False) as side,
        side._database.transaction() as connection,  # type: ignore[attr-defined]
    ):
        await connection.execute(statement)
