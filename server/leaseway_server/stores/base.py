"""What a kind of store gives to those who compose: all stores of a server, the tokens alone, a copy, a look at it.

Whatever hinders any of it comes out as `StoreRefused`, which says what, where, and what to do.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leaseway_server.moving.side import Side
from leaseway_server.store.access import AccessStore
from leaseway_server.store.base import Store
from leaseway_server.store.shared import Sharing
from leaseway_server.store.sqlite.backup import Backup


class Stores(Protocol):
    """The stores of one server. What it gives out is closed with it, the last first."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What the log tells of them at the start."""
        ...

    async def access(self) -> AccessStore:
        """The tokens and tickets, as they are now."""
        ...

    async def queue(self, name: str) -> Store:
        """The items of a queue, which is made where it is not there."""
        ...

    @property
    def sharing(self) -> Sharing | None:
        """What is shared with other servers; None where there can be none."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What is there, in words, and as JSON."""

    text: str
    facts: Mapping[str, object]


class Kind(Protocol):
    """One kind of store, at one place."""

    def stores(self, now: Callable[[], int]) -> AbstractAsyncContextManager[Stores]:
        """All that a server needs, for as long as the `with` lasts; what is missing is made. `now` gives ms."""
        ...

    def access(self, *, make: bool) -> AbstractAsyncContextManager[AccessStore]:
        """The tokens alone, as commands have them; `make`: makes what is missing."""
        ...

    def back_up(self, target: Path) -> Backup:
        """Copies all of it into a folder, also while servers use it. Raises `FileExistsError`, too."""
        ...

    def side(self, *, make: bool) -> AbstractAsyncContextManager[Side]:
        """The store as a move sees it; `make`: it may be made there."""
        ...

    async def found(self) -> Found | None:
        """What is there; None where that is only told by a start."""
        ...
