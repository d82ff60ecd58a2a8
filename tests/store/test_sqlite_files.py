"""The files of the SQLite store: who may open them, what is checked and migrated, and what a fault of them becomes."""
# ruff: noqa: ASYNC220, ASYNC221, ASYNC240  Nothing else runs on the loops of these tests.

import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreError, StoreLost, StoreRefused
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import NewItem
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.queries import load_migrations
from leaseway_server.store.sqlite import files
from leaseway_server.store.sqlite.files import APPLICATION_ID, PACKAGE, check_pages, connect, migrate, split
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY

NEWEST = load_migrations(PACKAGE)[-1][0]


@pytest.fixture(autouse=True)
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of a page: its size is tried elsewhere."""
    monkeypatch.setattr(files, "WAL_BYTES", 4096)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def opened(path: Path) -> SqliteStore:
    return SqliteStore.open(path, lambda: NOW)


async def post(store: SqliteStore, number: int = 1) -> list[str]:
    """Posts so many items of 1 kB in a turn; gives their ids."""
    async with store.turn(durable=True) as turn:
        ids = await turn.new_ids(number)
        body = '"' + "x" * 1_000 + '"'
        await turn.insert([create(NewItem(body), item_id, seq, NOW, POLICY) for seq, item_id in ids])
        await turn.commit()
    return [item_id for _, item_id in ids]


async def count_of(path: Path) -> int:
    """How many items the file holds, as a store sees it."""
    store = opened(path)
    (number,) = store.connection.execute("SELECT count(*) FROM item").fetchone()
    await store.close()
    return int(number)


def version_of(path: Path) -> tuple[int, int]:
    """(application, version) of the file."""
    connection = sqlite3.connect(path)
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    connection.close()
    return application, version


# ── One server a file ───────────────────────────────────────────────────────────────────────────────────────────

SECOND = """
import sys
from pathlib import Path
from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.sqlite.store import SqliteStore
try:
    SqliteStore.open(Path(sys.argv[1]), lambda: 0)
except StoreRefused as refused:
    print(refused)
