"""Sockets are told what they lost by what is not a turn of this engine: while the database was away, or elsewhere."""

from collections.abc import Callable, Mapping
from functools import partial

from leaseway_server.core.commands import Answer, Command, Found, Outcome, Read
from leaseway_server.core.model import Item
from leaseway_server.runtime.leases import Lease, Leases
from leaseway_server.runtime.teller import Teller


class Losses:
    """The leases of one queue that ended behind the back of those who hold them. `submit` is the engine's."""

    def __init__(self, leases: Leases, teller: Teller, submit: Callable[[Command, Answer], None]) -> None:
        self._leases = leases
        self._teller = teller
        self._submit = submit

    def see(self, item_id: str, item: Item | None) -> None:
        """The row was read, and stands so; None: it is gone."""
        lease = self._leases.get(item_id)
        if lease is not None:
            self._teller.tell_of_loss(item_id, lease, item)
            self._leases.correct(item_id, item)

    def inquire(self, ended: Mapping[str, Lease]) -> None:
        """These ended: the next turn reads what became of the items, and their sockets are told."""
        asked = {item_id: lease for item_id, lease in ended.items() if self._teller.hears(lease.holder)}
        if asked:
            self._submit(Read(tuple(asked)), partial(self._tell, asked))

    def _tell(self, asked: Mapping[str, Lease], outcome: Outcome) -> None:
        found = outcome if isinstance(outcome, Found) else Found()
        for item_id in asked.keys() - set(found.left):
            self._teller.tell_of_loss(item_id, asked[item_id], found.items.get(item_id))
        self.inquire({item_id: asked[item_id] for item_id in found.left})
