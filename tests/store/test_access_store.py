"""The store of tokens: secrets are kept nowhere, several processes share the file, and a file of others is refused."""

import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leaseway_server.core.access import Right, Token, hash_token
from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.access import AccessStore, store
from leaseway_server.store.queries import load_migrations

NOW = 1_751_500_000_000


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[AccessStore]:
    with AccessStore.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path, tokens: AccessStore) -> Iterator[AccessStore]:
    """The same file as another process has it."""
    with AccessStore.open(tokens.path.parent) as opened:
        yield opened


@pytest.fixture
def writer(tokens: AccessStore) -> Iterator[sqlite3.Connection]:
    """A connection of somebody else."""
    connection = sqlite3.connect(tokens.path, isolation_level=None)
    yield connection
    connection.close()


def add(tokens: AccessStore, user: str = "alice", expires_at: int = 0, now: int = NOW) -> tuple[Token, str]:
    return tokens.add(user, None, None, expires_at, now)


# ── What commands do ──


def test_a_token_is_kept_as_it_was_made(tmp_path: Path) -> None:
    with AccessStore.open(tmp_path / "data") as first:
        narrow, _ = first.add("alice", frozenset({"resize", "mail"}), frozenset({"post", "fetch"}), NOW + 5, NOW)
        wide, _ = first.add("root", None, None, 0, NOW + 1)
        nothing, _ = first.add("eve", frozenset(), frozenset(), 0, NOW + 2)
    queues, rights = frozenset({"resize", "mail"}), frozenset[Right]({"post", "fetch"})
    assert narrow == Token(narrow.id, "alice", queues, rights, NOW, NOW + 5)
    with AccessStore.open(tmp_path / "data") as second:
        assert second.all() == [narrow, wide, nothing]


def test_every_secret_and_id_is_another(tokens: AccessStore) -> None:
    made = [add(tokens) for _ in range(20)]
    assert len({token.id for token, _ in made}) == len({secret for _, secret in made}) == 20
    assert all(secret.startswith("lw_") and len(secret) == len("lw_") + 43 for _, secret in made)


@pytest.mark.protocol("2.6")
def test_the_secret_is_nowhere_in_the_folder(tokens: AccessStore) -> None:
    _, secret = add(tokens)
    written = b"".join(path.read_bytes() for path in tokens.path.parent.iterdir())
    assert hash_token(secret).encode() in written
    assert secret.removeprefix("lw_").encode() not in written


def test_the_file_is_its_owners_alone(tokens: AccessStore) -> None:
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    tokens.path.chmod(0o644)
    with AccessStore.open(tokens.path.parent) as again:
        assert stat.S_IMODE(again.path.stat().st_mode) == 0o600


def test_a_revoked_token_is_gone(tokens: AccessStore) -> None:
    (first, _), (second, _) = add(tokens), add(tokens, now=NOW + 1)
    assert tokens.revoke(first.id)
    assert tokens.all() == [second]
    assert not tokens.revoke(first.id)


# ── What the server asks ──


def test_a_token_is_found_by_its_whole_secret(tokens: AccessStore) -> None:
    token, secret = add(tokens)
    assert tokens.find(secret, NOW) == token
    for wrong in ("", secret[:-1], secret + "\n", secret.upper(), token.id, hash_token(secret)):
        assert tokens.find(wrong, NOW) is None


def test_one_that_another_process_added_is_found_at_once(tokens: AccessStore, other: AccessStore) -> None:
    assert tokens.find("lw_unknown", NOW) is None
    token, secret = add(other)
    assert tokens.find(secret, NOW) == token


def test_one_that_another_process_revoked_is_gone_after_a_refresh(tokens: AccessStore, other: AccessStore) -> None:
    token, secret = add(tokens)
    assert tokens.find(secret, NOW) == token
    assert tokens.still_valid(token.id, NOW)
    other.revoke(token.id)
    assert tokens.refresh()
    assert tokens.find(secret, NOW) is None
    assert not tokens.still_valid(token.id, NOW)


def test_one_that_was_revoked_here_is_gone_after_a_refresh_too(tokens: AccessStore) -> None:
    token, secret = add(tokens)
    tokens.refresh()
    tokens.revoke(token.id)
    assert tokens.refresh()
    assert tokens.find(secret, NOW) is None


@pytest.mark.protocol("2.3")
def test_it_ends_at_its_time(tokens: AccessStore) -> None:
    token, secret = add(tokens, expires_at=NOW + 10)
    assert tokens.find(secret, NOW + 9) == token
    assert tokens.still_valid(token.id, NOW + 9)
    assert tokens.find(secret, NOW + 10) is None
    assert not tokens.still_valid(token.id, NOW + 10)
    assert tokens.all() == [token]


