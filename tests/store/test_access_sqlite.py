"""The file of tokens: several processes share it, another one may take its place, and one of others is refused.

The rules that hold in whatever store are in `test_access.py`.
"""

import sqlite3
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leaseway_server.core.access import Token, hash_token
from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.access import SqliteAccess, sqlite
from leaseway_server.store.queries import load_migrations
from support.tokens import TokenFile

NOW = 1_751_500_000_000


@pytest.fixture
async def tokens(tmp_path: Path) -> AsyncIterator[SqliteAccess]:
    async with SqliteAccess.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def writer(tokens: SqliteAccess) -> Iterator[sqlite3.Connection]:
    """A connection of somebody else."""
    connection = sqlite3.connect(tokens.path, isolation_level=None)
    yield connection
    connection.close()


async def add(tokens: SqliteAccess, user: str = "alice", expires_at: int = 0, now: int = NOW) -> tuple[Token, str]:
    return await tokens.add(user, None, None, expires_at, now)


@pytest.mark.protocol("2.6")
async def test_the_secret_is_nowhere_in_the_folder(tokens: SqliteAccess) -> None:
    _, secret = await add(tokens)
    written = b"".join(path.read_bytes() for path in tokens.path.parent.iterdir())
    assert hash_token(secret).encode() in written
    assert secret.removeprefix("lw_").encode() not in written


async def test_the_file_is_its_owners_alone(tokens: SqliteAccess) -> None:
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    tokens.path.chmod(0o644)
    async with SqliteAccess.open(tokens.path.parent) as again:
        assert stat.S_IMODE(again.path.stat().st_mode) == 0o600


async def test_while_another_process_writes_what_was_read_stays(
    tokens: SqliteAccess, writer: sqlite3.Connection
) -> None:
    token, secret = await add(tokens)
    assert await tokens.find(secret, NOW) == token
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("DELETE FROM token")
    assert not await tokens.refresh()
    assert await tokens.find(secret, NOW) == token
    assert await tokens.find("lw_unknown", NOW) is None
    writer.execute("COMMIT")
    assert await tokens.refresh()
    assert await tokens.find(secret, NOW) is None


async def test_a_refresh_says_what_is_wrong_with_the_file(tokens: SqliteAccess, writer: sqlite3.Connection) -> None:
    writer.execute("DROP TABLE token")
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: no such table"):
        await tokens.refresh()


# ── The file itself is another one, or gone ──


@pytest.fixture
async def backup(tmp_path: Path) -> SqliteAccess:
    """Another file of tokens, with one of bob's."""
    async with SqliteAccess.open(tmp_path / "backup") as opened:
        await add(opened, "bob")
    return opened


def ways_to_ask(tokens: SqliteAccess, token: Token, secret: str) -> list[Callable[[], Awaitable[object]]]:
    """All that looks at the file for somebody who comes anew."""
    return [tokens.refresh, lambda: tokens.find(secret, NOW), lambda: use_ticket(tokens, token)]


async def use_ticket(tokens: SqliteAccess, token: Token) -> Token | None:
    await tokens.issue("resize", "lw_ticket", token, NOW)
    return await tokens.redeem("resize", "lw_ticket", NOW)


async def test_another_file_at_its_place_is_what_counts(tokens: SqliteAccess, backup: SqliteAccess) -> None:
    alice, secret = await add(tokens)
    assert await tokens.find(secret, NOW) == alice
    before = tokens.source
    backup.path.replace(tokens.path)
    assert await tokens.refresh()
    assert [token.user for token in tokens.known.values()] == ["bob"]
    assert await tokens.find(secret, NOW) is None
    assert (tokens.current, tokens.source == before) == (True, False)
    assert not await tokens.refresh()
    async with SqliteAccess.open(tokens.path.parent) as other:
        carol, secret = await add(other, "carol")
    assert await tokens.find(secret, NOW) == carol, "it is followed like the one before"


async def test_without_a_file_nobody_is_found_and_who_is_inside_is_known(tokens: SqliteAccess) -> None:
    token, secret = await add(tokens)
    assert await tokens.find(secret, NOW) == token
    tokens.path.unlink()
    for ask in ways_to_ask(tokens, token, secret) * 2:
        with pytest.raises(StoreRefused, match=r"_access\.db is gone"):
            await ask()
        assert (tokens.current, tokens.by_id(token.id, NOW)) == (False, token)
    assert not tokens.path.exists(), "looking makes none"


async def test_a_file_that_comes_back_counts_as_before(tokens: SqliteAccess, tmp_path: Path) -> None:
    token, secret = await add(tokens)
    await tokens.refresh()
    tokens.path.rename(tmp_path / "aside")
    with pytest.raises(StoreRefused, match="is gone"):
        await tokens.refresh()
    (tmp_path / "aside").rename(tokens.path)
    assert await use_ticket(tokens, token) == token
    assert await tokens.find(secret, NOW) == token
    assert tokens.current


async def test_a_new_file_revokes_what_was_in_the_one_before(tokens: SqliteAccess) -> None:
    token, secret = await add(tokens)
    await tokens.refresh()
    tokens.path.unlink()
    async with SqliteAccess.open(tokens.path.parent) as new:
        other, other_secret = await add(new, "bob")
    assert await tokens.find(other_secret, NOW) == other
    assert await tokens.find(secret, NOW) is None
    assert await use_ticket(tokens, token) is None


