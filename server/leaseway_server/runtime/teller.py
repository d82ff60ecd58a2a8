"""What is told once a turn is committed: answers, losses, and what changed to those who watch. Nothing before that."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias, TypeVarTuple

from leaseway_server.core.lifecycle import loss, loss_since
from leaseway_server.core.model import Changes, Item
from leaseway_server.runtime.hub import Hub
from leaseway_server.runtime.leases import Lease
from leaseway_server.runtime.rows import Rows
from leaseway_server.runtime.turn import TurnWork

OnLoss: TypeAlias = Callable[[str, str], None]
"""Told the id of an item that its socket lost, and the reason."""
Told = TypeVarTuple("Told")
GONE: Final = "lapsed"
"""What its holder is told of an item that ended and was removed meanwhile; as what it ended is not known any more."""
_log = logging.getLogger(__name__)


class Teller:
    """Tells of one queue's turns. A fault of one who is told must not keep it from the others, nor end the engine."""

    def __init__(self, queue: str, hub: Hub) -> None:
        self._queue = queue
        self._hub = hub
        self._on_loss: dict[int, OnLoss] = {}

    @property
    def sockets(self) -> int:
        """How many sockets can be told of losses."""
        return len(self._on_loss)

    def tell_losses(self, holder: int, on_loss: OnLoss | None) -> None:
        """From now on `on_loss` is told when this socket loses an item that it holds; None ends it."""
        if on_loss is None:
            self._on_loss.pop(holder, None)
        else:
            self._on_loss[holder] = on_loss

    def committed(self, work: TurnWork, changes: Changes) -> None:
        """Everybody hears of the turn: first those who asked, then those who lost something, then those who watch."""
        for answer, outcome in work.outcomes:
            try:
                answer(outcome)
            except Exception:  # noqa: BLE001  As in `tell`, which would be one call more for each answer.
                self._failed()
        self._tell_of_losses(work.rows, changes)
        shown = (after for before, after in changes if before is None or before.rev != after.rev)
        self.tell(self._hub.publish, shown, work.rows.now)
        self.tell(self._hub.end, [item.id for item in work.rows.gone()])

    def _tell_of_losses(self, rows: Rows, changes: Changes) -> None:
        """Who gave an item back has lost nothing, whatever became of it in the same turn."""
        for before, after in changes:
            if before is None or before.holder not in self._on_loss:
                continue
            if (reason := loss(before, after)) and not rows.given_back(before):
                self.tell(self._on_loss[before.holder], after.id, reason)

    def show(self, items: Collection[Item], gone: Iterable[str], missed: Collection[str], now: int) -> None:
        """Other servers changed these, and removed those: who watches is told. `missed` are posters of items of which
        nobody here can tell the end."""
        self.tell(self._hub.publish, items, now)
        self.tell(self._hub.end, gone)
        self.tell(self._hub.miss, missed)

    def hears(self, holder: int) -> bool:
        """Whether this socket is told of losses."""
        return holder in self._on_loss

    def tell_of_loss(self, item_id: str, lease: Lease, item: Item | None) -> None:
        """A lease ended without a turn of this server; the item stands so by now, or is gone (None)."""
        reason = loss_since(lease.holder, lease.attempts, item) if item is not None else GONE
        if reason and lease.holder in self._on_loss:
            self.tell(self._on_loss[lease.holder], item_id, reason)

    def tell(self, who: Callable[[*Told], None], *what: *Told) -> None:
        """Calls `who`; whatever comes of it is told in the log."""
        try:
            who(*what)
        except Exception:  # noqa: BLE001  Whatever it was, it is told in the log.
            self._failed()

    def _failed(self) -> None:
        _log.exception("an answer could not be given", extra={"event": "answer.failed", "queue": self._queue})
