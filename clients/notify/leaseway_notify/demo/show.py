"""The show: what happens in which order, what is said of it, and whether it went as it should."""

import asyncio
import secrets
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from leaseway_notify.demo.application import EVENTS, READER, Application
from leaseway_notify.demo.browser import Browser
from leaseway_notify.demo.mailbox import Mailbox
from leaseway_notify.demo.processes import DemoFailed, free_port, process, write_settings
from leaseway_notify.serving import WebServer, listen
from leaseway_notify.vapid import new_key

WITHIN: Final = 30.0
"""Seconds that each thing of the show may take."""
LOOK_EVERY: Final = 0.05
INTERRUPTED: Final = 130

Say = Callable[[str], object]


class ShowFailed(DemoFailed):
    """A step of the show went otherwise; everything runs still."""


async def run(*, once: bool, port: int, say: Say) -> int:
    """Gives the exit status: 0 once all was shown, 130 where it was ended before.

    Raises `DemoFailed`; unless `once` not for the show, in which the reader may have had a hand.
    """
    status = INTERRUPTED
    _cancel_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="leaseway-notify-") as folder:
            async with _stage(Path(folder), port) as (application, watched):
                show = _Show(application, say)
                await show.begin()
                say(f"The page: {application.address}/")
                try:
                    await _beside(watched, show.play())
                    status, over = 0, "is over"
                except ShowFailed as failed:
                    if once:
                        raise
                    over = f"went otherwise, since {failed}"
                if not once:
                    say(f"The show {over}; now it is yours: {application.address}/ (Ctrl-C ends it)")
                    await _beside(watched, asyncio.Event().wait())
    except asyncio.CancelledError:
        say("Ended, with everything that was started.")
    return status


def _cancel_on_signals() -> None:
    """The first signal cancels this task, which then ends in order; further ones change nothing."""
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


async def _beside(watched: list[asyncio.Task[None]], work: Awaitable[object]) -> None:
    """Does it, unless one of the processes ends meanwhile."""
    playing = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({playing, *watched}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        playing.cancel()


@asynccontextmanager
async def _stage(folder: Path, port: int) -> AsyncIterator[tuple[Application, list[asyncio.Task[None]]]]:
    """Everything runs: gives the application and the processes."""
    token, secret = secrets.token_hex(32), secrets.token_hex(32)
    async with AsyncExitStack() as stack:
        mailbox = await stack.enter_async_context(Mailbox())
        listener = stack.enter_context(listen("127.0.0.1", port))
        ports = {
            "mail": mailbox.port,
            "page": listener.getsockname()[1],
            "queue": free_port(),
            "service": free_port(),
        }
        write_settings(folder, ports, token, secret)
        await asyncio.to_thread(new_key, folder / "vapid.pem")
        # A connection that is kept may be ended by the service as it is used again, and a POST is not repeated.
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        )
        service = f"http://127.0.0.1:{ports['service']}"
        address = f"http://127.0.0.1:{ports['page']}"
        application = Application(service, address, (token, secret), mailbox, Browser(), session)
        await stack.enter_async_context(page(application, listener))
        commands = (
            (("leaseway_server", "--log", "json"), "serving"),
            (("leaseway_notify", "serve"), "serving"),
            (("leaseway_notify", "worker"), "working"),
        )
        watched = [await stack.enter_async_context(process(folder, *said, ready=ready)) for said, ready in commands]
        yield application, watched


