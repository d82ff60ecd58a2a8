"""The numbers of items: one sequence for all queues of a database, which gives out none twice.

They begin with the clock wherever they are behind it: what a database lost, as an old copy has, or a standby that took
over, does not come again.
"""

from typing import Final

from leaseway_server.store.postgres.database import Connection
from leaseway_server.store.postgres.locks import lock_numbers
from leaseway_server.store.postgres.statements import SQL

A_MS: Final = 10
"""Bits: a database whose queues get less than 1,024 posts a ms, over its life, never meets a number that it lost."""
AHEAD: Final = 1 << 20
"""So many numbers the clock has to be ahead before they are raised."""


class Numbers:
    """Numbers for one server's posts to a queue."""

    def __init__(self) -> None:
        self.raised = False
        """Whether they are known to be up with the clock in the database that the connection leads to."""

    async def take(self, connection: Connection, count: int) -> list[int]:
        """So many that nobody has, in rising order."""
        if not self.raised:
            if await connection.fetchval(SQL["numbers_are_behind"], A_MS, AHEAD):
                await lock_numbers(connection)
                await connection.fetch(SQL["raise_numbers"], A_MS, AHEAD)
            self.raised = True
        return [seq for (seq,) in await connection.fetch(SQL["numbers"], count)]
