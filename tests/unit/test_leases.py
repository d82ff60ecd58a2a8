"""The committed leases in memory: who holds what, and when the sweep looks at what."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.events import GraceEnd, LeaseEnd
from leaseway_server.core.model import HTTP, NOBODY, Item
from leaseway_server.core.policy import Policy
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.leases import Leases
from support.model import LEASE, NOW, POLICY, held

GRACE = 30_000
START = Epochs(2, NOW, NOW + GRACE)
MINE = START.holder(1)
OTHERS = Epochs(1, 0, 0).holder(1)


def lease(number: int = 1, **changes: object) -> Item:
    """A lease of the item `number`, claimed by a socket of this start."""
    return replace(held(id=f"{number:016x}", holder=MINE), **changes)  # type: ignore[arg-type]


def leases_of(*items: Item, policy: Policy = POLICY) -> Leases:
    leases = Leases(policy, START)
    leases.update(items)
    return leases


def test_sockets_of_every_start_have_numbers_of_their_own() -> None:
    numbers = {Epochs(epoch, 0, 0).holder(number) for epoch in range(1, 4) for number in range(1, 4)}
    assert len(numbers) == 9
    assert min(numbers) > HTTP


def test_only_sockets_from_before_the_start_are_orphans() -> None:
    assert START.orphaned(OTHERS)
    assert not any(map(START.orphaned, (MINE, NOBODY, HTTP)))


def test_what_a_socket_holds_follows_the_commits() -> None:
    leases = leases_of(lease(1), lease(2), lease(3, holder=HTTP))
    assert len(leases) == 3
    assert set(leases.of_holder(MINE, 9)) == {f"{1:016x}", f"{2:016x}"}
    assert len(leases.of_holder(MINE, 1)) == 1
    leases.update([lease(1, holder=START.holder(2)), lease(2, status="pending", holder=NOBODY, lease_until=0)])
    assert (leases.of_holder(MINE, 9), leases.number(MINE)) == ([], 0)
    assert leases.of_holder(START.holder(2), 9) == [f"{1:016x}"]
    leases.update([lease(9, status="finished", holder=NOBODY)])
    assert len(leases) == 2


def test_a_sweep_that_another_server_is_in_the_way_of_is_put_off() -> None:
    leases = leases_of(lease(1), lease(2))
    later = NOW + LEASE + 50
    leases.put_off([*leases.over(NOW + LEASE, 1), "gone meanwhile"], later)
    assert leases.over(NOW + LEASE, 9) == (f"{2:016x}",)
    leases.update([lease(2, status="finished", holder=NOBODY)])
    assert leases.next_end() == later
    assert leases.over(later, 9) == (f"{1:016x}",)
    leases.put_off([f"{1:016x}"], later + 50)
    leases.update([lease(1, lease_until=later + LEASE)])
    assert leases.next_end() == later + LEASE, "it was renewed meanwhile"


def test_a_lease_is_swept_at_its_end() -> None:
    leases = leases_of(lease())
    assert leases.next_end() == NOW + LEASE
    assert leases.over(NOW + LEASE - 1, 10) == ()
    assert leases.over(NOW + LEASE, 10) == (f"{1:016x}",)
    assert leases.over(NOW + LEASE, 10) == (f"{1:016x}",), "until a commit ends it"
    leases.update([lease(status="pending", holder=NOBODY)])
    assert leases.over(NOW + LEASE, 10) == ()
    assert leases.next_end() == 0


def test_the_earliest_are_swept_first_and_no_more_than_asked_for() -> None:
    leases = leases_of(*(lease(number, lease_until=NOW + 100 - number) for number in range(1, 6)))
    assert leases.over(NOW + 100, 2) == (f"{5:016x}", f"{4:016x}")


def test_a_renewed_lease_is_not_swept_at_its_old_end() -> None:
    leases = leases_of(lease())
    leases.update([lease(lease_until=NOW + 3 * LEASE)])
    assert leases.over(NOW + 2 * LEASE, 10) == ()
    assert leases.next_end() == NOW + 3 * LEASE


def test_a_lease_that_ends_earlier_than_before_is_swept_then() -> None:
    leases = leases_of(lease(lease_until=NOW + 3 * LEASE))
    leases.update([lease(attempts=2)])
    assert leases.over(NOW + LEASE, 10) == (f"{1:016x}",)


def test_progress_by_may_end_it_first() -> None:
    policy = Policy(LEASE, progress_by=4_000)
    assert leases_of(lease(), policy=policy).next_end() == NOW + 4_000
    assert leases_of(lease(progress_at=NOW + 9_000), policy=policy).next_end() == NOW + LEASE


def test_after_a_start_the_sockets_of_before_have_the_grace() -> None:
    item = lease(holder=OTHERS, started_at=NOW - 1)
    leases = leases_of(item)
    assert leases.next_end() == NOW + GRACE
    assert leases.sweep_event(item) == GraceEnd(OTHERS, NOW + GRACE)


def test_while_the_store_was_away_no_grace_passed() -> None:
    epochs = Epochs(2, NOW, NOW + GRACE)
    epochs.look([3], 3, NOW, GRACE)
    epochs.look([], 3, NOW + 1, GRACE)
    gone, before, sent = Epochs(3, 0, 0).holder(1), OTHERS, epochs.holder(1)
    epochs.send_away(sent)
    epochs.store_back(NOW + 2 * GRACE)
    assert [epochs.grace_until(holder, 0) for holder in (gone, before, sent)] == [NOW + 2 * GRACE] * 3
    epochs.store_back(NOW + GRACE)
    assert [epochs.grace_until(holder, 0) for holder in (gone, before)] == [NOW + 2 * GRACE] * 2
    assert all(map(epochs.orphaned, (gone, before, sent)))
    assert not epochs.orphaned(epochs.holder(2))


@pytest.mark.protocol("6.19")
def test_who_gave_a_lease_since_it_was_seen_to_be_gone_was_there() -> None:
    epochs = Epochs(2, NOW, NOW + GRACE)
    epochs.look([3], 3, NOW, GRACE)
    epochs.look([], 3, NOW + 1, GRACE)
    holder = Epochs(3, 0, 0).holder(1)
    old, fresh = (
        lease(1, holder=holder, lease_until=NOW + LEASE),
        lease(2, holder=holder, lease_until=NOW + GRACE + LEASE),
    )
    leases = Leases(POLICY, epochs)
    leases.update([old, fresh])
    assert leases.sweep_event(fresh) == GraceEnd(holder, NOW + 2 * GRACE)
    assert leases.over(NOW + 2 * GRACE - 1, 9) == (old.id,)
    leases.update([lease(1, status="pending", holder=NOBODY)])
    assert leases.next_end() == NOW + 2 * GRACE


@pytest.mark.protocol("6.16")
def test_a_lease_without_a_socket_keeps_its_end_over_a_start() -> None:
    for holder in (HTTP, NOBODY):
        item = lease(holder=holder, started_at=NOW - 1, lease_until=NOW + 1)
        assert leases_of(item).next_end() == NOW + 1
        assert leases_of(item).sweep_event(item) == LeaseEnd(NOW + GRACE)
    assert leases_of().sweep_event(lease()) == LeaseEnd(0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 60), st.integers(0, 3), st.booleans()), max_size=40))
def test_it_always_agrees_with_the_rows(story: list[tuple[int, int, int, bool]]) -> None:
    leases, rows = Leases(POLICY, START), {}
    for number, ends, socket, open_ in story:
        status = "processing" if open_ else "pending"
        row = lease(number, status=status, holder=START.holder(socket), lease_until=NOW + ends)
        rows[row.id] = row
        leases.update([row])
        held_now = [row for row in rows.values() if row.status == "processing"]
        assert len(leases) == len(held_now)
        assert leases.next_end() == min((row.lease_until for row in held_now), default=0)
        for holder in {row.holder for row in rows.values()}:
            assert set(leases.of_holder(holder, 99)) == {row.id for row in held_now if row.holder == holder}
        due = [row.id for row in held_now if row.lease_until <= NOW + 30]
        assert sorted(leases.over(NOW + 30, 99)) == sorted(due)


# ── Among other servers ─────────────────────────────────────────────────────────────────────────────────────────────


def among(*alive: int) -> tuple[Leases, Epochs]:
    """The leases of server 2, among these."""
    epochs = Epochs(2, NOW, NOW + GRACE)
    epochs.begin_among(alive, 9)
    return Leases(POLICY, epochs), epochs


def test_what_sockets_of_other_servers_hold_is_theirs() -> None:
    leases, _ = among(3)
    theirs = Epochs(3, 0, 0).holder(1)
    leases.update([lease(1), lease(2, holder=theirs)])
    assert len(leases) == 1
    leases.update([lease(1, holder=theirs)])
    assert len(leases) == 0, "it was resumed there"


def test_a_row_that_is_not_as_remembered_is_taken_as_it_is() -> None:
    leases = leases_of(lease(1), lease(2), lease(3))
    leases.correct(lease(1).id, lease(1, lease_until=NOW + 9 * LEASE))
    leases.correct(lease(2).id, lease(2, status="cancelled", holder=NOBODY))
    leases.correct(lease(3).id, None)
    leases.correct(lease(4).id, None)
    assert leases.next_end() == NOW + 9 * LEASE
    assert [leases.get(lease(number).id) is not None for number in (1, 2, 3, 4)] == [True, False, False, False]
    assert leases.among([lease(1).id, lease(2).id]) == [lease(1).id]


def test_what_is_not_among_all_leases_any_more_has_ended() -> None:
    leases = leases_of(lease(1), lease(2), lease(3), lease(4))
    ended = leases.restore([lease(1, lease_until=NOW + 1), lease(2, attempts=2), lease(3, holder=HTTP), lease(5)])
    assert set(ended) == {lease(number).id for number in (2, 3, 4)}
    assert {each.holder for each in ended.values()} == {MINE}
    assert len(leases) == 4
    assert leases.next_end() == NOW + 1


def test_leases_change_hands_as_servers_go_and_come() -> None:
    leases, epochs = among(3)
    theirs = lease(1, holder=Epochs(3, 0, 0).holder(1))
    epochs.look((), 9, NOW, GRACE)
    leases.update([theirs, lease(2)])
    assert leases.next_end() == NOW + LEASE
    assert leases.get(theirs.id).ends == NOW + GRACE  # type: ignore[union-attr]
    epochs.look({3}, 9, NOW, GRACE)
    leases.regroup()
    assert leases.get(theirs.id) is None
