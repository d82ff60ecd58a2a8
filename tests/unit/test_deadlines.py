"""When a row is over: by the store's clock, which the engine's may be ahead of."""

from leaseway_server.core.dispatch import Dispatch
from leaseway_server.runtime.deadlines import TICK_MS, Deadlines, Minima
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.leases import Leases
from support.model import LEASE, NOW, POLICY, held


def test_what_is_over_is_so_by_the_stores_clock() -> None:
    """Else a sweep that the store's time refuses would be tried again and again."""
    leases = Leases(POLICY, Epochs(1, NOW, NOW))
    leases.update([held(holder=1 << 32 | 1)])
    deadlines = Deadlines(Dispatch(), leases, NOW, 0, 0, 0)
    deadlines.minima = Minima(due=NOW + LEASE)
    deadlines.look(NOW + LEASE, 0)
    assert deadlines.over(NOW + LEASE, 0, synced=False).due
    deadlines.agree(NOW + LEASE, NOW + LEASE - 50)
    sweeps = deadlines.over(NOW + LEASE, 0, synced=False)
    assert (sweeps.due, sweeps.leases) == (False, ())
    assert deadlines.next(0, 0) == NOW + LEASE + 50
    sweeps = deadlines.over(NOW + LEASE + 50, 0, synced=False)
    assert (sweeps.due, len(sweeps.leases)) == (True, 1)
    deadlines.agree(NOW + LEASE + 50, NOW + LEASE + 60)
    assert deadlines.over(NOW + LEASE, 0, synced=False).due, "a turn's time is read after it began"


def test_an_engine_that_is_far_ahead_looks_up_all_the_same() -> None:
    deadlines = Deadlines(Dispatch(), Leases(POLICY, Epochs(1, NOW, NOW)), NOW, 0, 0, 0)
    deadlines.minima = Minima(due=NOW + 1)
    deadlines.agree(NOW + 3_600_000, NOW)
    assert deadlines.next(0, 0) == NOW + TICK_MS
