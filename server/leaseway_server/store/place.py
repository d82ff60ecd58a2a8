"""Where the data is: a folder, or a database. What may be written of it is its text; a password is not.

Nothing is opened here. What a configuration may say of it is read in `config/values.py`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

_PORT: Final = "(?:[0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST: Final = rf"(?:[A-Za-z0-9._%-]*|\[[0-9A-Fa-f:.]+\])(?::{_PORT})?"
POSTGRES_URL: Final = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^\s\0:@/?#]*)(?::[^\s\0@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<database>/[^\s\0@/?#]*)?"
    r"(?:\?[^\s\0@#]*)?"
)
"""A URL as libpq takes it. What is misread of a password that is not encoded leaves an `@` where there may be none."""


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
        found = POSTGRES_URL.fullmatch(self.url)
        assert found is not None
        user = f"{found['user']}@" if found["user"] else ""
        return f"postgresql://{user}{found['hosts']}{found['database'] or ''}"


Place: TypeAlias = SqliteFolder | PostgresUrl
