"""The delay after a retryable fail: 30 s, 2 m, 8 m, 32 m, at most 1 h, ±15 % (PROTOCOL.md §1, §4)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.backoff import LONGEST_ASKED, Backoff, retry_delay

CHANCES = st.floats(0, 1, exclude_max=True)
MIDDLE = 0.5
HIGHEST = math.nextafter(1, 0)


@pytest.mark.parametrize(
    ("failures", "delay"),
    [
        (1, 30_000),
        (2, 120_000),
        (3, 480_000),
        (4, 1_920_000),
        (5, 1_920_000),
        (64, 1_920_000),
        (10**6, 1_920_000),
    ],
)
def test_the_delays_grow_and_the_last_one_repeats(failures: int, delay: int) -> None:
    assert retry_delay(Backoff(), failures, MIDDLE) == delay


def test_jitter_spreads_a_delay_by_fifteen_per_cent_either_way() -> None:
    assert retry_delay(Backoff(), 1, 0) == 25_500
    assert retry_delay(Backoff(), 1, HIGHEST) == 34_500


@given(st.integers(1, 10**6), CHANCES)
def test_jitter_never_leaves_its_share(failures: int, chance: float) -> None:
    delay = retry_delay(Backoff(), failures, MIDDLE)
    assert 0.85 * delay <= retry_delay(Backoff(), failures, chance) <= 1.15 * delay


def test_the_cap_bounds_a_delay_before_jitter() -> None:
    policy = Backoff(delays=(10 * 3_600_000,))
    assert retry_delay(policy, 1, MIDDLE) == 3_600_000
    assert retry_delay(policy, 1, HIGHEST) == 4_140_000


@pytest.mark.protocol("4.57")
@given(st.integers(0, LONGEST_ASKED), CHANCES)
def test_jitter_never_shortens_what_a_worker_asks_for(asked: int, chance: float) -> None:
    assert asked <= retry_delay(Backoff(), 1, chance, asked) <= math.ceil(1.15 * asked)


def test_what_a_worker_asks_for_takes_the_place_of_the_delay_and_is_not_capped() -> None:
    assert retry_delay(Backoff(), 4, 0, 0) == 0
    assert retry_delay(Backoff(), 4, 0, 7 * 3_600_000) == 7 * 3_600_000
    assert retry_delay(Backoff(), 4, MIDDLE, 100_000) == 107_500


def test_nobody_waits_longer_than_a_year_and_its_jitter() -> None:
    assert retry_delay(Backoff(), 1, 0, 2**53) == LONGEST_ASKED


def test_without_jitter_the_delays_are_exact() -> None:
    policy = Backoff(delays=(1_000, 3_000), jitter=0)
    assert [retry_delay(policy, failures, 0.9) for failures in (1, 2, 3)] == [1_000, 3_000, 3_000]
    assert retry_delay(policy, 1, 0.9, 777) == 777
