"""The SQLite store's statements: each finds its rows by the index that was made for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from leaseway_server.core.commands import BEYOND
from leaseway_server.core.model import START, NewItem, Position
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.queries import load_migrations, load_queries
from leaseway_server.store.sqlite.files import PACKAGE
from leaseway_server.store.sqlite.store import SqliteStore
from leaseway_server.store.sqlite.turn import SQL, SqliteTurn, _insert, _update
from support.model import NOW
from support.stored import posted


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A new store; its clock stands at `NOW`."""
    store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
    yield store
    await store.close()


async def post(store: SqliteStore, *posts: NewItem) -> list[Position]:
    """Inserts the items; gives their positions."""
    return [item.position for item in await posted(store, *posts)]


INDEXES = {
    "load": (("[1]",), "item USING INTEGER PRIMARY KEY (rowid=?)"),
    "pick_same_moment": ((0, 0, 0, "[]", 1), "item USING INDEX item_ready (rank=? AND due_at=? AND seq>?)"),
    "pick_same_rank": ((0, 0, "[]", 1), "item USING INDEX item_ready (rank=? AND due_at>?)"),
    "pick_lower_rank": ((0, "[]", 1), "item USING INDEX item_ready (rank>?)"),
    "leases": ((), "item USING INDEX item_leased (status=?)"),
    "come_due": ((0, 1), "item USING INDEX item_later (due_at<?)"),
    "outlived": ((0, 1), "item USING INDEX item_expiry (expires_at>? AND expires_at<?)"),
    "mine": (("ann", 9, 1), "item USING INDEX item_mine (posted_by=? AND seq<?)"),
    "newest": ((9, 1), "item USING INTEGER PRIMARY KEY (rowid<?)"),
    "bodies": (("[1]",), "body USING INTEGER PRIMARY KEY (rowid=?)"),
    "body_sizes": (("[1]",), "body USING INTEGER PRIMARY KEY (rowid=?)"),
    "results": (("[1]",), "result USING INTEGER PRIMARY KEY (rowid=?)"),
    "outstayed": (
        ("dead", 9, 1),
        "item USING INDEX item_ended (status=? AND <expr>=? AND finished_at>? AND finished_at<?)",
    ),
    "outstayed_fetched": (("finished", 9, 1), "item USING INDEX item_ended (status=? AND <expr>>? AND <expr><?)"),
    "delete_items": (("[1]",), "item USING INTEGER PRIMARY KEY (rowid=?)"),
    "delete_bodies": (("[1]",), "body USING INTEGER PRIMARY KEY (rowid=?)"),
    "delete_results": (("[1]",), "result USING INTEGER PRIMARY KEY (rowid=?)"),
    "delete_attempts": (("[1]",), "attempt USING PRIMARY KEY (seq=?)"),
    "attempts": ((1,), "attempt USING PRIMARY KEY (seq=?)"),
    "key_holders": (('[["","k"]]',), "item USING INDEX item_holder (key=? AND posted_by=?)"),
    "shared_key_holders": (('["k"]', 1), "item USING INDEX item_holder (key=?)"),
    "past_keys": ((1, 1), "item USING INDEX item_passing (posted_at<?)"),
    "to_match": ((0, 1), "item USING INTEGER PRIMARY KEY (rowid>?)"),
    "next_due": ((), "item USING INDEX item_later"),
    "next_expiry": ((), "item USING INDEX item_expiry (expires_at>?)"),
}


@pytest.mark.parametrize("name", INDEXES)
def test_each_statement_uses_its_index_and_sorts_nothing(store: SqliteStore, name: str) -> None:
    arguments, index = INDEXES[name]
    plan = [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", arguments)]
    assert f"SEARCH {index}" in plan
    assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step]
    assert not [step for step in plan if step.startswith("SCAN") and "json_each" not in step]