def unreadable(path: Path) -> None:
    """What it says is that it is ours, and nothing of it can be read."""
    data = path.read_bytes()
    path.write_bytes(data[:4_096] + b"x" * (len(data) - 4_096))


USELESS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty, or an older Leaseway's"),
    "no database": (lambda path: path.write_bytes(b"x" * 4_096), "file is not a database"),
    "of others": (lambda path: foreign(path, "PRAGMA application_id = 7"), "not Leaseway's file of tokens"),
    "of a newer server": (lambda path: foreign(path, "PRAGMA user_version = 99"), "newer Leaseway"),
    "damaged": (unreadable, "malformed"),
    "locked": (lambda path: None, "database is locked"),
}


@pytest.mark.parametrize("name", USELESS)
async def test_a_file_that_cannot_be_used_is_as_none_and_not_written(
    name: str, tokens: SqliteAccess, backup: SqliteAccess
) -> None:
    """Whatever was in the one before may have been revoked."""
    spoil, fault = USELESS[name]
    token, secret = await add(tokens)
    await tokens.refresh()
    spoil(backup.path)
    left = backup.path.read_bytes()
    backup.path.replace(tokens.path)
    writer = sqlite3.connect(tokens.path, isolation_level=None)
    if name == "locked":
        writer.execute("BEGIN EXCLUSIVE")
    for ask in ways_to_ask(tokens, token, secret) * 2:
        with pytest.raises(StoreRefused, match=fault):
            await ask()
        assert (tokens.current, tokens.by_id(token.id, NOW)) == (False, token)
    writer.close()
    assert tokens.path.read_bytes() == left


async def test_a_new_file_that_becomes_locked_before_it_is_read_is_as_none(
    tokens: SqliteAccess, backup: SqliteAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await add(tokens)
    await tokens.refresh()
    backup.path.replace(tokens.path)
    writer = sqlite3.connect(tokens.path, isolation_level=None)
    check = sqlite._check

    def check_then_lock(connection: sqlite3.Connection, path: Path) -> None:
        check(connection, path)
        writer.execute("BEGIN EXCLUSIVE")

    with monkeypatch.context() as late:
        late.setattr(sqlite, "_check", check_then_lock)
        with pytest.raises(StoreRefused, match="database is locked"):
            await tokens.refresh()
        with pytest.raises(StoreRefused, match="database is locked"):
            await tokens.find(secret, NOW)
    writer.close()
    assert await tokens.find(secret, NOW) is None
    assert [token.user for token in tokens.known.values()] == ["bob"]


# ── Several processes ──


async def test_a_change_that_cannot_wait_any_longer_says_so_and_changes_nothing(
    tokens: SqliteAccess, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WRITE_PATIENCE_MS", 1)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: database is locked"):
        await add(tokens)
    writer.execute("ROLLBACK")
    assert await tokens.all() == []


async def test_a_change_that_fails_is_taken_back(tokens: SqliteAccess, writer: sqlite3.Connection) -> None:
    token, _ = await add(tokens)
    refuse = "CREATE TRIGGER no_more AFTER INSERT ON token BEGIN SELECT RAISE(FAIL, 'no more'); END"
    writer.execute(refuse)
    with pytest.raises(StoreRefused, match="no more"):
        await add(tokens)
    assert await tokens.all() == [token]
    assert await tokens.revoke(token.id)


async def test_many_may_open_and_write_at_once(tmp_path: Path) -> None:
    def one(number: int) -> str:
        with TokenFile(tmp_path / "data") as mine:
            return mine.add("alice", None, None, 0, NOW + number)[0].id

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(one, range(24)))
    with TokenFile(tmp_path / "data") as after:
        assert [token.id for token in after.all()] == made


# ── What is refused ──


def test_where_none_is_to_be_made_none_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for data in (tmp_path / "typo", tmp_path / "empty"):
        with pytest.raises(StoreRefused, match=rf"^there is no store in {data}: it has no _access\.db$"):
            SqliteAccess.open(data, make=False)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["empty"]
    with TokenFile(tmp_path / "there") as made:
        token, _ = made.add("alice", None, None, 0, NOW)
    with TokenFile(tmp_path / "there", make=False) as opened:
        assert opened.all() == [token]


def foreign(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    with TokenFile(tmp_path):
        pass
    foreign(tmp_path / "_access.db", "PRAGMA user_version = 99")
    with pytest.raises(StoreRefused, match=r"newer Leaseway \(version 99 of the file; this one knows 3\)"):
        SqliteAccess.open(tmp_path)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE guests (name)", "PRAGMA user_version = 7", "PRAGMA application_id = 7"]
)
def test_a_file_of_others_is_refused_and_left_as_it_was(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "_access.db"
    foreign(path, "PRAGMA journal_mode = WAL", statement)
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="not Leaseway's file of tokens"):
        SqliteAccess.open(tmp_path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_access.db").write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: file is not a database"):
        SqliteAccess.open(tmp_path)


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreRefused, match=r"cannot be used: .*File exists"):
        SqliteAccess.open(tmp_path / "data")


async def test_an_upgrade_that_was_cut_short_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = load_migrations("leaseway_server.store.access")
    broken = (3, "CREATE TABLE half_done (id);\nCREATE TABLE token (id);\n")
    with monkeypatch.context() as upgrade:
        upgrade.setattr(sqlite, "load_migrations", lambda _package: [*real, broken])
        with pytest.raises(StoreRefused, match="already exists"):
            SqliteAccess.open(tmp_path)
    async with SqliteAccess.open(tmp_path) as tokens:
        assert await tokens.all() == []
