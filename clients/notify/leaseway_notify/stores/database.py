"""What the verbs of the store need of a database: to do a piece of work in a transaction. SQLite and PostgreSQL do.

A piece of work awaits nothing but its session, and may be done again where it met another one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from leaseway_notify.stores.base import Connection

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]


class Session(Protocol):
    """A transaction that is under way. Statements go by their names in `queries.sql`."""

    async def rows(self, name: str, *arguments: Any) -> list[Row]:
        """What a statement gives."""

    async def run(self, name: str, *arguments: Any) -> int:
        """Runs a statement that gives nothing, and says how many rows it wrote."""

    async def run_many(self, name: str, arguments: Sequence[Sequence[Any]]) -> None:
        """Runs a statement with each of these."""


Work: TypeAlias = Callable[[Session], Awaitable[T]]


class Database(Protocol):
    """A database with our tables."""

    async def do(self, work: Work[T], within: Connection = None) -> T:
        """Does it in a transaction, which is committed at its end unless that is an exception. Raises `StoreAway`.

        `within`: in the transaction that this connection of the caller is in, whose errors pass as they are.
        """

    async def look(self, work: Work[T]) -> T:
        """The same for work that writes nothing."""

    async def close(self) -> None:
        """Lets go of it."""


class Verbs:
    """Some verbs of the store, over a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