"""


async def test_a_second_server_on_the_file_is_refused_and_told_who_has_it(path: Path) -> None:
    store = opened(path)
    said = subprocess.run([sys.executable, "-c", SECOND, path], capture_output=True, text=True, timeout=30, check=True)
    assert said.stdout == (
        f"{path} is served by another process (id {os.getpid()}); "
        "stop that one, or give this server a folder of its own\n"
    )
    with pytest.raises(StoreRefused, match="is served by another process"):
        opened(path)
    await post(store)
    await store.close()
    assert await count_of(path) == 1


HOLD = SECOND + "print('held', flush=True); sys.stdin.read()"


async def test_the_lock_of_a_killed_server_does_not_stand_in_the_way(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(StoreRefused, match=f"id {first.pid}"):
            opened(path)
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert await count_of(path) == 0


async def test_an_open_that_failed_lets_go_of_the_lock(path: Path) -> None:
    path.write_text("this is no database at all, but it is long enough to be looked at as one" * 20)
    for _ in range(2):
        with pytest.raises(StoreRefused, match="cannot be opened: file is not a database"):
            opened(path)
    path.unlink()
    assert await count_of(path) == 0


# ── Whose file ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_file_is_marked_as_ours(path: Path) -> None:
    await opened(path).close()
    assert version_of(path) == (APPLICATION_ID, NEWEST)


async def test_a_file_of_a_newer_server_is_refused_and_left_alone(path: Path) -> None:
    await opened(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match=rf"newer Leaseway \(version {NEWEST + 1} of the file; .* knows {NEWEST}\)"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mark", ["CREATE TABLE photos (id)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
def test_a_file_of_others_is_refused_and_left_alone(path: Path, mark: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(mark)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="but not one of Leaseway's"):
        opened(path)
    assert path.read_bytes() == before


# ── Migrations ──────────────────────────────────────────────────────────────────────────────────────────────────

NEXT = """
-- A step with a semicolon; in a comment, and one in a text.
CREATE TABLE more (note TEXT DEFAULT 'one; two');
INSERT INTO more (note) VALUES ('three;
four');
"""


def steps(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Adds scripts to the migrations."""
    scripts = [*load_migrations(PACKAGE), *enumerate(more, NEWEST + 1)]
    monkeypatch.setattr(files, "load_migrations", lambda _package: scripts)


async def test_a_file_is_brought_to_the_newest_version_and_keeps_its_items(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(path)
    await post(store)
    await store.close()
    steps(monkeypatch, NEXT, "DROP TABLE more;\nCREATE TABLE last (id);")
    store = opened(path)
    tables = {name for (name,) in store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"item", "body", "result", "attempt", "count", "state", "last"}
    await store.close()
    assert version_of(path) == (APPLICATION_ID, NEWEST + 2)
    assert await count_of(path) == 1


async def test_keys_that_were_held_by_an_older_file_are_held_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its `visibility` was: version 3 had a table of them, which said the poster or none."""
    newer = opened(path.with_name("newer.db"))
    waits, ended = await post(newer, 2)
    await newer.close()
    with monkeypatch.context() as older, closing(sqlite3.connect(path, isolation_level=None)) as file:
        older.setattr(files, "load_migrations", lambda _package: load_migrations(PACKAGE)[:3])
        migrate(file, 0)
        file.execute("ATTACH ? AS newer", (str(path.with_name("newer.db")),))
        for table, columns in (
            ("item", ", ".join(COLUMNS)),
            ("body", "*"),
            ("state", "id_key, next_seq, epoch, 0, '[]'"),
        ):
            into = f"item ({columns})" if table == "item" else table
            file.execute(f"INSERT INTO {into} SELECT {columns} FROM newer.{table}")  # noqa: S608
        last = "seq = (SELECT max(seq) FROM item)"
        file.execute("UPDATE item SET key = 'k', posted_by = 'ann', held = 1")
        file.execute(f"UPDATE item SET status = 'cancelled', finished_at = posted_at WHERE {last}")  # noqa: S608
        poster_and_end = f"iif({last}, 'ann', ''), key, seq, finished_at"
        file.execute(f"INSERT INTO held_key SELECT {poster_and_end} FROM item")  # noqa: S608
    store = opened(path)
    async with store.turn(durable=False) as turn:
        assert [item.id for item in await turn.key_holders([("ann", "k")])] == [waits, ended]
        assert [item.id for item in await turn.past_keys(NOW, 9)] == [ended]
    await store.close()


async def test_a_step_that_fails_leaves_the_version_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(path)
    await post(store)
    await store.close()
    with monkeypatch.context() as broken:
        steps(broken, NEXT, "CREATE TABLE last (id);\nINSERT INTO nowhere VALUES (1);")
        with pytest.raises(StoreRefused, match="no such table: nowhere"):
            opened(path)
    assert version_of(path) == (APPLICATION_ID, NEWEST + 1)
    steps(monkeypatch, NEXT, "CREATE TABLE last (id);")
    assert await count_of(path) == 1
    assert version_of(path) == (APPLICATION_ID, NEWEST + 2)


@pytest.mark.parametrize("statements", range(len(split(load_migrations(PACKAGE)[0][1])) + 3))
async def test_a_first_start_that_was_killed_half_way_starts_again(path: Path, tmp_path: Path, statements: int) -> None:
    """The files as they stand after so many statements of the first migration, its number and its commit included."""
    first = sqlite3.connect(path, isolation_level=None)
    first.execute("PRAGMA journal_mode = WAL")
    done = 0

    def kill(sql: str) -> None:
        nonlocal done
        if sql.strip().startswith(("CREATE", "PRAGMA", "COMMIT", "--")):
            done += 1
            if done == statements + 1:
                for file in tmp_path.glob("queue.db*"):
                    shutil.copy(file, file.with_name("killed" + file.name.removeprefix("queue")))

    first.set_trace_callback(kill)
    migrate(first, 0)
    first.close()
    assert done > statements
    assert await count_of(tmp_path / "killed.db") == 0
    assert version_of(tmp_path / "killed.db") == (APPLICATION_ID, NEWEST)


def test_a_script_is_split_at_its_statements() -> None:
    assert [statement.strip().splitlines()[-1] for statement in split(NEXT)] == [
        "CREATE TABLE more (note TEXT DEFAULT 'one; two');",
        "four');",
    ]


# ── After a kill ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_committed_is_found_after_a_kill_and_what_was_not_is_gone(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    await post(store, 3)
    async with store.turn(durable=True) as turn:
        ids = await turn.new_ids(1)
        await turn.insert([create(NewItem("1"), item_id, seq, NOW, POLICY) for seq, item_id in ids])
        killed = tmp_path / "killed" / "queue.db"
        killed.parent.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{killed}{ending}")
    await store.close()
    assert await count_of(killed) == 3


async def test_a_torn_log_costs_no_more_than_its_torn_end(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    for _ in range(3):
        await post(store)
    sizes = []
    for cut in (1, 4096, 10_000):
        torn = tmp_path / str(cut) / "queue.db"
        torn.parent.mkdir()
        shutil.copy(path, torn)
        log = path.with_name("queue.db-wal").read_bytes()
        torn.with_name("queue.db-wal").write_bytes(log[:-cut])
        sizes.append(await count_of(torn))
    await store.close()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 2, "the last commit is torn"


# ── Damage ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_damaged_file_is_refused_by_the_quick_check(path: Path) -> None:
    store = opened(path)
    await post(store, 200)
    await store.close()
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    for page in range(pages // 2, pages, 4):  # Not where the tables are described: SQLite itself refuses that at once.
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(StoreRefused, match=r"queue\.db is damaged \(.+\); restore a backup"):
        opened(path)


async def test_a_file_that_was_cut_is_refused(path: Path) -> None:
    store = opened(path)
    await post(store, 200)
    await store.close()
    os.truncate(path, 5 * 4096)
    with pytest.raises(StoreRefused, match=r"queue\.db"):
        opened(path)


async def test_a_large_file_is_looked_at_for_a_bounded_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(path)
    await post(store, 200)
    await store.close()
    monkeypatch.setattr(files, "CHECK_SECONDS", -1.0)
    monkeypatch.setattr(files, "_CHECK_STEPS", 10)
    assert await count_of(path) == 200


def test_a_check_that_cannot_be_made_is_no_sound_file(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (id)")
    other.execute("BEGIN EXCLUSIVE")
    connection = sqlite3.connect(path, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        check_pages(connection, path)
    connection.close()
    other.close()


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"queue\.db cannot be opened: No such file"):
        connect(tmp_path / "nowhere" / "queue.db")


# ── Faults of the disk ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_lacks_what_a_start_needs_is_refused(path: Path) -> None:
    await opened(path).close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE state")
    connection.close()
    for _ in range(2):
        with pytest.raises(StoreRefused, match="cannot be opened: no such table: state"):
            opened(path)


@contextmanager
def no_file_grows_past(limit: int) -> Iterator[None]:
    """Writes behind `limit` bytes of any file fail with an I/O error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("thread", [False, True])
async def test_a_write_that_fails_loses_the_store(path: Path, thread: bool) -> None:
    store = opened(path)
    await post(store)
    store._commit_seconds = float(thread)
    size = path.with_name("queue.db-wal").stat().st_size
    with no_file_grows_past(size), pytest.raises(StoreLost, match="I/O error"):
        await post(store)
    await store.close()
    assert await count_of(path) == 1, "the file is sound, and holds what was answered"


async def test_a_log_that_cannot_be_written_back_loses_the_store(path: Path) -> None:
    store = opened(path)
    await post(store, 300)
    size = path.stat().st_size
    with no_file_grows_past(size), pytest.raises(StoreLost, match="I/O error"):
        await store.maintain()
    await store.close()
    assert await count_of(path) == 300


async def test_a_file_that_is_cut_under_the_server_loses_the_store(path: Path) -> None:
    store = opened(path)
    ids = await post(store, 300)
    await store.close()
    store = opened(path)
    store.connection.execute("PRAGMA shrink_memory")  # Else it serves from its cache.
    os.truncate(path, 8 * 4096)
    with pytest.raises(StoreLost):
        async with store.turn(durable=True) as turn:
            await turn.load(ids)
    await store.close()


@pytest.mark.parametrize("limit", [0, 100, 4096])
async def test_a_start_without_space_is_refused_with_the_reason(path: Path, limit: int) -> None:
    """The lock, the log, or its index cannot be written."""
    await opened(path).close()
    with no_file_grows_past(limit), pytest.raises((StoreError, OSError)):
        opened(path)
    assert await count_of(path) == 0


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


FILES = ("queue.db", "queue.db-wal", "queue.db-shm", "queue.lock")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Others may read whatever is made without saying otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_nobody_else_reads_what_a_store_makes(tmp_path: Path) -> None:
    store = opened(tmp_path / "data" / "queue.db")
    await post(store)
    assert modes(tmp_path / "data") == dict.fromkeys(FILES, 0o600)
    assert modes(tmp_path) == {"data": 0o700}
    await store.close()


@pytest.mark.usefixtures("open_umask")
async def test_nobody_else_reads_a_store_any_more_that_was_readable(path: Path) -> None:
    killed = path.parent / "killed.db"
    store = opened(path)
    await post(store)
    for file in list(path.parent.iterdir()):  # As a kill leaves them, and an older version made them.
        left = shutil.copy(file, path.parent / file.name.replace(path.stem, killed.stem))
        Path(left).chmod(0o644)
    await store.close()
    path.parent.chmod(0o755)
    store = opened(killed)
    assert set(modes(path.parent).values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755, "a folder that was there is its owner's business"
    await store.close()
