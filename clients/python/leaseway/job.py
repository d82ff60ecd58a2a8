"""One item of the queue, as its producer sees it.

Decides nothing: who waits is `following.py`'s, what is asked over HTTP `asking.py`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from leaseway.asking import Asking, Why
from leaseway.errors import Cancelled, Dead, Expired, Failed, NotFinished, WrongShape
from leaseway.following import Following
from leaseway.protocol import View
from leaseway.shapes import Misfit, Read
from leaseway.watch_state import Watched

if TYPE_CHECKING:  # Only type checkers know defaults of type variables before Python 3.13.
    from typing_extensions import TypeVar

    Result = TypeVar("Result", default=Any)
else:
    from typing import TypeVar

    Result = TypeVar("Result")

ENDINGS: dict[str, type[NotFinished]] = {
    "failed": Failed,
    "dead": Dead,
    "cancelled": Cancelled,
    "expired": Expired,
}


@dataclass(frozen=True, slots=True)
class Behind:
    """What stands behind all jobs of one client."""

    following: Following
    asking: Asking
    read: Read
    """Reads a result as the client's `result_type`."""


class Job(Generic[Result]):
    """One item of the queue. It lives as long as its client."""

    def __init__(self, watched: Watched, behind: Behind, *, duplicate: bool = False) -> None:
        self._watched = watched
        self._behind = behind
        self._duplicate = duplicate

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.view.status if self.view else 'not seen yet'}>"

    @property
    def id(self) -> str:
        """The item's id."""
        return self._watched.id

    @property
    def view(self) -> View | None:
        """The newest state that was seen, or None before the first."""
        return self._watched.view

    @property
    def duplicate(self) -> bool:
        """Whether the key of the post was known, so that this is the item that was there.

        It may be the very one: a post with a key is said again where its answer got lost with the connection.
        """
        return self._duplicate

    def watch(self, *, timeout: float | None = None) -> AsyncIterator[View]:
        """The states of the item until its end, which comes exactly once; see `Client.watch`."""
        return self._behind.following.follow([self._watched], timeout)

    async def result(self, *, timeout: float | None = None) -> Result:
        """Waits for the end and gives the result.

        Raises `Failed`, `Dead`, `Cancelled` or `Expired` with the item's error, `WrongShape` for a result that is not
        of the client's `result_type`, `TimeoutError` after so many seconds, and what `Client.watch` raises.
        """
        view = None
        async for view in self.watch(timeout=timeout):  # noqa: B007  Only the last one is wanted.
            pass
        assert view is not None
        if view.status != "finished":
            raise ENDINGS[view.status](view.id, view.error)
        try:
            result: Result = self._behind.read(view.result, "")
        except Misfit as misfit:
            raise WrongShape(view.id, view.result, misfit.path, str(misfit)) from None
        return result

    async def cancel(self) -> bool:
        """Withdraws the item, also from its worker. False where it had ended otherwise before.

        Asked over HTTP: raises `ConnectionLost`, `Forbidden` where it is somebody else's, and `UnknownItem`.
        """
        return await self._behind.asking.cancel(self.id)

    async def why(self) -> Why:
        """What the item waits for, or who holds it. Asked over HTTP: raises `ConnectionLost` and `UnknownItem`."""
        return await self._behind.asking.why(self.id)
