"""What an unclean stop left, damaged since: a start refuses or says what is lost, and says nothing where all is well.

Killed are copies of a store's files, taken while it serves.
"""

import os
import resource
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import NewItem
from leaseway_server.store.sqlite import files
from leaseway_server.store.sqlite.store import SqliteStore
from leaseway_server.store.sqlite.wal import WalIndex, beside, read_commits, read_header, read_index
from support.model import NOW, POLICY
from support.process import server_process
from support.server import open_queue

PAGE = 4096
FRAME = 24 + PAGE
POSTS = 6


@pytest.fixture(autouse=True)
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is made with room for what these tests write, and zeros behind it."""
    monkeypatch.setattr(files, "WAL_BYTES", 32 + FRAME * 200)


def opened(path: Path) -> SqliteStore:
    return SqliteStore.open(path, lambda: NOW)


async def post(store: SqliteStore, number: int = 1) -> None:
    """Posts so many items of 1 kB in a turn."""
    async with store.turn(durable=True) as turn:
        body = '"' + "x" * 1_000 + '"'
        await turn.insert(
            [create(NewItem(body), item_id, seq, NOW, POLICY) for seq, item_id in await turn.new_ids(number)]
        )
        await turn.commit()


def killed(path: Path, name: str = "killed") -> Path:
    """The files as a kill leaves them now."""
    shutil.copytree(path.parent, path.parent.parent / name)
    return path.parent.parent / name / path.name


@pytest.fixture
async def left(tmp_path: Path) -> Path:
    """A store that was killed after `POSTS` posts, each a commit of its own."""
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    for _ in range(POSTS):
        await post(store)
    copy = killed(path)
    await store.close()
    return copy


async def start(path: Path) -> tuple[str, int]:
    """What a start says to be lost, and how many items there are then. It must say so once only."""
    store = opened(path)
    said = store.salvaged
    (found,) = store.connection.execute("SELECT count(*) FROM item").fetchone()
    await store.close()
    again = opened(path)
    assert again.salvaged == ""
    await again.close()
    return said, found


def commits(path: Path) -> list[int]:
    """The frames of the log that end a transaction."""
    header = read_header(beside(path, "-wal"))
    assert header is not None
    return read_commits(beside(path, "-wal"), *header)


def flip(path: Path, place: int) -> None:
    """Turns one bit of the log."""
    wal = beside(path, "-wal")
    data = bytearray(wal.read_bytes())
    data[place] ^= 1
    wal.write_bytes(data)


def place_of(frame: int) -> int:
    """Where a frame, counted from 1, begins in the log."""
    return 32 + (frame - 1) * FRAME


# ── All is well ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_kill_costs_nothing_and_says_nothing(left: Path) -> None:
    assert len(commits(left)) > POSTS, "else the damage below is none"
    assert await start(left) == ("", POSTS)


async def test_without_its_index_a_sound_log_says_nothing(left: Path) -> None:
    beside(left, "-shm").unlink()
    assert await start(left) == ("", POSTS)


async def test_what_was_not_committed_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    await post(store)
    store.connection.execute("PRAGMA cache_size = 10")  # So that a transaction is written before its end.
    before = beside(path, "-wal").read_bytes()
    store.connection.execute("BEGIN")
    store.connection.execute("CREATE TABLE spilt (page)")
    store.connection.executemany("INSERT INTO spilt VALUES (zeroblob(?))", [(3_000,)] * 60)
    copy = killed(path)
    store.connection.execute("ROLLBACK")
    await store.close()
    assert beside(copy, "-wal").read_bytes() != before
    assert await start(copy) == ("", 1)


@pytest.mark.parametrize("acknowledged", [0, 1])
async def test_a_kill_in_the_middle_of_the_last_frame_or_before_the_index_is_no_loss(
    tmp_path: Path, acknowledged: int
) -> None:
    """The log is that after the second post; what the index says is from before it."""
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    await post(store)
    index = beside(path, "-shm").read_bytes()
    await post(store)
    copy = killed(path)
    await store.close()
    beside(copy, "-shm").write_bytes(index)
    if not acknowledged:
        place = place_of(commits(copy)[-1])
        with beside(copy, "-wal").open("r+b") as log:
            log.seek(place + 24)
            log.write(bytes(PAGE))
    assert await start(copy) == ("", 1 + acknowledged)


async def test_frames_of_older_logs_behind_the_end_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    await post(store, 30)
    store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    await post(store)  # It begins the log anew.
    copy = killed(path)
    await store.close()
    assert beside(copy, "-wal").read_bytes()[place_of(commits(copy)[-1] + 1) :][:24] != bytes(24)
    assert await start(copy) == ("", 31)


async def test_after_a_clean_stop_there_is_no_log_to_miss(tmp_path: Path) -> None:
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    await post(store)
    await store.close()
    assert not beside(path, "-wal").exists()
    assert await start(killed(path, "backup")) == ("", 1), "a backup that was copied while it was stopped"
    path.with_suffix(".lock").unlink()
    assert await start(path) == ("", 1)


async def test_a_start_that_failed_does_not_make_the_next_one_ask_for_the_log(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(files, "load_migrations", lambda _package: [(99, "INSERT INTO nowhere VALUES (1);")])
        with pytest.raises(StoreRefused, match="no such table: nowhere"):
            opened(left)
    assert await start(left) == ("", POSTS)


async def test_a_disk_that_fails_at_the_stop_keeps_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    await post(store)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        await store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert await start(path) == ("", 1)


# ── Something is gone ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ending", ["", "-wal"])
async def test_a_file_that_is_gone_after_a_kill_is_asked_for(left: Path, ending: str) -> None:
    file, lock = beside(left, ending), left.with_suffix(".lock")
    away = shutil.move(file, left.parent / "away")
    for _ in range(2):
        with pytest.raises(StoreRefused) as refused:
            opened(left)
        assert str(refused.value) == (
            f"{file} is gone, though the server did not stop cleanly: acknowledged work may be lost with it; "
            f"put it back, or restore a backup; or, to go on with what is left, remove {lock}"
        )
        assert not file.exists()
    shutil.move(away, file)
    assert await start(left) == ("", POSTS)


async def test_who_removes_the_lock_file_goes_on_with_what_is_left(left: Path) -> None:
    beside(left, "-wal").unlink()
    left.with_suffix(".lock").unlink()
    assert await start(left) == ("", 0)


# ── Something is damaged ────────────────────────────────────────────────────────────────────────────────────────

BLAME = (
    "cannot be read; after a loss of power they had not been acknowledged, "
    "otherwise the file was damaged and what they held is lost, but for what the database has already"
)


@pytest.mark.parametrize("index", [True, False], ids=["index", "no-index"])
@pytest.mark.parametrize("place", [0, 5, 9, 17, 24 + 100], ids=["page-number", "size", "salt", "checksum", "page"])
async def test_a_bit_in_the_middle_costs_the_commits_behind_it_and_is_told(left: Path, place: int, index: bool) -> None:
    frames = commits(left)
    flip(left, place_of(frames[-3]) + place)
    if not index:
        beside(left, "-shm").unlink()
    still = 2 if place == 9 else 3  # A frame with another salt is not seen to be one of this log.
    said, found = await start(left)
    assert said == f"{beside(left, '-wal')}: {still} commits or more at the end of the write-ahead log {BLAME}"
    assert found == POSTS - 3


async def test_a_bit_in_the_last_commit_is_told(left: Path) -> None:
    flip(left, place_of(commits(left)[-1]) + 24 + 7)
    said, found = await start(left)
    assert said == f"{beside(left, '-wal')}: 1 commit or more at the end of the write-ahead log {BLAME}"
    assert found == POSTS - 1


async def test_an_index_that_is_older_than_the_log_hides_nothing(tmp_path: Path) -> None:
    """As after a loss of power, which does not keep the newest index."""
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    index = beside(path, "-shm").read_bytes()
    for _ in range(POSTS):
        await post(store)
    copy = killed(path)
    await store.close()
    beside(copy, "-shm").write_bytes(index)
    flip(copy, place_of(commits(copy)[-1]))
    said, found = await start(copy)
    assert said.startswith(f"{beside(copy, '-wal')}: 1 commit or more ")
    assert found == POSTS - 1


@pytest.mark.parametrize("place", range(0, 32, 4))
async def test_a_bit_in_the_header_costs_the_log_and_is_told(left: Path, place: int) -> None:
    flip(left, place)
    store = opened(left)
    assert store.salvaged == (
        f"{beside(left, '-wal')}: the header of the write-ahead log cannot be read, nor any commit in it; "
        + BLAME.removeprefix("cannot be read; ")
    )
    await store.close()


@pytest.mark.parametrize("size", [0, 31, 32, 32 + FRAME * 9 + 100])
async def test_a_log_that_was_cut_is_told(left: Path, size: int) -> None:
    os.truncate(beside(left, "-wal"), size)
    said, found = await start(left)
    assert "cannot be read" in said
    assert found < POSTS


async def test_what_was_damaged_is_asked_for_until_a_start_succeeds(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(left, place_of(commits(left)[-1]) + 24)
    with monkeypatch.context() as broken:
        broken.setattr(files, "load_migrations", lambda _package: [(99, "INSERT INTO nowhere VALUES (1);")])
        with pytest.raises(StoreRefused, match="no such table: nowhere"):
            opened(left)
    with pytest.raises(StoreRefused, match="is gone, though the server did not stop cleanly"):
        opened(left)


@pytest.mark.parametrize("more", [0, 1])
async def test_old_pages_are_not_laid_over_a_newer_database(tmp_path: Path, more: int) -> None:
    path = tmp_path / "data" / "queue.db"
    store = opened(path)
    for _ in range(POSTS):
        await post(store)
    store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    copy = killed(path)
    await store.close()
    index = read_index(copy)
    assert index is not None
    assert index.written_back == index.committed == commits(copy)[-1]
    if more:  # As if not all had been written back.
        with beside(copy, "-shm").open("r+b") as file:
            file.seek(96)
            file.write(struct.pack("=I", index.written_back - 1))
    flip(copy, place_of(commits(copy)[-3]))
    remedy = "restore a backup" if more else f"it is needed no longer, remove it and {copy.with_suffix('.lock')}"
    before = copy.read_bytes()
    with pytest.raises(StoreRefused) as refused:
        opened(copy)
    assert str(refused.value) == (
        f"{beside(copy, '-wal')} is damaged, and what can be read of it is older than {copy}; {remedy}"
    )
    assert copy.read_bytes() == before
    beside(copy, "-wal").unlink()
    copy.with_suffix(".lock").unlink()
    assert await start(copy) == ("", POSTS)


async def test_a_server_says_what_it_lost_before_it_serves(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        async with httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http:
            for number in range(3):
                assert (await http.post("/demo/items", json={"item": number})).status_code == 201
        await server.kill()
        path = server.data / "demo.db"
        flip(path, place_of(commits(path)[-1]) + 24 + 7)
        told = len(server.output)
        await server.start()
        salvaged, serving = server.output[told:].decode().splitlines()[:2]
        assert " critical " in salvaged
        assert salvaged.endswith("event=store.salvaged queue=demo")
        assert "event=server.started" in serving
        told = len(server.output)
        await server.kill()
        await server.start()
        assert b"store.salvaged" not in server.output[told:]


# ── The formats ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_index_says_what_sqlite_says(left: Path) -> None:
    header = read_header(beside(left, "-wal"))
    assert header is not None
    assert header[0] == PAGE
    assert read_index(left) == WalIndex(commits(left)[-1], header[1], 0)
    store = opened(left)
    _busy, log, written = store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    copy = killed(left, "again")
    await store.close()
    assert read_index(copy) == WalIndex(log, header[1], written)


@pytest.mark.parametrize("harm", [lambda data: data[:99], lambda data: data[:20] + b"\xff" + data[21:]])
async def test_an_index_that_was_cut_or_half_written_says_nothing(left: Path, harm: Callable[[bytes], bytes]) -> None:
    file = beside(left, "-shm")
    file.write_bytes(harm(file.read_bytes()))
    assert read_index(left) is None
    assert await start(left) == ("", POSTS)
