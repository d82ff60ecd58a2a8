"""The server's commands where the store is a database: they find it, say what hinders them, and never its password."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import click
import pytest
from click.testing import CliRunner, Result

from leaseway_server import stores
from leaseway_server.commands import backup, check, token
from leaseway_server.config import load_config
from leaseway_server.store.postgres.database import Database
from support.matrix import NONE, Caller, Line
from support.postgres import OwnPostgres, Postgres, fresh_database, one_version_on
from support.postgres_away import away, cut
from support.process import server_process
from support.server import open_queue

USER: Final = "leaseway_canary"
CANARY: Final = "Zx9-canary/that:sings@0"
ENCODED: Final = "Zx9-canary%2Fthat%3Asings%400"
PARTS: Final = ("canary/", "canary%2F", "sings")


def run(words: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, capture_output=True, check=False)


class Desk:
    """A folder with a configuration whose store is the database, which this user reaches by its password alone."""

    def __init__(self, folder: Path, postgres: Postgres, url: str) -> None:
        self.folder = folder
        self.postgres = postgres
        self.name = url.rpartition("/")[2]
        self.host = postgres.url.rpartition("@")[2].partition("/")[0]
        self.shown = f"{USER}@{self.host}/{self.name}"
        self.write(self.url())

    def url(self, password: str = ENCODED, name: str = "", host: str = "") -> str:
        who = f"{USER}:{password}" if password else USER
        return f"postgresql://{who}@{host or self.host}/{name or self.name}"

    def write(self, url: str, *more: str) -> None:
        lines = "".join(f"{line}\n" for line in more)
        (self.folder / "leaseway.toml").write_text(f'[server]\nstore = "{url}"\n{lines}[queues.demo]\n')

    async def call(self, command: click.Command, *words: str) -> Result:
        """What the command says and how it ends; the password is nowhere."""
        result = await asyncio.to_thread(CliRunner().invoke, command, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert not [part for part in PARTS if part in result.output]
        return result

    async def succeeds(self, command: click.Command, *words: str) -> None:
        result = await self.call(command, *words)
        assert result.exit_code == 0, result.output

    async def fails(self, command: click.Command, *words: str) -> str:
        result = await self.call(command, *words)
        assert result.exit_code == 1
        return result.stderr


@pytest.fixture
async def desk(tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("LEASEWAY_", "PG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    if not isinstance(postgres, OwnPostgres):
        pytest.skip("only of its own PostgreSQL is it said who needs a password")
    async with fresh_database(postgres) as url:
        made = Desk(tmp_path, postgres, url)
        await postgres.run(f"DROP ROLE IF EXISTS {USER}", f"CREATE ROLE {USER} LOGIN PASSWORD '{CANARY}'")
        await postgres.run(f"GRANT CREATE ON DATABASE {made.name} TO {USER}")
        await postgres.run("DROP SCHEMA leaseway CASCADE", database=made.name)
        postgres.require_password(USER)
        async with await Database.open(made.url()):
            yield made
        await postgres.run(f"REASSIGN OWNED BY {USER} TO postgres", f"DROP OWNED BY {USER}", database=made.name)
        await postgres.run(f"DROP ROLE {USER}")


# ── What they do ──


async def test_tokens_are_made_listed_and_revoked_in_the_database(desk: Desk) -> None:
    secret = (await desk.call(token, "new", "alice", "--right", "work")).stdout.strip()
    listed = json.loads((await desk.call(token, "list", "--json")).stdout)
    assert [(each["user"], each["rights"], each["lastUsedAt"]) for each in listed] == [("alice", ["work"], None)]
    connection = await asyncpg.connect(desk.postgres.url_of(desk.name))
    assert secret not in str(await connection.fetch("SELECT * FROM leaseway.token"))
    await connection.close()
    assert (await desk.call(token, "revoke", listed[0]["id"])).exit_code == 0
    assert await desk.fails(token, "revoke", listed[0]["id"]) == (
        f"Error: no token in postgresql://{desk.shown} has this id; leaseway token list shows them.\n"
    )
    assert (await desk.call(token, "list")).stderr == f"There are no tokens in postgresql://{desk.shown}.\n"


async def test_check_says_what_it_finds(desk: Desk) -> None:
    found = await desk.call(check)
    assert found.exit_code == 0
    head, listens, *_, last = found.stdout.splitlines()
    assert (head, listens) == (
        "leaseway.toml is fine.",
        f"Listens on 127.0.0.1 port 8787, data in postgresql://{desk.shown}.",
    )
    assert last.startswith(f"The database postgresql://{desk.shown} is PostgreSQL ")
    assert last.endswith(", with a store of Leaseway. Queues: none. Servers at work: 0.")
    facts = json.loads((await desk.call(check, "--json")).stdout)
    assert (facts["faults"], facts["store"]) == ([], f"postgresql://{desk.shown}")
    assert {name: facts["found"][name] for name in ("pooled", "queues", "servers")} == {
        "pooled": False,
        "queues": [],
        "servers": 0,
    }


async def test_what_only_reads_makes_no_store(desk: Desk) -> None:
    await desk.postgres.run("DROP SCHEMA leaseway CASCADE", database=desk.name)
    assert await desk.fails(token, "list") == (
        f"Error: there is no store of Leaseway in the database {desk.shown}; a start of the server makes one\n"
    )
    found = await desk.call(check)
    assert found.exit_code == 0
    assert found.stdout.endswith(", with no store of Leaseway yet: the first start makes one.\n")
    connection = await asyncpg.connect(desk.postgres.url_of(desk.name))
    assert not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'leaseway'")
    await connection.close()


async def test_tables_of_an_older_version_are_brought_up_to_date_by_what_makes_something(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by what only reads."""
    one_version_on(monkeypatch)
    assert "are an older Leaseway's, which a start of the server brings up to date" in await desk.fails(token, "list")
    assert "(an older Leaseway's: the next start brings it up to date)" in (await desk.call(check)).stdout
    await desk.succeeds(token, "new", "bob")
    await desk.succeeds(token, "list")


