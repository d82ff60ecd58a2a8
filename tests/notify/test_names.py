"""Names of strangers' addresses: those that nobody answers for cost their own calls alone."""

import asyncio
import socket
import threading
from typing import Any, Final

import pytest

from leaseway_notify.classify import Kind, NotSent
from leaseway_notify.names import THREADS
from leaseway_notify.outbound import Outbound
from support.web_service import always, web_service

PATIENCE: Final = 30.0
BLACK_HOLE: Final = "nobody-answers.example"


class BlackHole:
    """The system's look-up of names, to which nobody answers for one of them until `over`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over, self.full = threading.Event(), asyncio.Event()
        self.held: set[str] = set()
        self._real = socket.getaddrinfo
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: Any, *arguments: Any, **named: Any) -> Any:
        """As the system does it."""
        if BLACK_HOLE not in str(host):
            return self._real(host, *arguments, **named)
        self.held.add(host)
        if len(self.held) >= THREADS:
            self._loop.call_soon_threadsafe(self.full.set)
        self.over.wait(PATIENCE)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


async def test_names_that_nobody_answers_for_keep_no_other_look_up_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    hole = BlackHole(monkeypatch)
    async with Outbound() as outbound, asyncio.timeout(PATIENCE):
        calls = [
            asyncio.create_task(outbound.post(f"https://{number}.{BLACK_HOLE}/", b"", {}, PATIENCE))
            for number in range(4 * THREADS)
        ]
        try:
            await hole.full.wait()
            assert await asyncio.get_running_loop().getaddrinfo("localhost", 25), "as a mail does it"
            assert len(hole.held) == THREADS, "and no more at a time"
        finally:
            hole.over.set()
        for call in calls:
            with pytest.raises(NotSent) as error:
                await call
            assert error.value.fault.kind is Kind.CONNECTION


async def test_a_call_whose_turn_does_not_come_ends_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    hole = BlackHole(monkeypatch)
    async with Outbound() as outbound, asyncio.timeout(PATIENCE):
        try:
            calls = [outbound.post(f"https://{number}.{BLACK_HOLE}/", b"", {}, 0.1) for number in range(2 * THREADS)]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, NotSent)
                assert outcome.fault.kind is Kind.TIMEOUT
        finally:
            hole.over.set()


async def test_a_name_is_looked_up_and_called() -> None:
    async with web_service(always(201)) as service, Outbound(loopback=True) as outbound:
        url = service.url.replace("127.0.0.1", "localhost")
        assert (await outbound.post(url, b"", {}, PATIENCE)).status == 201
