"""Who looks at an inbox right now. A page is woken, and looks into the store for what is new: none of it is here."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from leaseway_notify.stores.base import InboxVerb

MOST_PAGES: Final = 50
"""Open pages of one recipient."""
MOST_NEWS: Final = 100
"""So much a page may leave unread; then it is told to look anew."""


class TooManyPages(Exception):
    """The recipient has too many open pages."""


class Page:
    """An open page."""

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._news: list[dict[str, Any]] = []
        self._look = False

    def look(self) -> None:
        """There may be something new in the store."""
        self._look = True
        self._wake.set()

    def tell(self, news: dict[str, Any]) -> None:
        """Something was marked."""
        if len(self._news) < MOST_NEWS:
            self._news.append(news)
        elif self._news[-1] is not _ANEW:
            self._news.append(_ANEW)
        self._wake.set()

    async def woken(self, within: float) -> tuple[bool, list[dict[str, Any]]]:
        """Whether to look into the store, and what else there is to tell; to look too, where `within` seconds pass."""
        try:
            async with asyncio.timeout(within):
                await self._wake.wait()
        except TimeoutError:
            self._look = True
        self._wake.clear()
        look, self._look = self._look, False
        news, self._news = self._news, []
        return look, news


_ANEW: Final[dict[str, Any]] = {"type": "anew"}


class Live:
    """The open pages of this service, by recipient."""

    def __init__(self) -> None:
        self._pages: dict[str, set[Page]] = {}

    @contextmanager
    def page(self, recipient: str) -> Iterator[Page]:
        """A page is open meanwhile. Raises `TooManyPages`."""
        pages = self._pages.setdefault(recipient, set())
        if len(pages) >= MOST_PAGES:
            raise TooManyPages
        page = Page()
        pages.add(page)
        try:
            yield page
        finally:
            pages.discard(page)
            if not pages:
                self._pages.pop(recipient, None)

    def announce(self, recipients: Iterable[str]) -> None:
        """There may be something new in these inboxes."""
        for recipient in recipients:
            for page in self._pages.get(recipient, ()):
                page.look()

    def marked(self, recipient: str, verb: InboxVerb, ids: Sequence[str] | None) -> None:
        """The recipient marked these, None for all, on one of the pages: the others show it too."""
        for page in self._pages.get(recipient, ()):
            page.tell({"type": "marked", "verb": verb, "ids": ids})
            page.look()