def test_the_file_is_read_again_only_where_it_changed(tokens: AccessStore, other: AccessStore) -> None:
    assert tokens.refresh()
    assert not tokens.refresh()
    add(other)
    assert tokens.refresh()
    assert not tokens.refresh()


def test_while_another_process_writes_what_was_read_stays(tokens: AccessStore, writer: sqlite3.Connection) -> None:
    token, secret = add(tokens)
    assert tokens.find(secret, NOW) == token
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("DELETE FROM token")
    assert not tokens.refresh()
    assert tokens.find(secret, NOW) == token
    assert tokens.find("lw_unknown", NOW) is None
    writer.execute("COMMIT")
    assert tokens.refresh()
    assert tokens.find(secret, NOW) is None


def test_a_refresh_says_what_is_wrong_with_the_file(tokens: AccessStore, writer: sqlite3.Connection) -> None:
    writer.execute("DROP TABLE token")
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: no such table"):
        tokens.refresh()


# ── The file itself is another one, or gone ──


@pytest.fixture
def backup(tmp_path: Path) -> AccessStore:
    """Another file of tokens, with one of bob's."""
    with AccessStore.open(tmp_path / "backup") as opened:
        add(opened, "bob")
    return opened


def ways_to_ask(tokens: AccessStore, token: Token, secret: str) -> list[Callable[[], object]]:
    """All that looks at the file for somebody who comes anew."""
    return [tokens.refresh, lambda: tokens.find(secret, NOW), lambda: tokens.still_valid(token.id, NOW)]


def test_another_file_at_its_place_is_what_counts(tokens: AccessStore, backup: AccessStore) -> None:
    alice, secret = add(tokens)
    assert tokens.find(secret, NOW) == alice
    before = tokens.file
    backup.path.replace(tokens.path)
    assert tokens.refresh()
    assert [token.user for token in tokens.known.values()] == ["bob"]
    assert tokens.find(secret, NOW) is None
    assert (tokens.current, tokens.file == before) == (True, False)
    assert not tokens.refresh()
    with AccessStore.open(tokens.path.parent) as other:
        carol, secret = add(other, "carol")
    assert tokens.find(secret, NOW) == carol, "it is followed like the one before"


def test_without_a_file_nobody_is_found_and_who_is_inside_is_known(tokens: AccessStore) -> None:
    token, secret = add(tokens)
    assert tokens.find(secret, NOW) == token
    tokens.path.unlink()
    for ask in ways_to_ask(tokens, token, secret) * 2:
        with pytest.raises(StoreRefused, match=r"_access\.db is gone"):
            ask()
        assert (tokens.current, tokens.by_id(token.id, NOW)) == (False, token)
    assert not tokens.path.exists(), "looking makes none"


def test_a_file_that_comes_back_counts_as_before(tokens: AccessStore, tmp_path: Path) -> None:
    token, secret = add(tokens)
    tokens.refresh()
    tokens.path.rename(tmp_path / "aside")
    with pytest.raises(StoreRefused, match="is gone"):
        tokens.refresh()
    (tmp_path / "aside").rename(tokens.path)
    assert tokens.still_valid(token.id, NOW)
    assert tokens.find(secret, NOW) == token
    assert tokens.current


def test_a_new_file_revokes_what_was_in_the_one_before(tokens: AccessStore) -> None:
    token, secret = add(tokens)
    tokens.refresh()
    tokens.path.unlink()
    with AccessStore.open(tokens.path.parent) as new:
        other, other_secret = add(new, "bob")
    assert tokens.find(other_secret, NOW) == other
    assert tokens.find(secret, NOW) is None
    assert not tokens.still_valid(token.id, NOW)


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
def test_a_file_that_cannot_be_used_is_as_none_and_not_written(
    name: str, tokens: AccessStore, backup: AccessStore
) -> None:
    """Whatever was in the one before may have been revoked."""
    spoil, fault = USELESS[name]
    token, secret = add(tokens)
    tokens.refresh()
    spoil(backup.path)
    left = backup.path.read_bytes()
    backup.path.replace(tokens.path)
    writer = sqlite3.connect(tokens.path, isolation_level=None)
    if name == "locked":
        writer.execute("BEGIN EXCLUSIVE")
    for ask in ways_to_ask(tokens, token, secret) * 2:
        with pytest.raises(StoreRefused, match=fault):
            ask()
        assert (tokens.current, tokens.by_id(token.id, NOW)) == (False, token)
    writer.close()
    assert tokens.path.read_bytes() == left


