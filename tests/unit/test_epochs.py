"""Whose sockets are whose: own, of another server that is alive, or of one that is gone."""

from leaseway_server.core.model import HTTP, NOBODY
from leaseway_server.runtime.epochs import Epochs
from support.model import NOW, held, waiting_again

GRACE = 30_000
LATER = NOW + 100_000


def epochs(*alive: int, newest: int = 5) -> Epochs:
    """Those of server 3, which found these others when it began."""
    found = Epochs(3, NOW, NOW + GRACE)
    found.begin_among(alive, newest)
    return found


def socket(epoch: int) -> int:
    """A socket of this epoch."""
    return Epochs(epoch, 0, 0).holder(1)


def test_a_socket_is_own_or_elsewhere_or_an_orphan() -> None:
    found = epochs(2, 5)
    assert [found.elsewhere(socket(epoch)) for epoch in range(1, 7)] == [False, True, False, False, True, True]
    assert [found.orphaned(socket(epoch)) for epoch in range(1, 7)] == [True, False, False, True, False, False]
    assert not any(found.elsewhere(holder) or found.orphaned(holder) for holder in (HTTP, NOBODY))


def test_what_a_server_held_that_goes_has_the_grace_from_then_on() -> None:
    found = epochs(2, 5)
    assert not found.look({2, 5}, 5, LATER, GRACE)
    assert found.look({5}, 5, LATER, GRACE)
    assert found.grace_until(socket(2)) == LATER + GRACE
    assert found.grace_until(socket(1)) == NOW + GRACE, "that was gone before"
    assert found.orphaned(socket(2))


def test_a_server_that_comes_back_looks_after_its_own_again() -> None:
    found = epochs(2, 5)
    found.look({5}, 5, LATER, GRACE)
    assert found.look({2, 5}, 5, LATER + 1, GRACE)
    assert found.elsewhere(socket(2))
    assert found.look({5}, 5, LATER + 2, GRACE)
    assert found.grace_until(socket(2)) == LATER + 2 + GRACE


def test_what_is_left_of_a_grace_stays_where_the_clock_is_set() -> None:
    found = epochs(2, 5)
    found.look({5}, 5, LATER, GRACE)
    found.send_away(socket(3))
    found.store_back(LATER + GRACE)
    for step in (-86_400_000, 3_600_000):
        left = [found.grace_until(socket(epoch)) for epoch in (1, 2, 3)]
        parted = found.progress_from(waiting_again("parted", started_at=NOW - 90_000_000))
        found.shift(step)
        assert [found.grace_until(socket(epoch)) - step for epoch in (1, 2, 3)] == left
        assert found.progress_from(waiting_again("parted", started_at=NOW - 90_000_000)) == parted + step


def test_one_that_came_and_went_between_two_looks_is_gone() -> None:
    found = epochs()
    assert found.elsewhere(socket(6)), "a newer one may be alive"
    assert found.look((), 7, LATER, GRACE)
    assert found.grace_until(socket(6)) == found.grace_until(socket(7)) == LATER + GRACE


def test_an_attempt_that_outlived_its_server_has_its_progress_clock_begin_anew() -> None:
    found = epochs(2)
    found.look((), 5, LATER, GRACE)
    assert found.progress_from(held(holder=socket(2), started_at=LATER - 1)) == LATER + GRACE
    assert found.progress_from(held(holder=socket(3), started_at=LATER - 1)) == 0
    assert found.progress_from(waiting_again("parted", started_at=LATER - 1)) == LATER + GRACE
    assert found.progress_from(waiting_again("parted", started_at=LATER)) == 0


def test_over_http_it_does_so_only_where_no_server_was_there() -> None:
    item = held(holder=HTTP, started_at=NOW - 1)
    assert epochs().progress_from(item) == NOW + GRACE
    assert epochs(2).progress_from(item) == 0
