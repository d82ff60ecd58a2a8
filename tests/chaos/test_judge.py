"""The judge of several servers' journals finds what it is there for: faults in an honest journal, one at a time."""

from random import Random
from typing import Any

import pytest

from chaos.journals import Came, Cut, Entry, Heard, Kept, Said, Stood, Struck, Told
from chaos.judge import judge
from chaos.planted import FAULTS, Fault
from chaos.terms import Terms

TERMS = Terms(lease=1_000, grace=500)
A, B = "a" * 16, "b" * 16
RESULT = {"of": 1, "attempts": 2, "by": "w.1"}


def view(item_id: str, status: str, rev: int, attempts: int = 0, **more: Any) -> dict[str, Any]:
    """A view as it is told."""
    rest = {"failures": 0, "result": None, "finishedAt": None, "expiresAt": None, "maxAttempts": 5}
    return {"type": "status", "id": item_id, "status": status, "rev": rev, "attempts": attempts, **rest, **more}


def fence(item_id: str, attempts: int, **more: Any) -> dict[str, Any]:
    """What a worker says of an attempt."""
    return {"worker": "w.1", "id": item_id, "attempts": attempts, **more}


def ack(verb: str, item_id: str, status: str, *, accepted: bool = True, **more: Any) -> dict[str, Any]:
    """How it is answered."""
    return {"type": f"{verb}-ack", "id": item_id, "accepted": accepted, "status": status, **more}


def item(item_id: str, attempts: int, number: int) -> dict[str, Any]:
    """What a claim is answered by."""
    return {"type": "item", "id": item_id, "attempts": attempts, "item": {"number": number}}


def row(at: int, item_id: str, status: str, key: str, **more: Any) -> Kept:
    """An item as it is stored in the end."""
    rest = {"holder": 0, "failures": 0, "losses": 0, "result": None}
    return Kept(at, "item", {"id": item_id, "status": status, "key": key, **rest, **more})


def attempt(at: int, item_id: str, ending: str, began: int, ended: int) -> Kept:
    """A first attempt as it is remembered."""
    times = {"from": began, "to": ended}
    return Kept(at, "attempt", {"id": item_id, "attempts": 1, "worker": "w.1", "ending": ending, **times})


POST_A = {"key": "post 1", "item": {"number": 1}}
POST_B = {"key": "post 2", "item": {"number": 2}}
HONEST: list[Entry] = [
    # Two posts; one is said twice, since the first answer was lost.
    Said(100, "p", 1, "subscribe", {"ids": []}),
    Said(101, "p", 2, "post", POST_A),
    Said(102, "p", 3, "post", POST_A),
    Heard(103, "p", 3, {"type": "posted", "id": A, "duplicate": True}),
    Told(104, "p", 1, view(A, "pending", 1)),
    Said(105, "q", 4, "post", POST_B),
    Heard(106, "q", 4, {"type": "posted", "id": B, "duplicate": False}),
    # A worker on a server that is killed: the first attempt of one is parted, after the grace.
    Came(200, "w"),
    Said(201, "w", 5, "claim", {"worker": "w.1"}),
    Heard(202, "w", 5, item(A, 1, 1)),
    Told(203, "p", 1, view(A, "processing", 2, 1)),
    Said(204, "w", 6, "progress", fence(A, 1)),
    Heard(205, "w", 6, ack("progress", A, "processing")),
    Struck(300, "kill -9", sockets=True),
    Came(900, "w"),
    Said(901, "w", 7, "claim", {"worker": "w.1"}),
    Heard(902, "w", 7, item(A, 2, 1)),
    Said(903, "w", 8, "result", fence(A, 2, value=RESULT)),
    Heard(904, "w", 8, {"type": "error", "code": "unavailable"}),
    Told(905, "p", 1, view(A, "processing", 4, 2)),
    Said(906, "w", 9, "result", fence(A, 2, value=RESULT)),
    Told(907, "p", 1, view(A, "finished", 5, 2, result=RESULT, finishedAt=906)),
    Heard(908, "w", 9, ack("result", A, "finished")),
    # The other is lost with its worker's connection, resumed, and fails for good.
    Said(910, "w", 10, "claim", {"worker": "w.1"}),
    Heard(911, "w", 10, item(B, 1, 2)),
    Cut(920, "w"),
    Came(930, "w"),
    Said(931, "w", 11, "resume", {"worker": "w.1", "leases": [{"id": B, "attempts": 1}]}),
    Heard(932, "w", 11, {"type": "resume-ack", "leases": [{"id": B, "accepted": True, "status": "processing"}]}),
    Cut(940, "w"),
    Came(950, "w"),
    Said(951, "w", 12, "claim", {"worker": "w.1"}),
    Heard(952, "w", 12, item(B, 2, 2)),
    Said(953, "w", 13, "fail", fence(B, 2, retryable=False)),
    Heard(954, "w", 13, ack("fail", B, "failed")),
    Said(960, "q", 14, "get", {"id": B}),
    Heard(961, "q", 14, view(B, "failed", 7, 2, finishedAt=954)),
    # What is left.
    row(9_001, A, "finished", "post 1", attempts=2, rev=5, result=RESULT),
    row(9_002, B, "failed", "post 2", attempts=2, rev=7, losses=1),
    attempt(9_003, A, "parted", 202, 850),
    attempt(9_004, B, "lost", 911, 941),
    Kept(9_005, "counts", {"finished": 1, "failed": 1}),
]


