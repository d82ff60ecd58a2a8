"""The columns of what `match` names, computed anew where a queue's configuration names other members than before.

In slices, each a transaction of its own. Until the last one is done the queue says that its columns are of no
configuration at all: a start that ends in between, however, makes the next one begin again.
"""

from typing import Final

import orjson

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.jsontext import parse
from leaseway_server.core.match import Match, column_texts
from leaseway_server.store import bounds
from leaseway_server.store.postgres import servers
from leaseway_server.store.postgres.database import Connection, Database
from leaseway_server.store.postgres.statements import SQL

_UNDER_WAY: Final = "null"


async def matched(connection: Connection, queue: int, server: int) -> Match | None:
    """What the columns are computed for; None where that was not finished."""
    text = await connection.fetchval(SQL["matched"], queue)
    await connection.execute(SQL["serve_matched"], queue, server, text)
    found = orjson.loads(text)
    return None if found is None else tuple(found)


async def rematch(database: Database, queue: int, server: int, match: Match) -> int:
    """Computes all columns for `match`. Gives how many rows there were.

    Raises `StoreRefused` where another server that lives uses others: it would find too little by them.
    """
    text = orjson.dumps(match).decode()
    async with database.transaction() as connection:
        await connection.execute(SQL["lock_queue"], queue)
        if await connection.fetchval(SQL["others_match"], queue, server, text, servers.GONE_MS):
            raise StoreRefused(
                "another server serves this queue with another `match`; stop all servers of the queue before one "
                "starts with the new configuration"
            )
        await connection.execute(SQL["serve_matched"], queue, server, text)
        await connection.execute(SQL["set_matched"], queue, _UNDER_WAY)
    seq = rows = 0
    while seqs := await _slice(database, queue, seq, match):
        seq, rows = seqs[-1], rows + len(seqs)
    async with database.transaction() as connection:
        await connection.execute(SQL["set_matched"], queue, text)
    return rows


async def _slice(database: Database, queue: int, after: int, match: Match) -> list[int]:
    async with database.transaction() as connection:
        found = await connection.fetch(SQL["to_match"], queue, after, bounds.REMATCH_ROWS, bounds.REMATCH_CHARACTERS)
        seqs = [seq for seq, _ in found]
        if seqs:
            texts = zip(*(column_texts(parse(body), match) for _, body in found), strict=True)
            await connection.execute(SQL["set_match"], queue, seqs, *texts)
    return seqs
