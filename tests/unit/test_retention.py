"""Which ended items may go, and when."""

from dataclasses import fields

from leaseway_server.core.model import TERMINAL
from leaseway_server.core.retention import DAY, HOUR, Keep, Outstayed


def test_each_end_has_its_own_time() -> None:
    keep = Keep(fetched=1, finished=2, failed=3, dead=4, cancelled=5, expired=6)
    assert keep.outstayed(100) == (
        Outstayed("finished", True, 99),
        Outstayed("finished", False, 98),
        Outstayed("failed", False, 97),
        Outstayed("dead", False, 96),
        Outstayed("cancelled", False, 95),
        Outstayed("expired", False, 94),
    )


def test_no_end_is_left_out() -> None:
    assert {which.status for which in Keep().outstayed(0)} == TERMINAL
    assert len(Keep().outstayed(0)) == len(fields(Keep))


def test_the_defaults_are_those_of_the_page() -> None:
    assert Keep() == Keep(HOUR, 7 * DAY, 90 * DAY, 90 * DAY, DAY, DAY)
