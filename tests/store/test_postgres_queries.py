"""The PostgreSQL store's statements: each finds its rows by the index that was made for it, whatever the planner knows.

A plan is made once, perhaps while a table is empty, and used until somebody analyzes the table: so each is looked at in
an empty database and in one that is filled and analyzed.
"""

import re
from collections.abc import AsyncIterator

import pytest

from leaseway_server.core.model import NewItem
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.statements import SQL, insert, pick_match, update
from support.model import NOW
from support.postgres import Postgres, fresh_database
from support.stored import posted, set_rows
from support.stores import TestedPostgresStore

GENERIC = 16
"""The first PostgreSQL that shows the plan of a statement without its arguments."""
INDEXES = {
    "load": ["item_pkey"],
    "look": ["item_pkey"],
    "pick_to_take": ["item_ready", "body_pkey"],
    "pick_to_look": ["item_ready", "body_pkey"],
    "pick_match": ["item_match_3", "body_pkey"],
    "load_free": ["item_pkey"],
    "come_due": ["item_later"],
    "outlived": ["item_expiry"],
    "mine": ["item_mine"],
    "newest": ["item_pkey"],
    "bodies": ["body_pkey"],
    "body_sizes": ["body_pkey"],
    "results": ["result_pkey"],
    "insert": [],
    "insert_results": [],
    "update": ["item_pkey"],
    "stamp": ["item_pkey"],
    "key_holders": ["item_holder"],
    "shared_key_holders": ["item_holder"],
    "past_keys": ["item_passing"],
    "oldest_passing_key": ["item_passing"],
    "next_due": ["item_later"],
    "next_expiry": ["item_expiry"],
    "outstayed": ["item_ended", "body_pkey", "result_pkey"],
    "outstayed_fetched": ["item_ended", "body_pkey", "result_pkey"],
    "delete": ["body_pkey", "result_pkey", "attempt_pkey", "item_pkey"],
    "save_attempts": [],
    "forget_attempts": ["attempt_pkey"],
    "attempts": ["attempt_pkey"],
    "oldest_ready": ["item_ready"],
    "number_turn": [],
    "last_turn": ["share_pkey"],
    "leases": ["item_leased", "server_pkey"],
    "to_match": ["item_pkey", "body_pkey"],
    "set_match": ["item_pkey"],
    "floor_all": ["item_pkey"],
    "floor_key": ["item_key"],
    "floor_trouble": ["item_trouble"],
    "page_all": ["item_pkey"],
    "page_key": ["item_key"],
    "page_trouble": ["item_trouble"],
    "some_results": ["result_pkey"],
    "ahead": ["item_ready"],
}
WHOLE = {"next_due", "next_expiry", "oldest_passing_key", "oldest_ready", "leases"}
"""What asks for all of an index, or for its head, and names no more than the queue."""
MADE = {"pick_match": pick_match(3), "insert": insert(COLUMNS, 8), "update": update(COLUMNS[1:])}


@pytest.fixture
async def store(postgres: Postgres) -> AsyncIterator[TestedPostgresStore]:
    """A new queue in an empty database."""
    async with fresh_database(postgres) as url, await Database.open(url) as database:
        store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
        yield store
        await store.close()


async def check(store: TestedPostgresStore) -> None:
    """Looks at each plan, with the settings of the turns."""
    connection = await store._database.connect()
    if connection.get_server_version().major < GENERIC:
        pytest.skip("this PostgreSQL does not show plans without arguments")
    await connection.execute(
        "CREATE FUNCTION pg_temp.plan(text) RETURNS SETOF text LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (GENERIC_PLAN, COSTS OFF) ' || $1; END $$"
    )
    for name, indexes in INDEXES.items():
        rows = await connection.fetch("SELECT pg_temp.plan($1)", MADE.get(name, SQL[name]))
        look("\n".join(line for (line,) in rows), name, indexes)
    await connection.close()


def look(plan: str, name: str, indexes: list[str]) -> None:
    """Looks at one plan."""
    assert set(re.findall(r"(?:using|Index Scan on) (\w+)", plan)) == set(indexes), f"{name}\n{plan}"
    assert not re.search(r"Seq Scan|Hash Join|Merge Join|Join Filter", plan), f"{name}\n{plan}"
    alone = re.search(r"Index Cond: \(queue = \$1\)$", plan, re.MULTILINE)
    assert not alone or name in WHOLE, f"{name}\n{plan}"


async def test_each_statement_uses_its_index_in_an_empty_database(store: TestedPostgresStore) -> None:
    await check(store)


async def test_each_statement_uses_its_index_in_a_full_database(store: TestedPostgresStore) -> None:
    for part in range(5):
        await posted(store, *(NewItem("1", key=f"k{part}-{n}", priority=n % 3) for n in range(2_000)))
    await set_rows(store, "status = 'finished', finished_at = 1, ready = 0", "seq % 3 = 0")
    await set_rows(store, "status = 'dead', finished_at = 1, ready = 0, held = 0", "seq % 7 = 0")
    async with store._database.transaction() as connection:
        await connection.execute("ANALYZE")
    await check(store)


def test_every_name_of_a_table_has_its_schema() -> None:
    """So that nothing depends on a search path: not even what a migration makes."""
    names = "item|body|result|attempt|share|queue|server|change"
    for name, statement in {**SQL, **MADE}.items():
        bare = re.findall(rf"(?:FROM|JOIN|INTO|UPDATE)\s+(?:{names})\b(?! AS)", statement)
        assert not bare, name
