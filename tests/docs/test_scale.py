"""docs/scale.md names what our statements really use, and what it counts is what the server really does."""

import re
from pathlib import Path
from typing import Final

import pytest

from leaseway_server.config.model import ServerConfig
from leaseway_server.runtime import hints
from leaseway_server.store.postgres.database import POOL
from leaseway_server.store.postgres.schema import OLDEST
from leaseway_server.store.postgres.store import CHANGES_MS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
STORE: Final = ROOT / "server/leaseway_server/store"
TEXTS: Final = [*(STORE / "postgres").rglob("*.sql"), STORE / "access/postgres.sql", *(STORE / "postgres").glob("*.py")]
SOURCE: Final = re.sub(r"^--.*$", "", "\n".join(path.read_text(encoding="utf-8") for path in TEXTS), flags=re.MULTILINE)
TABLE: Final = PAGE.partition("## Which databases")[2].partition("\n## ")[0]
FIRST_CELLS: Final = " ".join(re.findall(r"^\| (.*?) \| ", TABLE, re.MULTILINE))
NAMED: Final = sorted(set(re.findall("`(.+?)`", FIRST_CELLS)))
UNUSUAL: Final = [
    "ctid", "LATERAL", "MATERIALIZED", "RECURSIVE", "SKIP LOCKED", "ON CONFLICT", "IDENTITY", "COLLATE", "OVER",
    "SET LOCAL", "fillfactor", "autovacuum_", "pg_notify", "nextval", "setval", "clock_timestamp", "lock_timeout",
    "statement_timestamp", "pg_advisory_xact_lock_shared", "synchronous_commit", "unnest",
    "idle_in_transaction_session_timeout",
]  # fmt: skip
"""What not every database that speaks the language has."""
ABSENT: Final = [
    "CREATE EXTENSION", "CREATE FUNCTION", "CREATE TRIGGER", "plpgsql", "jsonb", "LOCK TABLE", "SERIALIZABLE",
    "pg_advisory_lock", "PREPARE TRANSACTION", "DECLARE", "TEMP", "MERGE", "NULLS NOT DISTINCT", "CREATE TYPE",
]  # fmt: skip
"""What we do without, so that more databases have all that we need."""


def used(what: str) -> bool:
    words = r"\s+".join(map(re.escape, what.removesuffix("…").split())).replace(r"\s+…\s+", r"\s.*?\s")
    end = "" if what.endswith(("…", "_")) else r"(?!\w)"
    return re.search(rf"(?<!\w){words}{end}", SOURCE, re.IGNORECASE | re.DOTALL) is not None


@pytest.mark.parametrize("what", NAMED)
def test_what_is_named_is_used(what: str) -> None:
    assert used("add_listener" if what == "LISTEN" else what)


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_used_is_named(what: str) -> None:
    assert used(what)
    assert [name for name in NAMED if what.lower() in name.lower()]


@pytest.mark.parametrize("what", ABSENT)
def test_what_we_do_without_is_not_there(what: str) -> None:
    assert not used(what)


def test_the_arithmetic_is_that_of_the_code() -> None:
    servers, queues, turns = 100, 5, 10
    assert POOL == 4
    assert f"{servers * (queues + POOL + 2):,}" in PAGE, "connections"
    assert f"{servers * (4 * queues + 3):,} transactions a second" in PAGE
    assert f"{servers * servers * queues:,} rows a second" in PAGE
    assert CHANGES_MS == 60_000
    assert f"{servers * queues * turns:,} a second, {servers * queues * turns * 60:,} rows" in PAGE
    assert f"up to {queues * turns * servers * (servers - 1):,} a second" in PAGE
    assert f"5 · 10 · 20 · 19 = {5 * 10 * 20 * 19:,}" in PAGE
    assert f"at most one in {hints.GATHER_SECONDS * 1000:.0f} ms" in PAGE
    assert f"PostgreSQL {OLDEST} or newer" in PAGE


def test_what_it_says_of_sockets_is_the_default() -> None:
    server = ServerConfig()
    assert server.limits.connections_per_token == 1_000
    assert server.ping_interval == 15_000
    assert f"{1_000 / 15:.0f} pings a second on each of 100 servers" in PAGE
    assert f"{100_000 / 150 / 10:.0f}0 renewals a second" in PAGE
