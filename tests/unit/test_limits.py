"""What is counted: rates, what is given back, and attempts with tokens that are not valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.limits import (
    MINUTE_MS,
    MOST_ADDRESSES,
    WINDOW_MS,
    Allowance,
    Allowances,
    FailedAttempts,
    Meter,
    Rate,
    ServerLimits,
)

NOW = 1_800_000_000_000

# ── Rates ──


def test_a_rate_holds_so_much_at_once_and_no_more() -> None:
    rate = Rate(100)
    assert rate.spend(60, NOW)
    assert rate.spend(40, NOW)
    assert not rate.spend(1, NOW)


def test_a_rate_fills_in_ten_seconds_and_not_over_its_brim() -> None:
    rate = Rate(100)
    assert rate.spend(100, NOW)
    assert rate.spend(50, NOW + WINDOW_MS // 2)
    assert not rate.spend(51, NOW + WINDOW_MS)
    assert rate.spend(100, NOW + 100 * WINDOW_MS)
    assert not rate.spend(1, NOW + 100 * WINDOW_MS)


def test_who_asked_for_too_much_has_nothing_left() -> None:
    rate = Rate(100)
    assert not rate.spend(101, NOW)
    assert not rate.spend(1, NOW)
    assert rate.spend(1, NOW + 100)


def test_nothing_costs_nothing() -> None:
    rate = Rate(1)
    assert rate.spend(1, NOW)
    assert rate.spend(0, NOW)


@given(st.integers(1, 10**9), st.integers(0, 10**6))
def test_what_just_fits_fits_whatever_the_limit(most: int, later: int) -> None:
    rate = Rate(most)
    assert rate.spend(most, NOW)
    assert rate.spend(most * later // WINDOW_MS if later < WINDOW_MS else most, NOW + later)


@pytest.mark.parametrize("most", range(1, 200))
def test_one_by_one_it_is_as_much_as_at_once(most: int) -> None:
    rate = Rate(most)
    assert [rate.spend(1, NOW) for _ in range(most + 1)] == [True] * most + [False]


LIMITS = ServerLimits(messages_per_second=100, bytes_per_second=50_000, bad_messages=3)


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ([(1_000, 500_000, 3, 0)], [""]),
        ([(1_000, 0, 0, 0), (1, 0, 0, 0)], ["", "too many messages a second"]),
        ([(1_000, 0, 0, 0), (100, 0, 0, 1_000)], ["", ""]),
        ([(1_000, 0, 0, 0), (101, 0, 0, 1_000)], ["", "too many messages a second"]),
        ([(1, 500_000, 0, 0), (1, 1, 0, 0)], ["", "too many bytes a second"]),
        ([(1, 500_000, 0, 0), (1, 25_000, 0, 500), (1, 1, 0, 500)], ["", "", "too many bytes a second"]),
        ([(1, 1, 1, 0)] * 4, ["", "", "", "too many bad messages"]),
        ([(9, 1, 4, 0)], ["too many bad messages"]),
        ([(1, 1, 3, 0), (1, 1, 0, 0), (1, 1, 3, WINDOW_MS), (1, 1, 0, WINDOW_MS)], ["", "", "", ""]),
        ([(1, 1, 3, 0), (1, 1, 1, WINDOW_MS // 3)], ["", "too many bad messages"]),
        ([(2_000, 10**6, 9, 0)], ["too many bad messages"]),
    ],
)
def test_a_meter_tells_the_first_limit_that_is_passed(said: list[tuple[int, int, int, int]], passed: list[str]) -> None:
    meter = Meter(LIMITS)
    assert [meter.passed(messages, size, bad, NOW + at) for messages, size, bad, at in said] == passed


# ── What is given back ──


def test_each_has_its_own_allowance() -> None:
    sockets = Allowances(2)
    assert [sockets.take("a"), sockets.take("a"), sockets.take("a"), sockets.take("b")] == [True, True, False, True]


def test_what_is_given_back_can_be_taken_again() -> None:
    sockets = Allowances(2)
    assert sockets.take("a")
    assert sockets.take("a")
    sockets.give("a")
    assert [sockets.take("a"), sockets.take("a")] == [True, False]
    sockets.give("a", 2)
    assert [sockets.take("a"), sockets.take("a"), sockets.take("a")] == [True, True, False]


def test_who_has_none_is_not_remembered() -> None:
    sockets = Allowances(2)
    for user in ("a", "b"):
        assert sockets.take(user)
    assert len(sockets) == 2
    sockets.give("a")
    assert len(sockets) == 1
    refusing = Allowances(0)
    assert not refusing.take("a")
    assert len(refusing) == 0


def test_a_limit_that_was_lowered_takes_nothing_away() -> None:
    sockets = Allowances(3)
    assert all(sockets.take("a") for _ in range(3))
    sockets.limit = 1
    for left in (2, 1):
        assert not sockets.take("a")
        sockets.give("a")
        assert len(sockets) == 1, left
    assert not sockets.take("a")
    sockets.give("a")
    assert sockets.take("a")


def test_several_share_the_allowance_of_one_user() -> None:
    claims = Allowances(3)
    one, other = Allowance(claims, "box"), Allowance(claims, "box")
    assert [one.take(), other.take(), one.take(), other.take()] == [True, True, True, False]
    assert (one.taken, other.taken) == (2, 1)
    one.give_all()
    assert (one.taken, other.taken) == (0, 1)
    assert [other.take(), other.take(), other.take()] == [True, True, False]
    other.give()
    assert one.take()


def test_what_comes_back_after_all_was_given_back_counts_for_nothing() -> None:
    claims = Allowances(2)
    one, other = Allowance(claims, "box"), Allowance(claims, "box")
    assert one.take()
    assert other.take()
    one.give_all()
    one.give()
    one.give_all()
    assert [one.take(), one.take()] == [True, False]
    for allowance in (one, other):
        allowance.give_all()
    assert len(claims) == 0


# ── Tokens that are not valid ──


def failing(times: int, per_minute: int = 30) -> FailedAttempts:
    failures = FailedAttempts(per_minute)
    for _ in range(times):
        failures.failed("a", NOW)
    return failures


@pytest.mark.parametrize(
    ("times", "after", "too_many"),
    [
        (0, 0, False),
        (29, 0, False),
        (30, 0, True),
        (30, 1_999, True),
        (30, 2_000, False),
        (31, 3_999, True),
        (31, 4_000, False),
        (90, 2 * MINUTE_MS + 1_999, True),
        (90, 2 * MINUTE_MS + 2_000, False),
        (30, 100 * MINUTE_MS, False),
    ],
)
def test_failures_are_forgiven_one_by_one(times: int, after: int, too_many: bool) -> None:
    assert failing(times).too_many("a", NOW + after) is too_many


def test_other_addresses_are_not_concerned() -> None:
    failures = failing(30)
    assert failures.too_many("a", NOW)
    assert not failures.too_many("b", NOW)


def test_what_was_forgiven_is_not_saved_up() -> None:
    failures = failing(1)
    for _ in range(30):
        failures.failed("a", NOW + 100 * MINUTE_MS)
    assert failures.too_many("a", NOW + 100 * MINUTE_MS)


def test_the_limit_may_change_meanwhile() -> None:
    failures = failing(5)
    failures.per_minute = 5
    assert failures.too_many("a", NOW)
    failures.per_minute = 6
    assert not failures.too_many("a", NOW)


def test_so_many_addresses_are_remembered_and_the_oldest_failure_goes_first() -> None:
    failures = FailedAttempts(1)
    for number in range(MOST_ADDRESSES):
        failures.failed(str(number), NOW)
    failures.failed("0", NOW)
    failures.failed("new", NOW)
    assert [failures.too_many(address, NOW) for address in ("0", "1", "2", "new")] == [True, False, True, True]
    assert len(failures._failures) == MOST_ADDRESSES