def test_an_honest_journal_breaks_no_promise() -> None:
    assert judge(HONEST, TERMS) == []


def test_a_journal_that_breaks_off_breaks_none_but_that_ends_are_missing() -> None:
    for length in range(len(HONEST) - 6):
        assert all("never learned" in broken for broken in judge(HONEST[:length], TERMS)), length


@pytest.mark.parametrize(("fault", "told"), FAULTS.items(), ids=[fault.__name__ for fault in FAULTS])
def test_a_planted_fault_is_found(fault: Fault, told: str) -> None:
    for seed in range(9):
        broken = judge(fault(HONEST, Random(seed)), TERMS)  # noqa: S311  Chance that can be had again.
        assert any(told in each for each in broken), broken


def instead(*entries: Entry) -> list[Entry]:
    """The honest journal with these in the places of what was at their times."""
    others = {entry.at: entry for entry in entries}
    assert others.keys() <= {entry.at for entry in HONEST}
    return [others.get(entry.at, entry) for entry in HONEST]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (Came(940, "w"), "charged as lost for nothing"),  # What was cut before is no connection of its any more.
        (attempt(9_003, A, "lost", 202, 850), "charged as lost for nothing"),
        (attempt(9_003, A, "parted", 202, 700), "before its grace was over"),
        (Heard(961, "q", 14, view(B, "dead", 7, 2, finishedAt=954)), "too early"),
        (Heard(961, "q", 14, view(B, "cancelled", 7, 2, finishedAt=954)), "too early"),
        (Heard(961, "q", 14, view(B, "expired", 7, 2, finishedAt=954, expiresAt=955)), "too early"),
        (Heard(904, "w", 8, {"type": "error", "code": "schema"}), "was refused: schema"),
        (Heard(103, "p", 3, {"type": "error", "code": "conflict"}), "another item's, and there is none"),
        (Heard(908, "w", 9, ack("result", A, "finished", accepted=False, duplicate=True)), "a duplicate of nothing"),
    ],
)
def test_what_has_no_cause_is_found(entry: Entry, told: str) -> None:
    broken = judge(instead(entry), TERMS)
    assert any(told in each for each in broken), broken


def test_a_lease_that_lapsed_is_lost_for_a_cause_and_so_is_one_of_who_stood_still() -> None:
    charged = row(9_001, A, "finished", "post 1", attempts=2, rev=5, result=RESULT, losses=1)
    assert judge(instead(charged, attempt(9_003, A, "lost", 202, 1_300)), TERMS) == []
    assert judge([Stood(600, 900), *instead(charged, attempt(9_003, A, "lost", 202, 850))], TERMS) == []
