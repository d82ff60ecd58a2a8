"""`cancel` and `stats` on the monitor socket (PROTOCOL.md §3), without the socket."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Changed, Failed
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.events import Cancel
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from leaseway_server.core.queue import Limits, Queue
from support.model import POLICY, ended, held, pending
from support.monitor import Monitor

ID, OTHER = f"{0xA1:016x}", f"{0xA2:016x}"
QUEUE = Queue("demo", POLICY, limits=Limits(ids=3))
OWN = replace(QUEUE, own_only=True)


def cancels(monitor: Monitor, item: Item | None) -> tuple[bool, str | None, str | None]:
    """What becomes of it where the engine finds this item: accepted, status, reason."""
    (exchange,) = monitor.says({"cancel": [ID]})
    command = exchange.command
    assert isinstance(command, Change)
    assert (command.id, command.event) == (ID, Cancel())
    assert command.guard is not None
    reason = command.guard(item) if item else "unknown"
    if reason:
        outcome = Changed(accepted=False, item=None if reason == "unknown" else item, reason=reason)
    elif item and item.terminal:
        outcome = Changed(accepted=False, item=item, reason="terminal")
    else:
        outcome = Changed(accepted=True, item=ended("cancelled"))
    monitor.settle(exchange, outcome)
    (ack,) = monitor.sees()
    assert (ack["type"], ack["id"], ack["index"]) == ("cancel-ack", ID, 0)
    return ack["accepted"], ack["status"], ack.get("reason")


@pytest.mark.protocol("3.33", "3.42")
@pytest.mark.parametrize(
    ("item", "answer"),
    [
        (pending(), (True, "cancelled", None)),
        (held(), (True, "cancelled", None)),
        (ended("cancelled"), (True, "cancelled", None)),
        (ended("finished"), (False, "finished", "terminal")),
        (ended("dead"), (False, "dead", "terminal")),
        (None, (False, None, "unknown")),
    ],
)
def test_a_cancel_is_answered_by_what_became_of_the_item(
    item: Item | None, answer: tuple[bool, str | None, str | None]
) -> None:
    assert cancels(Monitor(), item) == answer


@pytest.mark.protocol("3.32", "3.42")
@pytest.mark.parametrize(
    ("queue", "rights", "user", "posted_by", "answer"),
    [
        (QUEUE, ["fetch", "post"], "bob", "ann", (False, "processing", "not-allowed")),
        (QUEUE, ["fetch", "post"], "", "ann", (False, "processing", "not-allowed")),
        (QUEUE, ["fetch", "post"], "bob", "", (False, "processing", "not-allowed")),
        (QUEUE, ["fetch", "post"], "", "", (True, "cancelled", None)),
        (QUEUE, ["fetch", "post", "work"], "bob", "ann", (False, "processing", "not-allowed")),
        (QUEUE, ["fetch", "post", "work", "admin"], "bob", "ann", (True, "cancelled", None)),
        (OWN, ["fetch", "post"], "bob", "ann", (False, None, "unknown")),
        (OWN, ["fetch", "post"], "ann", "ann", (True, "cancelled", None)),
        (OWN, ["fetch", "post", "work"], "bob", "ann", (False, "processing", "not-allowed")),
        (OWN, ["fetch", "post", "work", "admin"], "bob", "ann", (True, "cancelled", None)),
    ],
)
def test_who_may_cancel_what(
    queue: Queue, rights: list[str], user: str, posted_by: str, answer: tuple[bool, str | None, str | None]
) -> None:
    assert cancels(Monitor(queue, rights, user), held(posted_by=posted_by)) == answer


def test_who_may_not_post_may_not_cancel() -> None:
    assert Monitor(rights=["fetch"]).refused({"cancel": [ID]}) == ("not-allowed", "", None)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "bad-message"),
        ({}, "bad-message"),
        ({"id": ID}, "bad-message"),
        (ID, "bad-message"),
        (1, "bad-message"),
        (True, "bad-message"),
        ([], "bad-message"),
        ([ID] * 4, "limit"),
    ],
)
def test_a_cancel_that_is_wrong(value: Json, code: str) -> None:
    assert Monitor(QUEUE).refused({"cancel": value}) == (code, "", None)


@pytest.mark.protocol("3.43")
@pytest.mark.parametrize("bad", [None, 7, {}, [ID], True])
def test_a_member_that_is_no_id_harms_no_other(bad: Json) -> None:
    monitor = Monitor(QUEUE)
    first, third = monitor.says_anything({"cancel": [ID, bad, "no id at all"], "ref": 9})
    monitor.settle(first, Failed(Unavailable("not now")))
    monitor.settle(third, Changed(accepted=False, item=None, reason="unknown"))
    heard = monitor.sees()
    assert [(each["type"], each["id"], each["index"], each["ref"]) for each in heard] == [
        ("error", ID, 0, 9),
        ("error", None, 1, 9),
        ("cancel-ack", "no id at all", 2, 9),
    ]
    assert [each.get("code") for each in heard] == ["unavailable", "bad-message", None]


# ── Stats ──


@pytest.mark.protocol("3.34")
async def test_the_figures_come_at_once_and_then_when_they_change() -> None:
    monitor = Monitor()
    assert monitor.says({"stats": True, "ref": "s"}) == []
    (stats,) = monitor.sees()
    assert (stats["type"], stats["queue"], stats["workers"], stats["ref"]) == ("stats", "demo", 0, "s")
    monitor.workers = 1
    monitor.clock.advance(500)
    monitor.stats.tell()
    monitor.workers = 2
    monitor.clock.advance(500)
    monitor.stats.tell()
    (stats,) = monitor.sees()
    assert stats["workers"] == 2, "a slow reader gets the newest"
    assert "ref" not in stats
    monitor.says({"stats": True})
    assert [message["workers"] for message in monitor.sees()] == [2], "asked for again they come again"
    assert monitor.says({"stats": False}) == []
    assert len(monitor.stats) == 0


async def test_figures_that_wait_are_not_told_to_who_wants_them_no_more() -> None:
    monitor = Monitor()
    monitor.says({"stats": True})
    monitor.sees()
    monitor.workers = 1
    monitor.clock.advance(500)
    monitor.stats.tell()
    monitor.says({"stats": False})
    assert monitor.sees() == []
    monitor.says({"stats": True})
    monitor.monitor.close()
    assert len(monitor.stats) == 0


@pytest.mark.protocol("3.35")
async def test_where_each_sees_only_its_own_the_figures_are_for_administrators() -> None:
    for rights in (["fetch"], ["fetch", "post", "work"]):
        monitor = Monitor(OWN, rights)
        assert monitor.refused({"stats": True}) == ("not-allowed", "", None)
        assert monitor.says({"stats": False}) == []
    monitor = Monitor(OWN, ["fetch", "admin"])
    monitor.says({"stats": True})
    assert [message["type"] for message in monitor.sees()] == ["stats"]
    monitor.says({"stats": False})


async def test_figures_that_the_queue_hides_by_now_are_not_told() -> None:
    monitor = Monitor(rights=["fetch"])
    monitor.says({"stats": True})
    monitor.sees()
    monitor.monitor.queue = OWN
    monitor.workers = 1
    monitor.clock.advance(500)
    monitor.stats.tell()
    assert monitor.sees() == []
    monitor.says({"stats": False})


@pytest.mark.parametrize("value", [None, 0, 1, "true", [], {}, {"queue": "demo"}])
def test_stats_are_wanted_or_not(value: Json) -> None:
    monitor = Monitor()
    assert monitor.refused({"stats": value}) == ("bad-message", "", None)
    assert len(monitor.stats) == 0