def test_a_new_file_that_becomes_locked_before_it_is_read_is_as_none(
    tokens: AccessStore, backup: AccessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = add(tokens)
    tokens.refresh()
    backup.path.replace(tokens.path)
    writer = sqlite3.connect(tokens.path, isolation_level=None)
    check = store._check

    def check_then_lock(connection: sqlite3.Connection, path: Path) -> None:
        check(connection, path)
        writer.execute("BEGIN EXCLUSIVE")

    with monkeypatch.context() as late:
        late.setattr(store, "_check", check_then_lock)
        with pytest.raises(StoreRefused, match="database is locked"):
            tokens.refresh()
        with pytest.raises(StoreRefused, match="database is locked"):
            tokens.find(secret, NOW)
    writer.close()
    assert tokens.find(secret, NOW) is None
    assert [token.user for token in tokens.known.values()] == ["bob"]


# ── Several processes ──


def test_a_change_that_cannot_wait_any_longer_says_so_and_changes_nothing(
    tokens: AccessStore, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WRITE_PATIENCE_MS", 1)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: database is locked"):
        add(tokens)
    writer.execute("ROLLBACK")
    assert tokens.all() == []


def test_a_change_that_fails_is_taken_back(tokens: AccessStore, writer: sqlite3.Connection) -> None:
    token, _ = add(tokens)
    refuse = "CREATE TRIGGER no_more AFTER INSERT ON token BEGIN SELECT RAISE(FAIL, 'no more'); END"
    writer.execute(refuse)
    with pytest.raises(StoreRefused, match="no more"):
        add(tokens)
    assert tokens.all() == [token]
    assert tokens.revoke(token.id)


def test_many_may_open_and_write_at_once(tmp_path: Path) -> None:
    def one(number: int) -> str:
        with AccessStore.open(tmp_path / "data") as mine:
            token, _ = add(mine, now=NOW + number)
            return token.id

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(one, range(24)))
    with AccessStore.open(tmp_path / "data") as after:
        assert [token.id for token in after.all()] == made


# ── What is refused ──


def test_where_none_is_to_be_made_none_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for data in (tmp_path / "typo", tmp_path / "empty"):
        with pytest.raises(StoreRefused, match=rf"^there is no store in {data}: it has no _access\.db$"):
            AccessStore.open(data, make=False)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["empty"]
    with AccessStore.open(tmp_path / "there") as made:
        token, _ = add(made)
    with AccessStore.open(tmp_path / "there", make=False) as opened:
        assert opened.all() == [token]


def foreign(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    AccessStore.open(tmp_path).close()
    foreign(tmp_path / "_access.db", "PRAGMA user_version = 99")
    with pytest.raises(StoreRefused, match=r"newer Leaseway \(version 99 of the file; this one knows 1\)"):
        AccessStore.open(tmp_path)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE guests (name)", "PRAGMA user_version = 7", "PRAGMA application_id = 7"]
)
def test_a_file_of_others_is_refused_and_left_as_it_was(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "_access.db"
    foreign(path, "PRAGMA journal_mode = WAL", statement)
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="not Leaseway's file of tokens"):
        AccessStore.open(tmp_path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_access.db").write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(StoreRefused, match=r"_access\.db cannot be used: file is not a database"):
        AccessStore.open(tmp_path)


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreRefused, match=r"cannot be used: .*File exists"):
        AccessStore.open(tmp_path / "data")


def test_an_upgrade_that_was_cut_short_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = load_migrations("leaseway_server.store.access")
    broken = (2, "CREATE TABLE half_done (id);\nCREATE TABLE token (id);\n")
    with monkeypatch.context() as upgrade:
        upgrade.setattr(store, "load_migrations", lambda _package: [first, broken])
        with pytest.raises(StoreRefused, match="already exists"):
            AccessStore.open(tmp_path)
    with AccessStore.open(tmp_path) as tokens:
        assert tokens.all() == []


def test_what_is_known_is_another_mapping_after_each_change(tokens: AccessStore) -> None:
    tokens.refresh()
    before = tokens.known
    token, _ = add(tokens, expires_at=NOW + 5)
    tokens.refresh()
    assert (dict(before), dict(tokens.known)) == ({}, {token.id: token})
    assert tokens.by_id(token.id, NOW) == token
    assert tokens.by_id(token.id, NOW + 5) is None
    assert tokens.by_id("nobody", NOW) is None
