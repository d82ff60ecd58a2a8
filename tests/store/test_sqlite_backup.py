"""A copy of a store: what it holds, who may read it, what keeps it from being made, and what the original is after."""
# ruff: noqa: ASYNC221, ASYNC240  Nothing else runs on the loops of these tests.

import asyncio
import errno
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import NewItem
from leaseway_server.store.sqlite import backup as backup_module
from leaseway_server.store.sqlite.backup import back_up
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY
from support.tokens import TokenFile


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a store that was stopped: the queue `a` with two items, and a token."""
    folder = tmp_path / "data"
    with TokenFile(folder) as tokens:
        tokens.add("alice", None, None, 0, 0)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "today"


def opened(path: Path) -> SqliteStore:
    return SqliteStore.open(path, lambda: NOW)


async def post(store: SqliteStore, number: int, size: int = 10) -> None:
    """So many items in a turn."""
    async with store.turn(durable=True) as turn:
        ids = await turn.new_ids(number)
        await turn.insert([create(NewItem(f'"{"x" * size}"'), item_id, seq, NOW, POLICY) for seq, item_id in ids])
        await turn.commit()


async def queue(data: Path, name: str = "a", number: int = 2) -> None:
    """A queue that was served and stopped."""
    store = opened(data / f"{name}.db")
    await post(store, number)
    await store.close()


def items_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM item").fetchone()[0])


def refusal(data: Path, target: Path) -> str:
    with pytest.raises(StoreRefused) as refused:
        back_up(data, target)
    return str(refused.value)


async def test_a_copy_is_a_store_of_its_own(data: Path, target: Path) -> None:
    await queue(data, "a", 2)
    await queue(data, "b-2", 3)
    done = back_up(data, target)
    assert [each.name for each in done.files] == ["_access.db", "a.db", "b-2.db"]
    assert [each.bytes for each in done.files] == [(target / each.name).stat().st_size for each in done.files]
    assert done.left_out == ()
    assert {path.name for path in target.iterdir()} == {each.name for each in done.files}, "no lock, no log, no rest"
    for name, number in (("a", 2), ("b-2", 3)):
        store = opened(target / f"{name}.db")
        assert store.connection.execute("SELECT count(*) FROM item").fetchone() == (number,)
        await post(store, 1)
        await store.close()
    with TokenFile(target) as tokens:
        assert [token.user for token in tokens.all()] == ["alice"]


async def test_only_its_owner_may_read_a_copy(data: Path, target: Path) -> None:
    await queue(data)
    before = os.umask(0)
    try:
        back_up(data, target)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o600}


async def test_the_original_stays_as_it_is_and_serves_again(data: Path, target: Path) -> None:
    await queue(data)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    back_up(data, target)
    after = {path.name: path.read_bytes() for path in data.iterdir()}
    assert {name: text for name, text in after.items() if name in before} == before
    await queue(data, number=1)
    assert items_in(data / "a.db") == 3


async def test_a_served_file_is_copied_with_what_is_in_its_log_and_the_log_is_left_alone(
    data: Path, target: Path
) -> None:
    store = opened(data / "a.db")
    await post(store, 500, size=5_000)
    log = (data / "a.db-wal").read_bytes()
    file = (data / "a.db").read_bytes()
    assert log.count(b"xxxxx") > file.count(b"xxxxx"), "not written back"
    back_up(data, target)
    assert items_in(target / "a.db") == 500
    assert (data / "a.db-wal").read_bytes() == log
    assert (data / "a.db").read_bytes() == file
    await post(store, 1)
    await store.close()
    assert items_in(data / "a.db") == 501


async def test_what_is_committed_meanwhile_does_not_make_it_begin_again(
    data: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may be written back while it is read; the copy is what was there when it began."""
    store = opened(data / "a.db")
    await post(store, 500, size=5_000)
    steps: list[int] = []

    class Busy(sqlite3.Connection):
        def backup(self, target: sqlite3.Connection, *, pages: int = -1, **_more: object) -> None:
            def meanwhile(_status: int, _left: int, _pages: int) -> None:
                steps.append(pages)
                self.writer.execute("INSERT INTO count VALUES (?, 0)", (f"step {len(steps)}",))
                self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

            with closing(sqlite3.connect(data / "a.db", isolation_level=None)) as self.writer:
                super().backup(target, pages=pages, progress=meanwhile)

    def reader(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, factory=Busy)

    monkeypatch.setattr(backup_module, "_reader", reader)
    (data / "_access.db").unlink()
    back_up(data, target)
    assert 2 < len(steps) < 10
    with closing(sqlite3.connect(target / "a.db")) as copy:
        assert copy.execute("SELECT count(*) FROM count WHERE status LIKE 'step%'").fetchone() == (0,)
    await store.close()


