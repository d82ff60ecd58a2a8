"""What a producer asks over HTTP (PROTOCOL.md §5): single items, lists, why an item waits. Each request in a thread.

Owns what the server's refusals mean to a program; how one asks is `http.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from leaseway.errors import ConnectionLost, Forbidden, LeasewayError, NoSuchQueue, Rejected, Unauthorized, UnknownItem
from leaseway.http import Refusal, Remote
from leaseway.protocol import View

PAGE = 100
"""So many items are listed at once."""
Filter = str | Iterable[str] | None
"""One value, several of which one must hold, or None for any."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why an item waits, who holds it, or how it ended. `code` is the protocol's word (§5)."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Why:
    """What an item waits for. `ahead`: so many items come first; None where that is not told."""

    waiting: bool
    reasons: list[Reason]
    ahead: int | None

    def __str__(self) -> str:
        return "; ".join(reason.message for reason in self.reasons) or "nothing hinders it"


class Asking:
    """One queue, asked over HTTP. Raises `ValueError` for what is no address or token.

    Every request raises `ConnectionLost` where the server cannot be reached, and `Unauthorized`, `Forbidden`,
    `NoSuchQueue`, `UnknownItem` or `Rejected`.
    """

    def __init__(self, url: str, token: str | None) -> None:
        Remote(url, token)
        self._url = url
        self._token = token

    async def view(self, item_id: str) -> View:
        """The item's state."""
        return View.of(await self._ask(lambda remote: remote.get(f"items/{item_id}", "status"), item_id))

    async def cancel(self, item_id: str) -> bool:
        """Withdraws the item. False where it had ended otherwise."""
        try:
            await self._ask(lambda remote: remote.post(f"items/{item_id}/cancel", "status"), item_id)
        except Rejected as refused:
            if refused.code != "conflict":
                raise
            return False
        return True

    async def why(self, item_id: str) -> Why:
        """What the item waits for."""
        told = await self._ask(lambda remote: remote.get(f"items/{item_id}/why", "reasons"), item_id)
        reasons = [Reason(reason["code"], reason["message"]) for reason in told["reasons"]]
        return Why(told["waiting"], reasons, told["ahead"])

    async def bulk_items(self) -> int:
        """How many posts the server takes in one array."""
        told = await self._ask(lambda remote: remote.get("", "limits"))
        return int(told["limits"]["maxBulkItems"])

    async def items(self, filters: Mapping[str, Filter], *, results: bool = True) -> AsyncIterator[View]:
        """The items that the filters hold, newest first; the filters are the list's parameters (§5, Lists)."""
        query = [(name, value) for name, values in filters.items() for value in _values(values)]
        query += [] if results else [("results", "false")]
        cursor: str | None = ""
        while cursor is not None:
            page = await self._ask(_page([*query, ("limit", str(PAGE))], cursor))
            for view in page["items"]:
                yield View.of(view)
            if page["next"] == cursor:
                raise ConnectionLost("the server lists the same items again and again")
            cursor = page["next"]

    async def _ask(self, request: Callable[[Remote], Any], item_id: str = "") -> Any:
        try:
            return await asyncio.to_thread(self._request, request)
        except Refusal as refusal:
            raise _meaning(refusal, item_id) from None

    def _request(self, request: Callable[[Remote], Any]) -> Any:
        with closing(Remote(self._url, self._token)) as remote:
            return request(remote)


def _page(query: list[tuple[str, str]], cursor: str) -> Callable[[Remote], Any]:
    """One page; a cursor is never empty."""
    query = [*query, ("cursor", cursor)] if cursor else query
    return lambda remote: remote.get("items", "items", query)


def _values(values: Filter) -> Iterable[str]:
    return () if values is None else (values,) if isinstance(values, str) else values


def _meaning(refusal: Refusal, item_id: str) -> LeasewayError:
    match refusal.status:
        case 401:
            return Unauthorized(str(refusal))
        case 403:
            return Forbidden(str(refusal))
        case 404:
            return UnknownItem(item_id, str(refusal)) if item_id else NoSuchQueue(str(refusal))
    return Rejected(refusal.code, list(refusal.errors) or [{"path": "", "message": str(refusal)}])