async def test_a_backup_is_for_the_databases_own_tools(desk: Desk) -> None:
    """What it says to do is done, by those that stand beside the tests' PostgreSQL."""
    assert isinstance(desk.postgres, OwnPostgres)
    tools = desk.postgres._binaries
    if not (tools / "pg_dump").exists():
        pytest.skip("there is no pg_dump here")
    await desk.call(token, "new", "alice")
    said = await desk.fails(backup, "copy")
    assert said.startswith("Error: a store in PostgreSQL is copied by its own tools, also while servers run.")
    lines = [line.replace("=URL", f"={desk.url()}") for line in said.splitlines() if "=URL" in line]
    for name, *words in map(shlex.split, lines):
        ran = await asyncio.to_thread(run, [str(tools / name), *words])
        assert ran.returncode == 0, ran.stderr
        await desk.call(token, "new", "bob")
    listed = json.loads((await desk.call(token, "list", "--json")).stdout)
    assert [each["user"] for each in listed] == ["alice", "bob"], "that of between the two is gone"


# ── Where the password is ──


async def test_the_password_may_stand_outside_of_the_configuration(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(desk.url(password=""))
    assert "cannot be reached: " in await desk.fails(token, "list")
    with monkeypatch.context() as outside:
        outside.setenv("PGPASSWORD", CANARY)
        await desk.succeeds(token, "list")
    with monkeypatch.context() as outside:
        outside.setenv("LEASEWAY_STORE", desk.url())
        await desk.succeeds(token, "list")
    file = desk.folder / "passwords"
    file.write_text(f"*:*:*:{USER}:{CANARY}\n")
    file.chmod(0o600)
    with monkeypatch.context() as outside:
        outside.setenv("PGPASSFILE", str(file))
        await desk.succeeds(token, "list")
    file.rename(desk.folder / ".pgpass")
    await desk.succeeds(token, "list")
    desk.write(f"{desk.url(password='')}?password={ENCODED}")
    await desk.succeeds(token, "list")


# ── What hinders them ──

WRONG: Final[dict[str, tuple[dict[str, str], str]]] = {
    "password": (
        {"password": "canary%2Fwrong-sings"},
        f'password authentication failed for user "{USER}" (it is given',
    ),
    "database": ({"name": "nowhere"}, 'database "nowhere" does not exist; make it with CREATE DATABASE'),
    "port": ({"host": "127.0.0.1:1"}, "cannot be reached: "),
    "host": ({"host": "nowhere.invalid"}, "cannot be reached: "),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_a_database_that_cannot_be_used_is_told(desk: Desk, kind: str) -> None:
    change, said = WRONG[kind]
    desk.write(desk.url(**change))
    for command, *words in ((token, "list"), (token, "new", "bob"), (check,)):
        error = await desk.fails(command, *words)
        assert error.startswith(f"Error: the database {USER}@")
        assert said in error
        assert len(error.splitlines()) == 1
    checked = await desk.call(check, "--json")
    (fault,) = json.loads(checked.stdout)["faults"]
    assert (fault["file"], fault["key"], checked.exit_code) == ("leaseway.toml", "server.store", 1)
    assert said in fault["message"]


async def test_listen_url_must_lead_to_the_same_database(desk: Desk) -> None:
    desk.write(desk.url(), f'listen_url = "{desk.url()}?sslmode=prefer"')
    assert (await desk.call(check)).exit_code == 0
    desk.write(desk.url(), f'listen_url = "{desk.url(name="postgres")}"')
    assert await desk.fails(check) == (
        f"Error: listen_url leads to another database than store does ({USER}@{desk.host}/postgres)\n"
    )
    desk.write(desk.url(), f'listen_url = "{desk.url(password="wrong-sings")}"')
    assert "password authentication failed" in await desk.fails(check)


async def test_without_its_driver_it_says_what_to_install(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "find_spec", lambda _name: None)
    for command, *words in ((token, "list"), (backup, "x"), (check,)):
        assert await desk.fails(command, *words) == (
            "Error: a store in PostgreSQL needs asyncpg, which is not installed: pip install 'leaseway[postgres]'\n"
        )


def test_a_store_in_a_folder_needs_no_driver() -> None:
    code = "import sys, leaseway_server.__main__; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_server_does_not_start_on_it_and_says_so_in_a_line(desk: Desk) -> None:
    desk.write(desk.url(password="canary%2Fwrong-sings"))
    command = [sys.executable, "-m", "leaseway_server", "--listen", "127.0.0.1:0", "--log", "json"]
    ran = await asyncio.to_thread(run, command)
    (line,) = ran.stderr.splitlines()
    said: dict[str, Any] = json.loads(line)
    assert (ran.returncode, ran.stdout, said["event"], said["level"]) == (1, b"", "server.refused", "critical")
    assert "password authentication failed" in said["text"]
    assert b"sings" not in line


async def test_the_password_is_in_no_text_of_the_configuration(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(desk.url(), f'listen_url = "{desk.url()}"')
    config = load_config(None, environ={"LEASEWAY_STORE": desk.url()}, store=desk.url())
    assert config.server.store == load_config(None).server.store
    for text in (repr(config), str(config), repr(config.server.store), str(config.server.store), repr(config.outside)):
        assert not [part for part in PARTS if part in text]


async def test_a_server_tells_its_password_to_nobody(desk: Desk) -> None:
    """Neither while it works, nor while its database is cut off, away, and back."""
    paths = ("/_ready", "/_metrics", "/demo", f"/demo/items/{NONE}", "/demo/rates")
    heard = b""
    async with server_process(desk.folder, open_queue(), store=desk.url()) as server, Line(server.base_url) as line:

        async def ask() -> None:
            nonlocal heard
            heard += (await line.ask("POST", "/demo/items", Caller(), {"item": 1})).body
            for path in paths:
                heard += (await line.ask("GET", path)).body

        await ask()
        await cut(desk.postgres, desk.name)
        await ask()
        async with away(desk.postgres, desk.name):
            await ask()
        await ask()
        assert (await server.stop()).status == 0
    assert desk.shown.encode() in server.output
    assert b"leaseway_items" in heard
    for part in PARTS:
        assert part.encode() not in server.output + heard
