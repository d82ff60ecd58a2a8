"""The columns that an item has in every store. No SQL."""

from operator import attrgetter
from typing import Any, Final

from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.model import Item

COLUMNS: Final = (
    "seq",
    "status",
    "ready",
    "rank",
    "due_at",
    "posted_by",
    "posted_at",
    "updated_at",
    "started_at",
    "finished_at",
    "fetched_at",
    "expires_at",
    "lease_until",
    "progress_at",
    "attempts",
    "attempts_base",
    "failures",
    "losses",
    "max_attempts",
    "rev",
    "ending",
    "holder",
    "lease_user",
    "worker",
    "meta",
    "progress",
    "error",
    "key",
    "held",
)

values_of = attrgetter(*COLUMNS)
"""What an item has in them."""
attempt_values_of = attrgetter("attempts", "worker", "started_at", "ended_at", "ending", "error")


def item_of(ids: IdPermutation, row: Any) -> Item:
    """A row of `COLUMNS` (and perhaps `body`) as an item."""
    return Item(ids.id_of(row[0]), *row)
