"""What holds for any item and any event."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core import effects
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import (
    Adjust,
    Cancel,
    Claim,
    ClockSet,
    Due,
    Event,
    Expire,
    Fail,
    GraceEnd,
    LeaseEnd,
    Progress,
    Release,
    Renew,
    Result,
    Resume,
    Retry,
    SocketLost,
)
from leaseway_server.core.lifecycle import Refusal, apply, create
from leaseway_server.core.model import HTTP, NOBODY, TERMINAL, Item, NewItem
from leaseway_server.core.policy import Policy
from leaseway_server.core.view import encode_view
from support.model import ERROR, LEASE, NOW, OTHER, SOCKET

# ── What holds for any item and any event ───────────────────────────────────────────────────────────────────────

fences = st.sampled_from([None, 0, 1, 2, 3])
holders = st.sampled_from([NOBODY, HTTP, SOCKET, OTHER])
names = st.sampled_from(["box", "eve"])
workers = st.sampled_from(["", "box-1", "box-2"])
events = st.one_of(
    st.builds(Claim, holders, names, workers),
    st.builds(Progress, st.just('"new"'), holders, names, fences),
    st.builds(Renew, holders, names, fences),
    st.builds(Result, st.just('"done"'), fences),
    st.builds(Fail, st.just(ERROR), st.booleans(), fences, st.floats(0, 0.99), st.sampled_from([None, 0, 5_000])),
    st.builds(Release, holders, names, fences, st.sampled_from([None, 0, 700])),
    st.builds(SocketLost, holders),
    st.builds(LeaseEnd, st.sampled_from([0, NOW])),
    st.builds(GraceEnd, holders),
    st.builds(Resume, holders, names, workers, st.integers(0, 3), st.sampled_from([0, NOW])),
    st.sampled_from([Cancel(), Expire(), Retry(), Due(), ClockSet()]),
    st.builds(Adjust, st.sampled_from([None, -1, 0, 1]), st.sampled_from([None, 0, NOW + 4_000, NOW + 15_000])),
)
times = st.integers(NOW - 5, NOW + 40_000)
policies = st.builds(Policy, st.just(LEASE), st.sampled_from([0, 15_000]), st.integers(1, 3), st.integers(1, 3))
posts = st.builds(
    NewItem,
    st.just('{"kind": "a"}'),
    priority=st.integers(-1, 1),
    delay_ms=st.sampled_from([0, 3_000]),
    ttl_ms=st.sampled_from([None, 20_000]),
    max_attempts=st.integers(0, 2),
)
stories = st.lists(st.tuples(st.integers(-2, 12_000), events), max_size=30)


def view(item: Item) -> dict[str, Any]:
    """What everybody sees of the item. `label` goes with the time, and the times of change go with `rev`."""
    seen: dict[str, Any] = orjson.loads(encode_view(item, 0))
    return {name: value for name, value in seen.items() if name not in ("rev", "updatedAt", "label")}


def told(item: Item, event: Event, now: int, policy: Policy) -> Item | Refusal:
    """What becomes of the event; an adjustment past the end of life is refused as a wrong message."""
    try:
        return apply(item, event, now, policy)
    except BadMessage:
        assert isinstance(event, Adjust)
        return Refusal("state")


@pytest.mark.protocol("1.9", "1.10", "1.45", "3.9")
@given(posts, policies, stories)
def test_any_story_keeps_the_rules(new: NewItem, policy: Policy, story: list[tuple[int, Event]]) -> None:
    now = latest = NOW
    item = create(new, "00000000000000a1", 1, now, policy)
    for passed, event in story:
        now += passed  # Also back: `updatedAt` must bear it.
        latest = max(latest, now)
        before, untouched = item, item.copy()
        changed = told(before, event, now, policy)
        assert before == untouched
        if isinstance(changed, Refusal):
            continue
        item = changed
        assert (item.rev - before.rev) == int(view(item) != view(before) or isinstance(event, Progress))
        assert item.updated_at >= before.updated_at
        assert item.attempts - before.attempts == isinstance(event, Claim)
        assert (item.status in TERMINAL) == (item.finished_at > 0)
        assert (item.status == "processing") == (item.lease_until > 0)
        assert item.holder == NOBODY or item.status == "processing"
        assert not item.ready or (item.status == "pending" and item.due_at <= latest)
        assert item.failures <= item.max_attempts
        assert item.losses <= policy.max_losses
        assert item.failures + item.losses <= item.attempts - item.attempts_base
        assert not (item.status in TERMINAL and before.status in TERMINAL)
        if item.status == "failed":
            assert orjson.loads(item.error)["message"]
        if item.status == "dead" != before.status:
            assert item.failures == item.max_attempts or item.losses == policy.max_losses


@pytest.mark.protocol("1.43")
def test_churn_is_a_thousand() -> None:
    assert effects.CHURN == 1_000, "a number of the protocol"
