"""Where the data is: a folder, or a database. Its text is for people; a password is not in it.

Nothing is opened here. What a configuration may say of it is read in `config/values.py`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from leaseway_server.store.postgres.address import Address


@dataclass(frozen=True, slots=True)
class SqliteFolder:
    """A folder of SQLite files, on a local disk."""

    folder: Path

    def __str__(self) -> str:
        return f"sqlite:{self.folder}"


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A database. `listen_url` leads to the same one where `url` cannot listen, such as through PgBouncer; "": none."""

    url: str = field(repr=False)
    listen_url: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"postgresql://{Address(self.url)}"


Place: TypeAlias = SqliteFolder | PostgresUrl