async def test_other_files_are_left_out_and_told(data: Path, target: Path) -> None:
    await queue(data)
    (data / "notes.db").write_text("no database at all, but long enough to be taken for one" * 100)
    (data / "empty.db").touch()
    (data / "readme.txt").touch()
    with closing(sqlite3.connect(data / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    done = back_up(data, target)
    assert [each.name for each in done.files] == ["_access.db", "a.db"]
    assert done.left_out == ("empty.db", "notes.db", "other.db")


def test_a_folder_without_a_store_is_refused(tmp_path: Path, target: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert refusal(folder, target) == f"there is no store of Leaseway in {folder}"
    assert not target.exists()


async def test_a_target_that_holds_something_is_refused_and_stays(data: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty; a backup needs a folder of its own"):
        back_up(data, target)
    assert [path.read_text() for path in target.iterdir()] == ["mine"]
    for within in (target / "mine", target / "mine" / "more"):
        told = refusal(data, within)
        assert told.startswith(f"a backup cannot be made in {within}: ")
        assert "Not a directory" in told


async def test_a_target_that_cannot_be_made_is_what_is_told(data: Path) -> None:
    target = Path("/proc/x")  # Where nobody can make a folder, not even root.
    assert refusal(data, target).startswith(f"a backup cannot be made in {target}: ")


async def test_a_copy_that_fails_leaves_nothing(data: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the last file; on a folder that was there, and on one that was not."""
    await queue(data)
    sync = backup_module._sync

    def no_space(path: Path) -> None:
        if path.name == "a.db.part":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(path)

    monkeypatch.setattr(backup_module, "_sync", no_space)
    assert refusal(data, target) == f"{data / 'a.db'} cannot be copied: [Errno 28] No space left on device"
    assert not target.exists()
    target.mkdir()
    refusal(data, target)
    assert list(target.iterdir()) == []


def test_an_interrupted_copy_leaves_nothing(data: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle, as Ctrl-C does it; without an event loop, which would hear it instead."""
    asyncio.run(queue(data, number=200))
    steps = count(1)

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is backup_module._listen.__code__ and next(steps) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(backup_module, "STEP_PAGES", 1)
    sys.setprofile(profile)
    try:
        with pytest.raises(KeyboardInterrupt):
            back_up(data, target)
    finally:
        sys.setprofile(None)
    assert next(steps) == 4
    assert not target.exists()


async def test_a_damaged_file_is_no_backup(data: Path, target: Path) -> None:
    await queue(data, number=50)
    with closing(sqlite3.connect(data / "a.db")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'item'").fetchone()
    with (data / "a.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 100)
    assert refusal(data, target).startswith(f"{data / 'a.db'} is damaged (")
    with (data / "a.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 100)
    assert refusal(data, target) == f"{data / 'a.db'} cannot be copied: database disk image is malformed"
    assert not target.exists()


async def test_tokens_that_are_being_written_for_too_long(
    data: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "PATIENCE_SECONDS", 0.01)
    with closing(sqlite3.connect(data / "_access.db", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert refusal(data, target) == f"{data} cannot be copied: database is locked"
        writer.execute("ROLLBACK")
    back_up(data, target)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from leaseway_server.store.sqlite.store import SqliteStore
store = SqliteStore.open(Path(sys.argv[1]), lambda: 0)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_what_a_kill_left_is_not_touched(data: Path, target: Path) -> None:
    """The next start has to see it as it is: to open it would make the log's index anew."""
    command = [sys.executable, "-c", KILLED, str(data / "a.db")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    assert refusal(data, target).startswith(f"{data / 'a.db'} was not stopped cleanly, and nobody serves it; start")
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    store = opened(data / "a.db")
    back_up(data, target)
    await store.close()
