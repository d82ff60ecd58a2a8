"""Waiting claims: who gets what, in which order, until when, and that a turn which fails takes none of them along."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.commands import Ask, Outcome
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.dispatch import (
    AGAIN_MS,
    END,
    HANDS_MS,
    IDLE_LANES,
    MOST_OWED,
    OWED_A_TURN,
    SPARE_ENDS,
    Dispatch,
    Lane,
)
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import START

JPG: dict[str, Json] = {"format": "jpg"}
PNG: dict[str, Json] = {"format": "png"}


def ask(criteria: Json = None, *, holder: int = 7, count: int = 1, until: int = 0) -> Ask:
    return Ask(holder, "box", "box-1", Criteria.parse(criteria), count=count, until=until)


def nobody(_outcome: Outcome) -> None:
    """Nobody is told."""


def somebody() -> Callable[[Outcome], None]:
    """Somebody who can be told from others."""

    def answer(_outcome: Outcome) -> None:
        """Is not called here."""

    return answer


def searching(dispatch: Dispatch) -> list[Lane]:
    """The lanes that still look into the store, in the order in which they would."""
    lanes = [lane for lane in dispatch._lanes.values() if lane.searching]
    return sorted(lanes, key=lambda lane: (lane.searched, lane.oldest().number))


def added(*asks: Ask) -> Dispatch:
    """A dispatch in which these claims wait, with everything looked through."""
    dispatch = Dispatch()
    for each in asks:
        dispatch.add(each, nobody)
    for lane in searching(dispatch):
        lane.cursor = END
    dispatch.commit()
    return dispatch


def taker(dispatch: Dispatch, item: Json, position: tuple[int, int, int] = (0, 0, 1)) -> Ask | None:
    """Who takes an item that becomes ready."""
    return dispatch.oldest_for(position, lambda criteria: criteria.matches(item))[0]


def test_the_oldest_claim_that_matches_takes_the_item() -> None:
    png, jpg, anything = ask(PNG), ask(JPG), ask()
    dispatch = added(png, jpg, anything)
    assert taker(dispatch, JPG) is jpg
    assert taker(dispatch, PNG) is png
    assert taker(dispatch, {"format": "gif"}) is anything
    dispatch.take(jpg)
    assert taker(dispatch, JPG) is anything
    dispatch.take(anything)
    assert taker(dispatch, JPG) is None


def test_claims_of_one_shape_are_served_in_their_order() -> None:
    first, second = ask({"format": "jpg", "width": 1}), ask({"width": 1, "format": "jpg"})
    dispatch = added(first, second)
    item: Json = {"format": "jpg", "width": 1}
    assert taker(dispatch, item) is first
    dispatch.take(first)
    assert taker(dispatch, item) is second


def test_an_item_is_probed_once_a_shape_and_not_once_a_claim() -> None:
    dispatch = added(*(ask(JPG) for _ in range(1_000)), *(ask(PNG) for _ in range(1_000)))
    probed = []

    def meets(criteria: Criteria) -> bool:
        probed.append(criteria)
        return False

    assert dispatch.oldest_for((0, 0, 1), meets) == (None, [])
    assert len(probed) == dispatch.lanes == 2


def test_an_item_is_not_read_where_nobody_waits() -> None:
    dispatch = added(ask())
    dispatch.take(searching(dispatch)[0].oldest().ask if searching(dispatch) else next(iter(dispatch._by_ask)))
    assert dispatch.oldest_for((0, 0, 1), lambda _criteria: pytest.fail("it was looked at")) == (None, [])


def up_to(looks: int, item: Json) -> Callable[[Criteria], bool | None]:
    """Holds the item against so many criteria, and no more."""
    left = iter(range(looks))
    return lambda criteria: None if next(left, None) is None else criteria.matches(item)


def test_lanes_that_were_not_shown_an_item_can_be_made_to_look_for_it() -> None:
    png, jpg, gif = ask(PNG), ask(JPG), ask({"format": "gif"})
    dispatch = added(png, jpg, gif)
    taken, unseen = dispatch.oldest_for((0, 50, 7), up_to(1, JPG))
    assert (taken, [lane.oldest().ask for lane in unseen]) == (None, [jpg, gif])
    dispatch.look_from((0, 50, 7), unseen)
    assert [(lane.oldest().ask, lane.cursor) for lane in searching(dispatch)] == [(jpg, (0, 50, 6)), (gif, (0, 50, 6))]
    assert taker(dispatch, JPG, (0, 50, 6)) is jpg, "what stands before it they have seen"
    assert taker(dispatch, JPG, (0, 50, 7)) is None, "nor are they shown it again"
    dispatch.look_from((0, 50, 9), unseen)
    assert [lane.cursor for lane in unseen] == [(0, 50, 6)] * 2


def test_a_lane_that_was_shown_an_item_takes_it_though_others_were_not() -> None:
    anything, jpg, older = ask(), ask(JPG), ask(PNG)
    dispatch = added(older, jpg, anything)
    dispatch.take(older)
    younger = ask(PNG)
    dispatch.add(younger, nobody)  # Its lane comes first, and is the younger.
    assert dispatch.oldest_for((0, 50, 7), up_to(1, PNG)) == (younger, []), "it is gone: nobody has to look for it"


# ── What is yet to be offered ──


def test_what_is_owed_is_taken_in_its_order_and_as_long_as_it_is_the_rest_waits() -> None:
    claim, brief = ask(until=10), ask()
    dispatch = added(claim, brief)
    assert (dispatch.searching, dispatch.unanswered()) == (False, [brief])
    dispatch.owe(map(str, range(OWED_A_TURN + 2)))
    dispatch.owe(["0"])
    assert (dispatch.searching, dispatch.unanswered()) == (True, [])
    assert dispatch.unanswered(searched=False) == [brief]
    assert dispatch.take_owed() == [str(number) for number in range(OWED_A_TURN)]
    assert dispatch.take_owed() == [str(OWED_A_TURN), str(OWED_A_TURN + 1)]
    assert dispatch.take_owed() == []
    dispatch.owe(["7"])
    dispatch.remove(claim)
    dispatch.remove(brief)
    assert not dispatch.searching, "where nobody waits, nothing is to be done"


def test_what_others_have_in_hand_is_owed_after_a_moment() -> None:
    dispatch = added(ask(until=10))
    dispatch.pass_by(["a"], 100)
    dispatch.pass_by(["b"], 101)
    dispatch.pass_by(["a"], 120)
    assert (dispatch.searching, dispatch.next_back) == (False, 101 + AGAIN_MS), "what waits already is not put off"
    dispatch.come_back(100 + AGAIN_MS)
    assert dispatch.take_owed() == []
    dispatch.come_back(101 + AGAIN_MS)
    assert (dispatch.searching, dispatch.next_back) == (True, 0)
    assert dispatch.take_owed() == ["a", "b"]


def test_a_claim_that_does_not_wait_does_so_for_what_others_have_in_hand_and_a_second_at_most() -> None:
    brief, waiting = ask(), ask(until=9_000)
    dispatch = added(brief, waiting)
    for now in (100, 100 + HANDS_MS // 2):
        dispatch.pass_by(["a"], now)
        assert dispatch.unanswered() == []
        dispatch.come_back(now + AGAIN_MS)
        dispatch.take_owed()
        assert dispatch.unanswered() == [brief], "it may be free by now"
        assert dispatch.next_end() == 100 + HANDS_MS
    assert len(dispatch.end(100 + HANDS_MS)) == 1
    assert (brief in dispatch, waiting in dispatch) == (False, True)


def test_a_claim_that_is_kept_for_what_others_have_in_hand_is_as_brief_after_a_turn_that_failed() -> None:
    brief = ask()
    dispatch = added(brief)
    dispatch.pass_by(["a"], 100)
    dispatch.take(brief)
    dispatch.rollback()
    assert dispatch.unanswered(searched=False) == [brief]
    assert dispatch.next_end() == 100 + HANDS_MS


def test_where_nobody_waits_nobody_looks_for_what_was_passed_by() -> None:
    dispatch = Dispatch()
    dispatch.pass_by(["a"], 100)
    assert dispatch.next_back == 0


@pytest.mark.parametrize("how", ["too many", "rollback", "anew"])
def test_where_all_lanes_look_anew_nothing_is_owed(how: str) -> None:
    dispatch = added(ask(PNG), ask(JPG))
    dispatch.pass_by(["passed by"], 100)
    dispatch.owe(map(str, range(MOST_OWED)))
    assert searching(dispatch) == []
    if how == "too many":
        dispatch.owe(["one more"])
    elif how == "rollback":
        dispatch.rollback()
    else:
        dispatch.look_anew()
    dispatch.come_back(100 + AGAIN_MS)
    assert dispatch.take_owed() == []
    assert [lane.cursor for lane in searching(dispatch)] == [START, START]


def test_a_claim_for_several_takes_so_many() -> None:
    answer = somebody()
    dispatch, wanted = Dispatch(), ask(count=2)
    dispatch.add(wanted, answer)
    (lane,) = searching(dispatch)
    assert lane.wanted() == 2
    assert dispatch.take(wanted) is answer
    assert lane.wanted() == 1
    assert wanted in dispatch
    dispatch.take(wanted)
    assert wanted not in dispatch
    assert len(dispatch) == 0


def test_what_lies_behind_a_lanes_cursor_is_left_to_its_search() -> None:
    claim = ask()
    dispatch = added(claim)
    (lane,) = dispatch._lanes.values()
    lane.cursor = (0, 50, 5)
    assert taker(dispatch, {}, (0, 50, 5)) is claim
    assert taker(dispatch, {}, (0, 50, 6)) is None
    assert [each.oldest().ask for each in searching(dispatch)] == [claim]


def test_lanes_are_searched_with_the_oldest_claim_first() -> None:
    dispatch = Dispatch()
    png, jpg, late = ask(PNG), ask(JPG), ask(PNG)
    for each in (png, jpg, late):
        dispatch.add(each, nobody)
    assert [lane.oldest().ask for lane in searching(dispatch)] == [png, jpg]
    dispatch.take(png)
    assert [lane.oldest().ask for lane in searching(dispatch)] == [jpg, late]


def test_of_the_lanes_that_search_the_next_is_the_one_that_did_so_longest_ago() -> None:
    dispatch = Dispatch()
    assert list(dispatch.to_search()) == []
    for each in (ask(PNG), ask(JPG)):
        dispatch.add(each, nobody)
    png, jpg = searching(dispatch)
    assert dispatch.searching
    assert next(dispatch.to_search()) is png
    assert list(dispatch.to_search()) == [jpg, png]
    png.cursor = END
    assert list(dispatch.to_search()) == [jpg]


def test_the_lane_for_anything_is_known_while_it_has_yet_to_look() -> None:
    dispatch, claim = added(ask(PNG)), ask()
    found = [dispatch.for_anything]
    dispatch.add(claim, nobody)
    (lane,) = searching(dispatch)
    assert [*found, dispatch.for_anything] == [None, lane]
    lane.cursor = END
    assert not dispatch.for_anything


def test_a_lane_without_claims_keeps_its_cursor_but_looks_at_what_stayed_ready() -> None:
    claim = ask(JPG)
    dispatch = added(claim, ask(PNG))
    dispatch.take(claim)
    dispatch.stays_ready((0, 50, 5))
    dispatch.add(ask(JPG), nobody)
    assert [lane.cursor for lane in searching(dispatch)] == [(0, 50, 4)]
    dispatch.add(ask(PNG), nobody)
    assert [lane.cursor for lane in searching(dispatch)] == [(0, 50, 4)], "who waited saw the item and left it"


def test_only_so_many_lanes_are_kept_without_claims() -> None:
    dispatch = added(*(ask({"n": n}) for n in range(IDLE_LANES + 10)))
    for each in list(dispatch._by_ask)[1:]:
        dispatch.take(each)
    dispatch.commit()
    assert len(dispatch._lanes) == IDLE_LANES + 1
    assert taker(dispatch, {"n": 0}), "the lane with a claim is not among the forgotten"


# ── Time ──


def test_claims_end_at_their_time_in_its_order() -> None:
    answers = [somebody() for _ in range(4)]
    dispatch = Dispatch()
    for until, answer in zip((30, 10, 20, 0), answers, strict=True):
        dispatch.add(ask(until=until), answer)
    assert dispatch.next_end() == 10
    assert dispatch.end(9) == []
    assert dispatch.end(20) == [answers[1], answers[2]]
    assert dispatch.next_end() == 30
    assert dispatch.end(1_000) == [answers[0]]
    assert dispatch.next_end() == 0
    assert len(dispatch) == 1, "a claim without a time does not end by it"


def test_claims_wait_on_where_the_clock_is_set() -> None:
    """Who came when it was set already, though that was not seen yet, waits no longer than it asked for."""
    for step in (-1_000_000, 1_000_000):
        dispatch, now = Dispatch(), 2_000_000 + step
        before, after, never = ask(until=2_000_020), ask(until=now + 40), ask()
        for each in (before, after):
            each.wait_ms = 5_000
        for each in (after, before, never):
            dispatch.add(each, nobody)
        dispatch.pass_by(["an item"], 2_000_000)
        dispatch.add(brief := ask(), nobody)
        dispatch.shift(step, now)
        assert brief.until == 0
        assert before.until == now + 20
        assert after.until <= now + 5_000
        assert dispatch.next_end() == min(before.until, after.until)
        dispatch.come_back(now)
        assert dispatch.take_owed() == ["an item"]


def test_the_end_of_a_claim_that_was_served_is_nobodys() -> None:
    served, other = ask(until=10), ask(until=20)
    dispatch = added(served, other)
    dispatch.take(served)
    assert dispatch.next_end() == 20
    assert len(dispatch.end(10)) == 0


def test_the_end_of_a_claim_that_was_served_is_passed_over() -> None:
    served, other = ask(until=10), ask(until=20)
    dispatch = added(served, other)
    dispatch.take(served)
    assert len(dispatch.end(20)) == 1


def test_claims_that_do_not_wait_are_unanswered_once_their_lane_has_seen_all() -> None:
    dispatch = Dispatch()
    now, waiting = ask(), ask(until=10)
    dispatch.add(now, nobody)
    dispatch.add(waiting, nobody)
    assert dispatch.unanswered() == []
    for lane in searching(dispatch):
        lane.cursor = END
    assert dispatch.unanswered() == [now]


def test_the_claims_of_a_socket_are_known() -> None:
    mine, other, mine_too = ask(holder=7), ask(holder=8), ask(PNG, holder=7)
    dispatch = added(mine, other, mine_too)
    assert dispatch.of_holder(7) == [mine, mine_too]
    dispatch.remove(mine)
    dispatch.remove(mine_too)
    assert dispatch.of_holder(7) == []
    assert dispatch.of_holder(8) == [other]


# ── A turn that fails ──


def state(dispatch: Dispatch) -> list[tuple[Ask, int, int]]:
    """The claims, oldest first: (claim, its age, how many it still takes)."""
    waiting = sorted(dispatch._by_ask.values(), key=lambda each: each.number)
    lanes = [list(lane.claims) for lane in dispatch._lanes.values()]
    assert all(lane == sorted(lane) for lane in lanes), "a lane serves its oldest claim first"
    assert sorted(number for lane in lanes for number in lane) == [each.number for each in waiting]
    assert sorted(dispatch._by_number) == [each.number for each in waiting]
    held = {holder: list(asks.values()) for holder, asks in dispatch._by_holder.items()}
    assert {ask for asks in held.values() for ask in asks} == set(dispatch._by_ask)
    assert {*dispatch._idle} == {shape for shape, lane in dispatch._lanes.items() if not lane.claims}
    assert {lane for lane in dispatch._lanes.values() if lane.searching} <= {*dispatch._unseen}
    assert {*dispatch._brief} == {each.number for each in waiting if not each.ask.until}
    return [(each.ask, each.number, each.left) for each in waiting]


steps = st.lists(st.tuples(st.sampled_from(["add", "take", "remove", "end"]), st.integers(0, 9)), max_size=12)


@given(before=steps, failed=steps)
def test_a_rollback_undoes_it_all(before: list[tuple[str, int]], failed: list[tuple[str, int]]) -> None:
    dispatch = Dispatch()

    def do(step: str, number: int) -> None:
        asks = list(dispatch._by_ask)
        if step == "add":
            dispatch.add(
                ask([None, JPG, PNG][number % 3], holder=7 + number % 2, count=1 + number % 3, until=number), nobody
            )
        elif step == "end":
            dispatch.end(number)
        elif asks and step == "take":
            dispatch.take(asks[number % len(asks)])
        elif asks:
            dispatch.remove(asks[number % len(asks)])

    for step in before:
        do(*step)
    dispatch.commit()
    was, ends = state(dispatch), dispatch.next_end()
    for step in failed:
        do(*step)
    dispatch.rollback()
    assert state(dispatch) == was
    assert dispatch.next_end() == ends
    assert all(lane.cursor == START for lane in dispatch._lanes.values()), "every lane looks anew"
    dispatch.rollback()
    assert state(dispatch) == was, "there is nothing more to undo"


def test_claims_that_leave_before_their_time_are_forgotten() -> None:
    dispatch, stays = Dispatch(), ask(until=1)
    dispatch.add(stays, nobody)
    for _ in range(SPARE_ENDS + 2):
        leaves = ask(until=10**6)
        dispatch.add(leaves, nobody)
        dispatch.remove(leaves)
    assert len(dispatch._ends) > SPARE_ENDS
    dispatch.commit()
    assert len(dispatch._ends) == 1
    assert dispatch.next_end() == 1


# ── Among other servers ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_became_ready_elsewhere_is_offered_to_claims_with_criteria() -> None:
    dispatch = added(ask(JPG))
    dispatch.hear_of(["a", "b"])
    assert searching(dispatch) == []
    assert dispatch.take_owed() == ["a", "b"]


def test_claims_for_anything_look_for_it_themselves() -> None:
    dispatch = added(ask())
    dispatch.hear_of(["a"])
    assert [lane.criteria.matches_everything for lane in searching(dispatch)] == [True]
    assert dispatch.take_owed() == []


def test_claims_that_come_later_look_for_it_too() -> None:
    first, anything = ask(JPG), ask()
    dispatch = added(first, anything)
    for each in (first, anything):
        dispatch.remove(each)
    dispatch.commit()
    dispatch.hear_of(["a"])
    for each in (ask(JPG), ask()):
        dispatch.add(each, nobody)
    assert len(searching(dispatch)) == 2


def test_only_claims_for_anything_look_again() -> None:
    """Those with criteria know what they passed by."""
    dispatch = added(ask(JPG), ask())
    dispatch.look_again()
    assert [lane.criteria.matches_everything for lane in searching(dispatch)] == [True]
    nothing = Dispatch()
    nothing.look_again()
    assert not nothing.searching


def test_a_socket_withdraws_all_its_claims_or_one_that_waits() -> None:
    one, other, of_another = ask(JPG), ask(), ask(holder=8)
    dispatch = added(one, other, of_another)
    assert len(dispatch.withdraw(7, one)) == 1
    assert dispatch.withdraw(7, one) == []
    assert len(dispatch.withdraw(7, None)) == 1
    assert [len(dispatch), of_another in dispatch] == [1, True]