class _Show:
    """What happens, one after another. Each step waits until it is seen."""

    def __init__(self, application: Application, say: Say) -> None:
        self._application = application
        self._say = say

    async def begin(self) -> None:
        """The reader has a profile, before they may press anything."""
        said = {"address": "ada@demo.example", "name": "Ada", "zone": "Europe/Berlin"}
        await self._application.ask("PUT", f"/profiles/{READER}", said)

    async def play(self) -> None:
        """All of it. Raises `ShowFailed`."""
        try:
            await self._play()
        except (aiohttp.ClientError, WebSocketException) as error:
            raise ShowFailed(f"the service could not be asked: {error}") from error

    async def _play(self) -> None:
        live = f"{self._application.url.replace('http', 'ws')}/inbox/live"
        async with connect(live, proxy=None) as bell:
            await bell.send(orjson.dumps({"token": self._application.reader_token()}).decode())
            await self._told(bell, "hello")
            await self._events(bell)
            await self._failing()
            await self._unsubscribed()

    async def _events(self, bell: Any) -> None:
        application = self._application
        subscription = application.browser.subscription(f"{application.address}/push")
        await application.ask("POST", "/push/subscriptions", subscription, as_reader=True)
        self._say("Ada's browser has subscribed to pushes.")
        await application.notify("security")
        rung = await self._told(bell, "entries")
        self._say(f"The bell rings: {rung['entries'][-1]['title']} ({rung['unread']} unread)")
        push = await self._until(lambda: application.browser.pushes)
        self._say(f"A push comes, decrypted: {push[-1]['title']} – {push[-1]['body']}")
        mail = await self._until(lambda: application.mailbox.mails)
        self._say(f"A mail arrives: {mail[-1].subject}")
        for _ in range(3):
            await application.notify("mention")
        mail = await self._until(lambda: [one for one in application.mailbox.mails if "mention" in one.subject])
        self._say(f"Three mentions become one mail: {mail[-1].subject}")

    async def _failing(self) -> None:
        application = self._application
        application.mailbox.failing = True
        self._say("The mail server fails from now on.")
        (email,) = [
            one["id"] for one in (await application.notify("system"))["deliveries"] if one["channel"] == "email"
        ]
        await self._status(email, "retrying")
        self._say("The mail is tried again.")
        dead = await self._status(email, "dead")
        self._say(f"Its tries are spent: dead, {dead['error']}")
        attention = await application.ask("GET", "/attention")
        if email not in [one["id"] for one in attention["dead"]]:
            raise ShowFailed("the mail that is dead is not among what needs attention")
        self._say("It shows under what needs attention. The mail server works again; retry.")
        application.mailbox.failing = False
        await application.ask("POST", f"/attention/{email}/retry")
        await self._status(email, "sent")
        self._say(f"Sent: {application.mailbox.mails[-1].subject}")

    async def _unsubscribed(self) -> None:
        application = self._application
        title = EVENTS["system"]["title"]
        link = next(one.unsubscribe for one in reversed(application.mailbox.mails) if one.subject == title)
        async with (
            aiohttp.ClientSession() as session,
            session.post(link, data={"List-Unsubscribe": "One-Click"}) as told,
        ):
            told.raise_for_status()
        said = (await application.notify("system"))["deliveries"]
        (reason,) = [one["reason"] for one in said if one["channel"] == "email"]
        if reason != "muted":
            raise ShowFailed(f"after unsubscribing a mail is {reason or 'sent'}")
        self._say("One click on the mail's link, and no more mails of this kind are sent.")

    async def _told(self, bell: Any, kind: str) -> Any:
        """The next message of a kind."""
        async with _patience(f"the bell is told no {kind}"):
            while True:
                said = orjson.loads(await bell.recv())
                if said["type"] == kind:
                    return said

    async def _status(self, delivery: str, status: str) -> Any:
        """The delivery, once it is there."""
        async with _patience(f"{delivery} does not become {status}"):
            while True:
                log = await self._application.ask("GET", f"/deliveries?status={status}&limit=100")
                for one in log["deliveries"]:
                    if one["id"] == delivery:
                        return one
                await asyncio.sleep(LOOK_EVERY)

    async def _until(self, found: Callable[[], Any]) -> Any:
        """What is found, once it is something."""
        async with _patience("something did not arrive"):
            while True:
                if seen := found():
                    return seen
                await asyncio.sleep(LOOK_EVERY)


@asynccontextmanager
async def _patience(otherwise: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(WITHIN):
            yield
    except TimeoutError:
        raise ShowFailed(f"{otherwise} within {WITHIN:g} s") from None


@asynccontextmanager
async def page(application: Application, listener: socket.socket) -> AsyncIterator[None]:
    """The application's page is served meanwhile."""
    config = uvicorn.Config(application.app(), log_config=None, access_log=False, lifespan="off")
    web = WebServer(config)
    serving = asyncio.create_task(web.serve([listener]))
    try:
        yield
    finally:
        web.stop()
        await asyncio.wait({serving})
