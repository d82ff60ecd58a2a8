"""Which attempts are remembered, step by step (PROTOCOL.md §5)."""

from dataclasses import replace

import pytest

from leaseway_server.core import effects
from leaseway_server.core.attempts import Attempt, forgotten, remembered
from leaseway_server.core.events import (
    Cancel,
    Claim,
    Event,
    Expire,
    Fail,
    GraceEnd,
    LeaseEnd,
    Progress,
    Release,
    Renew,
    Result,
    Retry,
    SocketLost,
)
from leaseway_server.core.model import Item
from support.model import ERROR, LATER, LEASE, NOW, POLICY, SOCKET, after, ended, fail, held, resume, waiting_again

LAPSED = NOW + LEASE

ENDED: list[tuple[str, Item, Event, int, str, str]] = [
    ("a socket that drops", held(), SocketLost(SOCKET), LATER, "lost", ""),
    ("a lease that lapses", held(), LeaseEnd(), LAPSED, "lost", ""),
    ("the last loss", held(losses=POLICY.max_losses - 1), LeaseEnd(), LAPSED, "lost", ""),
    ("a restart", held(), GraceEnd(SOCKET), LATER, "parted", ""),
    ("a fail that is retried", held(), fail(), LATER, "failed", ERROR),
    ("a fail for good", held(), fail(retryable=False), LATER, "failed", ERROR),
    ("the last fail", held(failures=POLICY.max_attempts - 1), fail(), LATER, "failed", ERROR),
    ("a fail after a loss", waiting_again("lost"), fail(), LATER, "failed", ERROR),
    ("a fail after a restart", waiting_again("parted"), fail(), LATER, "failed", ERROR),
    ("a release", held(), Release(SOCKET, "box", 1), LATER, "released", ""),
]


@pytest.mark.protocol("5.14")
@pytest.mark.parametrize(
    ("item", "event", "now", "ending", "error"), [row[1:] for row in ENDED], ids=[r[0] for r in ENDED]
)
def test_an_attempt_that_ended_is_remembered(item: Item, event: Event, now: int, ending: str, error: str) -> None:
    changed = after(item, event, now)
    assert remembered(item, changed) == Attempt(1, "box-1", NOW, now, ending, error)  # type: ignore[arg-type]
    assert forgotten(item, changed) == 0


DISPROVED: list[tuple[str, Item, Event]] = [
    ("a worker that is back after a loss", waiting_again("lost"), resume()),
    ("a worker that is back after a restart", waiting_again("parted"), resume()),
    ("a late result after a loss", waiting_again("lost"), Result("1", 1)),
    ("a late result after a restart", waiting_again("parted"), Result("1", 1)),
]


@pytest.mark.protocol("5.15")
@pytest.mark.parametrize(("item", "event"), [row[1:] for row in DISPROVED], ids=[row[0] for row in DISPROVED])
def test_an_attempt_that_was_not_over_after_all_is_forgotten(item: Item, event: Event) -> None:
    changed = after(item, event)
    assert forgotten(item, changed) == 1
    assert remembered(item, changed) is None


NEITHER: list[tuple[str, Item, Event]] = [
    ("a claim", waiting_again("lost"), Claim(SOCKET, "box", "box-1")),
    ("a claim after a restart", waiting_again("parted"), Claim(SOCKET, "box", "box-1")),
    ("a result", held(), Result("1", 1)),
    ("a result without a number", waiting_again("lost"), Result("1", None)),
    ("a result after a fail", waiting_again("failed"), Result("1", 1)),
    ("a result after a release", waiting_again("released"), Result("1", 1)),
    ("progress", held(), Progress("1", SOCKET, "box", 1)),
    ("a renewal", held(), Renew(SOCKET, "box", 1)),
    ("a cancel", held(), Cancel()),
    ("the end of a life", held(expires_at=LATER), Expire()),
    ("a socket that moves", held(), resume()),
    ("the last loss allowed, not over yet", held(losses=POLICY.max_losses - 1), SocketLost(SOCKET)),
    ("a retry of what failed", ended("failed"), Retry()),
    ("a retry of what was lost", ended("dead"), Retry()),
]


@pytest.mark.parametrize(("item", "event"), [row[1:] for row in NEITHER], ids=[row[0] for row in NEITHER])
def test_nothing_else_is_remembered_or_forgotten(item: Item, event: Event) -> None:
    changed = after(item, event)
    assert (remembered(item, changed), forgotten(item, changed)) == (None, 0)


def test_one_claim_too_many_is_remembered_as_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "CHURN", 1)
    lost = remembered(held(), after(held(), SocketLost(SOCKET)))
    assert lost
    assert (lost.ending, lost.error) == ("lost", "")
    failed = remembered(held(), after(held(), Fail(ERROR, True, 1)))
    assert failed
    assert failed.ending == "failed"
    assert '"churn"' in failed.error


def test_an_attempt_without_a_worker_has_none() -> None:
    item = replace(held(), worker="")
    attempt = remembered(item, after(item, fail()))
    assert attempt
    assert attempt.worker == ""
