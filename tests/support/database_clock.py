"""A clock of a database that a test sets while servers are at work: what our statements read, for all alike."""

import re

import asyncpg
import pytest

from leaseway_server.store.postgres import neighbours, statements

_READING = re.compile(r"pg_catalog\.(clock|statement)_timestamp\(\)")
_BY = "(SELECT ms * interval '1 ms' FROM public.clock_set)"


class DatabaseClock:
    """The clock of the database at `url`. Make it before there are servers: those of this process go by it."""

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    async def take(cls, url: str, monkeypatch: pytest.MonkeyPatch) -> "DatabaseClock":
        """Has all statements read it; it is right as yet."""
        for sql in (statements.SQL, neighbours.SQL):
            for name, statement in sql.items():
                monkeypatch.setitem(sql, name, _READING.sub(rf"(\g<0> + {_BY})", statement))
        clock = cls(url)
        await clock.ask("CREATE TABLE public.clock_set (ms bigint)")
        await clock.ask("INSERT INTO public.clock_set VALUES (0)")
        return clock

    async def step(self, ms: int) -> None:
        """It is set by so much."""
        await self.ask("UPDATE public.clock_set SET ms = ms + $1", ms)

    async def lease_ends(self) -> tuple[int, dict[int, int]]:
        """What it shows, and until when each item is leased, by the items' numbers."""
        rows = await self.ask("SELECT seq, lease_until FROM leaseway.item WHERE status = 'processing'")
        [(now, by)] = await self.ask(
            "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, ms FROM public.clock_set"
        )
        return now + by, {row["seq"]: row["lease_until"] for row in rows}

    async def ask(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Runs one statement."""
        connection = await asyncpg.connect(self._url)
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()
