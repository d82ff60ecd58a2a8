"""Tells the service that there is something new in an inbox, so that open pages show it at once.

Says for whom, and not what: the service looks into the store. What is lost on the way costs seconds and nothing else,
since open pages look by themselves from time to time; so nothing waits for it and nothing fails by it.
"""

import asyncio
import logging
from typing import Final, Self

import orjson

from leaseway_notify.classify import NotSent
from leaseway_notify.outbound import Outbound
from leaseway_notify.settings import ServiceSettings
from leaseway_notify.stores.base import InboxEntry

MOST: Final = 1_000
"""Recipients in a call."""
TIMEOUT: Final = 5.0
_log = logging.getLogger("leaseway.notify")


class Announcer:
    """`announce` for the channel `in_app`, while it is entered. Without the service's token nobody is told."""

    def __init__(self, service: ServiceSettings) -> None:
        self._url = f"{service.internal_url}/announce"
        self._token = service.token
        self._outbound = Outbound(anywhere=True)
        self._fresh: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begins to tell."""
        await self._outbound.__aenter__()
        if self._token is not None:
            self._task = asyncio.create_task(self._run(), name="leaseway-notify-announcer")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends; what is being told gets no more time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._outbound.__aexit__()

    async def __call__(self, entry: InboxEntry) -> None:
        """There is something new for its recipient. Returns at once."""
        self._fresh[entry.notification.recipient] = None
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            told = list(self._fresh)[:MOST]
            for recipient in told:
                del self._fresh[recipient]
            if not self._fresh:
                self._wake.clear()
            await self._tell(told)

    async def _tell(self, recipients: list[str]) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            answer = await self._outbound.post(self._url, orjson.dumps({"recipients": recipients}), headers, TIMEOUT)
        except NotSent as error:
            _log.warning("open pages are told later, since the service cannot be reached: %s", error)
            return
        if answer.status >= 300:
            _log.warning("open pages are told later: the service answered %d", answer.status)