async def steps(store: SqliteStore, look: Callable[[SqliteTurn], Awaitable[bool]]) -> int:
    """How many steps SQLite's machine takes for what `look` asks; it says whether the answer is right."""
    counted = 0

    def step() -> int:
        nonlocal counted
        counted += 1
        return 0

    async with store.turn(durable=False) as turn:
        store.connection.set_progress_handler(step, 1)
        assert await look(turn)
        store.connection.set_progress_handler(None, 0)
    return counted


async def work(store: SqliteStore, after: Position = START) -> int:
    """How many steps SQLite's machine takes to pick the next item."""

    async def look(turn: SqliteTurn) -> bool:
        return len(await turn.pick(after, 1, ())) == 1

    return await steps(store, look)


async def test_a_pick_behind_many_delayed_rows_looks_at_none_of_them(store: SqliteStore) -> None:
    await post(store, NewItem("1"))
    alone = await work(store)
    await post(store, *[NewItem("1", delay_ms=60_000, priority=100)] * 20_000)
    assert await work(store) == alone
    (ready,) = store.connection.execute("SELECT count(*) FROM item INDEXED BY item_ready WHERE ready = 1").fetchone()
    later = "SELECT count(*) FROM item INDEXED BY item_later WHERE ready = 0 AND status = 'pending'"
    mortal = "SELECT count(*) FROM item INDEXED BY item_expiry WHERE expires_at > 0 AND finished_at = 0"
    assert (ready, *store.connection.execute(later).fetchone(), *store.connection.execute(mortal).fetchone()) == (
        1,
        20_000,
        0,
    )


async def test_a_pick_among_many_of_one_moment_goes_straight_to_its_place(store: SqliteStore) -> None:
    positions = await post(store, *[NewItem("1")] * 5_000)
    assert await work(store, positions[4_000]) == await work(store, positions[1])


async def test_a_page_of_mine_steps_over_nothing_of_others_and_nothing_that_was_fetched(store: SqliteStore) -> None:
    async def look(turn: SqliteTurn) -> bool:
        return len(await turn.mine("ann", BEYOND, 10)) == 1

    await post(store, NewItem("1", posted_by="ann"))
    alone = await steps(store, look)
    await post(store, *[NewItem("1", posted_by="bob")] * 1_000, *[NewItem("1", posted_by="ann")] * 1_000)
    store.connection.execute("UPDATE item SET fetched_at = 1 WHERE seq > (SELECT min(seq) FROM item)")
    assert await steps(store, look) == alone


async def test_the_key_that_passes_next_is_the_first_of_its_index(store: SqliteStore) -> None:
    async def look(turn: SqliteTurn) -> bool:
        return await turn.oldest_passing_key() == NOW

    await post(store, NewItem("1", key="k"))
    store.connection.execute("UPDATE item SET finished_at = 1")
    alone = await steps(store, look)
    await post(store, *(NewItem("1", key=f"k{number}") for number in range(2_000)))
    store.connection.execute("UPDATE item SET finished_at = 1")
    assert await steps(store, look) == alone


async def test_the_oldest_is_found_by_a_step_for_each_priority(store: SqliteStore) -> None:
    async def look(turn: SqliteTurn) -> bool:
        return await turn.oldest_ready() == NOW

    await post(store, *(NewItem("1", priority=priority) for priority in (0, 1, 5)))
    alone = await steps(store, look)
    await post(store, *(NewItem("1", priority=priority) for priority in (0, 1, 5) for _ in range(2_000)))
    assert await steps(store, look) == alone


def test_statements_are_loaded_by_name() -> None:
    queries = load_queries(PACKAGE, "queries.sql")
    assert queries["next_due"] == "SELECT min(due_at) FROM item WHERE ready = 0 AND status = 'pending'"
    assert set(queries) == set(SQL)


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in load_migrations(PACKAGE)]
    assert numbers == list(range(1, len(numbers) + 1))


