"""Floods that make few lines, and the audit log."""

import logging
from typing import Any

import pytest

from leaseway_server.audit import RefusedAccess, audit_admin, audit_config, audit_tokens
from leaseway_server.core.access import Token
from leaseway_server.log import LINES, MINUTE_MS, SHARE, VALUE_LIMIT, LimitedEvent
from leaseway_server.redaction import STRUCK
from support.logged import logged

_log = logging.getLogger("leaseway_server.test")

# ── Floods ──


class Bench:
    """One limited event, and a time that is set."""

    def __init__(self) -> None:
        self.now = 1_000
        self.event = LimitedEvent(_log, logging.INFO, "request.refused", "a request was refused", lambda: self.now)

    def happens(self, times: int, source: str = "::1") -> None:
        """It happens so often."""
        for _ in range(times):
            self.event.write(source, {"code": "schema"})


def _more(entries: list[dict[str, Any]]) -> list[int]:
    return [entry["more"] for entry in entries if "more" in entry]


def test_a_flood_makes_so_many_lines_and_one_with_the_rest() -> None:
    bench = Bench()
    with logged() as log:
        for number in range(100):
            bench.happens(13, f"10.0.0.{number}")
        assert len(log.lines) == LINES
        bench.now += MINUTE_MS - 1
        bench.event.refresh()
        assert len(log.lines) == LINES
        bench.now += 1
        bench.event.refresh()
        bench.event.refresh()
        assert len(log.lines) == LINES + 1
        last = log.entries[-1]
        assert (last["event"], last["more"]) == ("request.refused", 1_240)
        assert last["text"] == "and 1,240 more: a request was refused"


def test_one_source_does_not_hide_the_others() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(10_000, "192.0.2.1")
        bench.happens(1, "192.0.2.2")
        bench.event.flush()
    assert len(log.lines) == SHARE + 2
    assert _more(log.entries) == [10_000 - SHARE]


def test_a_new_minute_begins_with_the_next_event() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(SHARE + 1)
        bench.now += MINUTE_MS
        bench.happens(SHARE + 2)
        bench.now += MINUTE_MS - 1
        bench.happens(1)
        assert _more(log.entries) == [1]
        bench.event.flush()
        bench.event.flush()
    assert _more(log.entries) == [1, 3]
    assert len(log.lines) == 2 * SHARE + 2


def test_a_flood_without_end_is_told_each_minute() -> None:
    bench = Bench()
    with logged() as log:
        for _ in range(180):
            bench.happens(2)
            bench.now += 1_000
        bench.event.refresh()
    assert _more(log.entries) == [120 - SHARE] * 3


def test_few_events_are_told_as_they_are() -> None:
    bench = Bench()
    with logged() as log:
        bench.happens(3)
        bench.now += MINUTE_MS
        bench.event.refresh()
        bench.event.flush()
    assert [entry["code"] for entry in log.entries] == ["schema"] * 3


# ── The audit log ──


def test_refused_access_tells_who_and_what() -> None:
    refused = RefusedAccess(lambda: 0)
    with logged() as log:
        refused.audit(address="192.0.2.1", queue="resize", right="work", reason="not-allowed", user="alice")
        refused.audit(address="192.0.2.1", queue="other", right=None, reason="unauthorized")
    first, second = log.entries
    for entry in (first, second):
        assert (entry.pop("level"), entry.pop("text")) == ("warning", "access was refused")
        assert entry.pop("at")
    told = {"event": "access.refused", "address": "192.0.2.1"}
    assert first == told | {"queue": "resize", "right": "work", "reason": "not-allowed", "user": "alice"}
    assert second == told | {"queue": "other", "right": "any", "reason": "unauthorized"}


def test_a_path_with_a_token_in_it_is_no_way_round() -> None:
    with logged() as log:
        RefusedAccess(lambda: 0).audit(address="::1", queue="lw_canary", right="work", reason="unauthorized")
    assert log.entry["queue"] == STRUCK


def test_what_an_administrator_did_is_told() -> None:
    with logged() as log:
        audit_admin("admin.item_cancelled", by="root", queue="resize", item="9f2c1a0b7d4e6f83", token_id=None)
    assert log.entry["event"] == "admin.item_cancelled"
    assert {name: log.entry.get(name) for name in ("by", "queue", "item", "token_id")} == {
        "by": "root",
        "queue": "resize",
        "item": "9f2c1a0b7d4e6f83",
        "token_id": None,
    }


KEYS = ("server.allowed_origins", "queues.resize.lease")

# What counts now, what waits for a restart; the event, and the sentence.
RELOADS: list[tuple[int, int, str, str]] = [
    (0, 0, "admin.config_unchanged", "the configuration was read anew: nothing has changed"),
    (2, 0, "admin.config_changed", "the configuration was read anew and has changed"),
    (
        0,
        2,
        "admin.config_unchanged",
        "the configuration was read anew: nothing has changed; a part of it waits for a restart",
    ),
    (
        1,
        2,
        "admin.config_changed",
        "the configuration was read anew and has changed; a part of it waits for a restart",
    ),
]


@pytest.mark.parametrize(("now", "restart", "event", "text"), RELOADS)
def test_what_a_reload_did_is_told_in_words_and_in_keys(now: int, restart: int, event: str, text: str) -> None:
    """A member that would be empty is left out."""
    with logged() as log:
        audit_config("leaseway.toml", KEYS[:now], KEYS[:restart])
    entry = log.entry
    assert (entry["event"], entry["level"], entry["text"], entry["file"]) == (event, "info", text, "leaseway.toml")
    members = {"changed": ", ".join(KEYS[:now]), "restart": ", ".join(KEYS[:restart])}
    assert {name: entry[name] for name in members if name in entry} == {k: v for k, v in members.items() if v}


def test_keys_that_are_too_many_for_a_line_are_counted() -> None:
    every = [f"queues.q{number}.lease" for number in range(1_234)]
    with logged() as log:
        audit_config("leaseway.toml", every, every[:100])
    for name, number in (("changed", 1_234), ("restart", 100)):
        told = log.entry[name]
        assert len(told) <= VALUE_LIMIT
        *kept, rest = told.split(", ")
        assert kept == every[: len(kept)]
        assert len(kept) > 5
        assert rest == f"… and {number - len(kept):,} more"


def test_tokens_that_came_and_went_are_told() -> None:
    stays, goes, comes = (Token(name * 12, f"user {name}", None, None, 0, 0) for name in "abc")
    with logged() as log:
        audit_tokens([stays, goes], [stays, comes])
        audit_tokens([stays], [stays])
    told = [(entry["event"], entry["token_id"], entry["user"]) for entry in log.entries]
    assert told == [
        ("admin.token_created", "c" * 12, "user c"),
        ("admin.token_revoked", "b" * 12, "user b"),
    ]
