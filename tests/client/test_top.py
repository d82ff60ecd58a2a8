"""What `leaseway top` makes of the figures that it is told: rates, rows and columns. It watches in end_to_end."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from leaseway.cli.top.command import top
from leaseway.cli.top.figures import Figures
from leaseway.cli.top.sources import Lost, Pushed, StatsState
from leaseway.cli.top.tables import HOUR, WIDE, WIDEST, bars, line, note, queue_heads, short, tables
from leaseway.errors import Rejected
from leaseway_schemas import wire

MINUTE = 60_000
NOW = 1_000 * MINUTE + 15_000
COUNTS = {"pending": 312, "processing": 8, "finished": 12_345, "failed": 2, "dead": 1, "cancelled": 0, "expired": 0}


def minute(at: int, **happened: int) -> dict[str, int]:
    none = dict.fromkeys(("posted", "claimed", "finished", "failed", "dead", "requeued"), 0)
    return {"at": at, **none, **happened}


def worker(name: str | None, *held: int, waits: int = 0, user: str | None = None) -> dict[str, Any]:
    """A worker that holds an item since each of these."""
    holds = [{"id": f"{since:016x}", "attempts": 1, "since": since, "leaseUntil": since + 300_000} for since in held]
    waiting = [{"criteria": {}, "count": waits}] if waits else []
    return {
        "worker": name,
        "user": user,
        "client": None,
        "labels": {},
        "connectedAt": 0,
        "waiting": waiting,
        "holds": holds,
    }


def figures(queue: str = "resize", **members: Any) -> Figures:
    made = Figures(queue, f"http://x/{queue}", dict(COUNTS))
    made.take_stats({"counts": dict(COUNTS), "workers": 3, "rates": minute(NOW - 15_000, posted=40, finished=5)})
    for name, value in members.items():
        setattr(made, name, value)
    return made


def drawn(shown: list[Figures], width: int, height: int = 40) -> list[str]:
    """The tables on a terminal of this size, without styles."""
    terminal = Console(width=width, height=height, color_system=None)
    with terminal.capture() as captured:
        terminal.print(tables(shown, NOW, width, height))
    return [row.rstrip() for row in captured.get().splitlines()]


# ── Figures ──


def test_a_rate_is_that_of_the_last_full_minute_or_of_this_one_where_it_is_more() -> None:
    at = NOW - 15_000
    shown = figures(minutes=[minute(at - 2 * MINUTE, posted=999), minute(at - MINUTE, posted=100, finished=4)])
    assert (shown.per_minute("posted"), shown.per_minute("finished")) == (100, 5)
    shown.minutes = None
    assert shown.per_minute("posted") == 40, "who may not know the hour sees what was pushed"
    assert Figures("demo", "http://x/demo", dict(COUNTS)).per_minute("posted") is None


@pytest.mark.parametrize("administrator", [True, False])
def test_many_posts_at_once_are_shown_as_so_many_until_their_minute_and_the_next_are_over(administrator: bool) -> None:
    shown, begins = figures(), NOW - 15_000
    seen = []
    for number, posted in enumerate((2_000, 0, 0)):
        now = minute(begins + number * MINUTE, posted=posted)
        for _ in range(2):  # Nothing happens between the two.
            shown.take_stats({"counts": dict(COUNTS), "workers": 3, "rates": now})
            if administrator:
                shown.minutes = [minute(begins, posted=2_000), now]
            seen.append(shown.per_minute("posted"))
    assert seen == [2_000, 2_000, 2_000, 2_000, 0, 0]


def test_what_is_pushed_is_newer_than_what_is_asked_for() -> None:
    facts = {"paused": True, "oldestReadyAt": NOW - 41_000, "counts": {**COUNTS, "pending": 1}}
    shown = figures()
    shown.take_facts(facts)
    assert (shown.counts["pending"], shown.paused, shown.oldest(NOW)) == (312, True, 41_000)
    shown.lose("gone")
    shown.take_facts(facts | {"oldestReadyAt": None})
    assert (shown.counts["pending"], shown.oldest(NOW), shown.told) == (1, None, False)
    assert shown.document()["connected"] is False
    shown.take_stats({"counts": COUNTS, "workers": 0, "rates": minute(NOW)})
    assert (shown.trouble, shown.told) == ("", True)


def test_the_document_for_programs() -> None:
    told = figures(oldest_ready_at=NOW - 1).document()
    assert json.loads(json.dumps(told)) == {
        "queue": "resize",
        "url": "http://x/resize",
        "connected": True,
        "trouble": None,
        "paused": False,
        "counts": COUNTS,
        "perMinute": {"posted": 40, "claimed": 0, "finished": 5, "failed": 0, "dead": 0, "requeued": 0},
        "oldestReadyAt": NOW - 1,
        "workers": 3,
        "connections": None,
    }


# ── The conversation ──


def test_the_socket_asks_for_figures_anew_on_each_connection() -> None:
    state, stats = StatsState(), wire("monitor-server-stats")["examples"][0]
    for _ in range(2):
        state.opened({}, 0.0)
        assert json.loads(state.next_message() or b"") == {"stats": True}
        assert state.next_message() is None
        state.received({"type": "batch", "messages": [stats, {"type": "news"}]}, 0.0)
        state.tick(0.0)
        assert state.take_events() == [Pushed(stats)]
        state.opened({}, 0.0)
        state.lost()
        assert (state.take_events(), state.next_message()) == ([Lost()], None)
    with pytest.raises(Rejected, match="not-allowed"):
        state.received({"type": "error", "code": "not-allowed", "errors": []}, 0.0)


# ── What is shown ──


def test_a_line_names_each_figure() -> None:
    shown = figures(oldest_ready_at=NOW - 41_500)
    assert line(shown, NOW) == (
        "resize pending=312 processing=8 finished=12345 failed=2 dead=1 cancelled=0 expired=0"
        " posted/min=40 finished/min=5 workers=3 oldest=41s"
    )
    shown = Figures("demo", "http://x/demo", dict.fromkeys(COUNTS, 0), paused=True, trouble="1012 restart")
    assert line(shown, NOW).endswith("expired=0 paused; reconnecting: 1012 restart")
    assert note(figures()) == ""


@pytest.mark.parametrize("width", [60, 75, WIDE - 1, WIDE, WIDEST - 1, WIDEST, 200])
def test_no_number_is_cut_however_narrow_it_is(width: int) -> None:
    long = "a-queue-with-a-name-that-is-far-too-long-for-a-narrow-terminal"
    held = [worker("box-1", NOW - 5_000, user="box"), worker("box-2-with-a-long-name" * 4, NOW - 65_000, NOW - 1_000)]
    shown = [figures(minutes=[minute(NOW - 75_000)], connections=held), figures(long, trouble="1006 " + "x" * 300)]
    rows = drawn(shown, width)
    assert max(map(len, rows)) <= width
    head, first, second, trouble, empty, working, *workers = rows
    assert "…" not in head + first + working
    assert ("PENDING" in head, "PEND" in head, "LAST HOUR" in head) == (width >= WIDE, True, width >= WIDEST)
    whole = ["312", "8", "12,345", "2", "1", "40", "5", "3"]
    assert first.split() == ["resize", *(whole if width >= WIDE else ["312", "8", "12.3k", "3", "40", "5", "3"])]
    assert second.startswith(long[:8])
    assert trouble.startswith(long[:40])
    assert empty == ""
    assert working.split() == ["WORKER", "QUEUE", "HOLDS", "FOR", "USER"]
    assert [row.split()[0][:5] for row in workers] == ["box-2", "box-1"], "the longest first"


def test_who_works_and_who_waits() -> None:
    held = [worker("idle"), worker(None, waits=4), worker("busy", NOW - 9_000, NOW - 7_000_000, user="b\x1bx")]
    rows = drawn([figures(connections=held)], 80)
    assert [row.split() for row in rows[3:]] == [
        ["WORKER", "HOLDS", "FOR", "USER"],
        ["busy", f"{NOW - 7_000_000:016x}", "+1", "1h", "b\\x1bx"],
        ["idle", "nothing"],
        ["(no", "name)", "waits", "for", "4"],
    ]


def test_a_terminal_that_is_low_shows_as_many_workers_as_it_has_room_for() -> None:
    held = [worker(f"box-{number}", NOW - 1_000) for number in range(30)]
    rows = drawn([figures(connections=held)], 80, height=12)
    assert len(rows) == 11
    assert rows[-1] == "and 24 more"
    assert len(drawn([figures(connections=held)], 80, height=5)) == 2
    assert len(drawn([figures(connections=[])], 80)) == 2


@pytest.mark.parametrize("width", [80, WIDEST])
def test_the_help_says_what_each_column_is(width: int) -> None:
    told = CliRunner().invoke(top, ["--help"]).stdout
    assert {head for head in queue_heads(width) if not re.search(rf"\b{head}\b", told)} == set()
    assert "more\n" in told, "no line of the table is broken"


def test_short_numbers() -> None:
    given = (0, 999, 1_000, 12_345, 999_499, 999_500, 1_000_000, 12_345_678, 10**9)
    assert [short(number) for number in given] == ["0", "999", "1k", "12.3k", "999k", "999k", "1M", "12.3M", "1G"]


def test_bars_are_sums_over_the_width() -> None:
    assert bars([], HOUR) == ""
    assert bars([0] * 60, HOUR) == " " * HOUR
    assert bars([1, 0, 0, 7, 0, 0], 2) == "▂█"
    assert len(bars(list(range(60)), HOUR)) == HOUR
