"""`/inbox/live`: the WebSocket of an open page. It says who it is, and is told what is new until its token ends.

client → server, once     {"token": "…", "after": 17}     `after`: the number of the newest entry that the page has
server → client           {"type": "hello", "unread": 2}
                          {"type": "entries", "entries": […], "unread": 3}
                          {"type": "marked", "verb": "read", "ids": […] or null for all}
                          {"type": "unread", "unread": 1}
                          {"type": "anew"}                 too much has happened: look at the inbox anew

A token travels in the first message: a URL would stand in logs. Close codes: 4400 what was said is wrong, 4401 the
token does not hold, or not any more, 4429 too many open pages.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from leaseway_notify.errors import StoreAway
from leaseway_notify.recipient_token import Recipient
from leaseway_notify.service.live import Page, TooManyPages
from leaseway_notify.service.problems import Problem
from leaseway_notify.service.requests import recognised
from leaseway_notify.service.shown import entry_shown
from leaseway_notify.service.site import Site, site_of

HELLO_WITHIN: Final = 10.0
LOOK_EVERY: Final = 30.0
"""Seconds after which a page looks by itself, whatever it was told."""
AWAY_AGAIN: Final = 1.0
"""Seconds, at least, after which a store that was away is looked into again."""
PORTION: Final = 50
"""Entries that are told at a time; a page that missed more looks anew."""
_log = logging.getLogger("leaseway.notify")


class Ended(Exception):
    """The socket is to be closed, with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


async def live_socket(socket: WebSocket) -> None:
    """Serves one page until it leaves."""
    await socket.accept()
    try:
        site = site_of(socket)
        who, after = await _hello(socket, site)
        with site.live.page(who.id) as page:
            await _serve(_Shown(socket, site, who, after), page)
    except Ended as ended:
        await _close(socket, ended.code, ended.reason)
    except TooManyPages:
        await _close(socket, 4429, "too many open pages; close some")
    except WebSocketDisconnect:
        pass


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with suppress(WebSocketDisconnect):  # It left at the same moment.
        await socket.close(code, reason)


async def _hello(socket: WebSocket, site: Site) -> tuple[Recipient, int | None]:
    """Who it is, and the number of the newest entry that the page has; None where it has none yet."""
    try:
        async with asyncio.timeout(HELLO_WITHIN):
            said = orjson.loads(await socket.receive_text())
    except TimeoutError:
        raise Ended(4400, f"expected a first message within {HELLO_WITHIN:g} s") from None
    except (orjson.JSONDecodeError, KeyError):
        raise Ended(4400, "expected a first message in JSON, as text") from None
    token, after = (said.get("token"), said.get("after")) if isinstance(said, dict) else (None, None)
    if not isinstance(token, str) or not (after is None or (type(after) is int and after >= 0)):
        raise Ended(4400, 'expected {"token": "…"}, and perhaps "after", a number')
    try:
        return recognised(site, token), after
    except Problem as problem:
        raise Ended(4401, problem.detail[:120]) from None


class _Shown:
    """What a page has been told."""

    def __init__(self, socket: WebSocket, site: Site, who: Recipient, after: int | None) -> None:
        self._socket = socket
        self._site = site
        self._who = who
        self._after = after
        self._unread = -1

    @property
    def left(self) -> float:
        """Seconds until the token's time is over."""
        return self._who.until - self._site.clock() / 1000

    async def begin(self) -> None:
        """Tells how many are unread, and what came since the page last looked."""
        store, me = self._site.store, self._who.id
        if self._after is None:
            newest = await store.inbox(me, 1)
            self._after = newest[0].number if newest else 0
        self._unread = await store.unread(me)
        await self.say({"type": "hello", "unread": self._unread})
        await self.look()

    async def look(self) -> None:
        """Tells what is new in the store."""
        store, me = self._site.store, self._who.id
        fresh = [one for one in await store.inbox(me, PORTION) if one.number > (self._after or 0)]
        unread = await store.unread(me)
        if len(fresh) == PORTION:
            await self.say({"type": "anew"})
        if fresh:
            self._after = fresh[0].number
            entries = [entry_shown(one) for one in reversed(fresh)]
            await self.say({"type": "entries", "entries": entries, "unread": unread})
        elif unread != self._unread:
            await self.say({"type": "unread", "unread": unread})
        self._unread = unread

    async def say(self, message: dict[str, Any]) -> None:
        """Sends a message."""
        await self._socket.send_text(orjson.dumps(message).decode())

    async def listen(self) -> None:
        """Until the page leaves; it has nothing more to say."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return


async def _serve(shown: _Shown, page: Page, chance: Callable[[], float] = random.random) -> None:
    """Tells what is new, until the page leaves or its token's time is over."""
    listening = asyncio.create_task(shown.listen())
    telling = asyncio.create_task(_tell(shown, page, chance))
    try:
        await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, telling):
            task.cancel()
        ended = await asyncio.gather(listening, telling, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _tell(shown: _Shown, page: Page, chance: Callable[[], float]) -> None:
    begun = False
    while True:
        try:
            if not begun:
                await shown.begin()
                begun = True
            # Not all at the same time, where many came at the same time.
            look, news = await page.woken(min(LOOK_EVERY * (0.75 + chance() / 2), max(shown.left, 0)))
            if shown.left <= 0:
                raise Ended(4401, "the token's time is over; get another one from the application")
            for each in news:
                await shown.say(each)
            if look:
                await shown.look()
        except StoreAway as error:
            _log.warning("a page is told later: %s", error)
            await asyncio.sleep(AWAY_AGAIN * (1 + chance()))
            page.look()