NARROWED = {
    "pick_match_same_moment": (("t", 0, 0, 0, "[]", 1), "(match_3=? AND rank=? AND due_at=? AND seq>?)"),
    "pick_match_same_rank": (("t", 0, 0, "[]", 1), "(match_3=? AND rank=? AND due_at>?)"),
    "pick_match_lower_rank": (("t", 0, "[]", 1), "(match_3=? AND rank>?)"),
}


@pytest.mark.parametrize("name", NARROWED)
def test_each_statement_of_a_member_uses_its_index_and_sorts_nothing(store: SqliteStore, name: str) -> None:
    arguments, index = NARROWED[name]
    sql = SQL[name].replace("{match}", "match_3")
    plan = [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]
    assert f"SEARCH item USING INDEX item_match_3 {index}" in plan
    assert not [step for step in plan if "TEMP B-TREE" in step or (step.startswith("SCAN") and "json_each" not in step)]


PICKS = {name: arguments for name, (arguments, _) in {**INDEXES, **NARROWED}.items() if name.startswith("pick")}


@pytest.mark.parametrize("name", PICKS)
def test_no_body_is_read_of_what_a_pick_skips(store: SqliteStore, name: str) -> None:
    """A turn may have to do with a thousand large items: the join comes once a row is known to be none of them."""
    sql = SQL[name].replace("{match}", "match_3")
    plan = [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}", PICKS[name])]
    (skipping,) = [place for place, step in enumerate(plan) if "json_each" in step]
    (joining,) = [place for place, step in enumerate(plan) if step.startswith("SEARCH body")]
    assert skipping < joining


PAGES = {
    "page_all": "item USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "page_key": "item USING INDEX item_key (key=? AND seq>? AND seq<?)",
    "page_trouble": "item USING INDEX item_trouble (status=? AND seq>? AND seq<?)",
    "floor_all": "item USING INTEGER PRIMARY KEY (rowid<?)",
    "floor_key": "item USING COVERING INDEX item_key (key=? AND seq<?)",
    "floor_trouble": "item USING COVERING INDEX item_trouble (status=? AND seq<?)",
}
"""What a page is read by; its arguments stand by their names."""


@pytest.mark.parametrize("name", PAGES)
def test_each_page_uses_its_index_and_sorts_nothing(store: SqliteStore, name: str) -> None:
    names = ("source", "before", "floor", "limit", "now", "looked_at", "status", "label", "posted_by", "key")
    plan = [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", dict.fromkeys(names, "[]"))]
    assert f"SEARCH {PAGES[name]}" in plan
    assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step]
    assert not [step for step in plan if step.startswith("SCAN") and "json_each" not in step]


AHEAD = {
    "ahead_same_moment": ((0, 0, 0, 1), "(rank=? AND due_at=? AND seq<?)"),
    "ahead_same_rank": ((0, 0, 1), "(rank=? AND due_at<?)"),
    "ahead_higher_rank": ((0, 1), "(rank<?)"),
}


@pytest.mark.parametrize("name", AHEAD)
def test_what_stands_ahead_is_counted_by_the_index_of_the_ready_ones(store: SqliteStore, name: str) -> None:
    arguments, index = AHEAD[name]
    plan = [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", arguments)]
    assert f"SEARCH item USING INDEX item_ready {index}" in plan
    assert [step for step in plan if step.startswith("SCAN")] == ["SCAN (subquery-1)"]


@pytest.mark.parametrize("statement", [_insert(0), _insert(8), _update((True,) * len(COLUMNS)), SQL["stamp"]])
def test_no_row_that_is_written_makes_a_table_of_a_list(store: SqliteStore, statement: str) -> None:
    """A condition of an index with a list of values is such: SQLite makes the table anew for each row."""
    steps = [row[1] for row in store.connection.execute(f"EXPLAIN {statement}", [0] * statement.count("?"))]
    assert "OpenEphemeral" not in steps
