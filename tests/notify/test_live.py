"""Open pages: what their socket is told, and when; who gets none; and that a worker elsewhere makes a bell ring."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from websockets import ConnectionClosed
from websockets.asyncio.client import ClientConnection, connect

from leaseway_notify.announcing import Announcer
from leaseway_notify.service.live import MOST_NEWS, MOST_PAGES, Live, Page
from leaseway_notify.settings import ServiceSettings
from leaseway_notify.stores.base import InboxEntry
from support.notify_service import PATIENCE, TOKEN, Service, notify_service
from support.notify_stores import written
from support.web_service import always, web_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One for all tests of the file."""
    async with notify_service(tmp_path_factory.mktemp("live")) as service:
        yield service


@pytest.fixture
async def bea(service: Service, request: pytest.FixtureRequest) -> str:
    """Somebody whom only this test has."""
    await service.person(request.node.name)
    return str(request.node.name)


@pytest.fixture
def warned() -> Iterator[asyncio.Event]:
    """Set when the pipeline warns of something."""
    event, log = asyncio.Event(), logging.getLogger("leaseway.notify")
    heard = logging.Handler(logging.WARNING)
    heard.emit = lambda record: event.set()  # type: ignore[method-assign]
    log.addHandler(heard)
    yield event
    log.removeHandler(heard)


class Opened:
    """An open page, as its script sees the service."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def told(self) -> Any:
        """The next message."""
        async with asyncio.timeout(PATIENCE):
            return orjson.loads(await self.socket.recv())


async def opened(service: Service, hello: dict[str, Any] | str | bytes) -> Opened:
    """A page that has said something."""
    socket = await connect(f"{service.url.replace('http', 'ws')}/inbox/live", proxy=None)
    await socket.send(hello if isinstance(hello, str | bytes) else orjson.dumps(hello).decode())
    return Opened(socket)


async def put(service: Service, recipient: str, title: str = "Hello") -> InboxEntry:
    """Something new in an inbox, of which nobody was told."""
    plan = await written(service.store, service.clock(), recipient=recipient, title=title)
    entry = await service.store.put_in_inbox(plan.notification, service.clock())
    assert entry is not None
    return entry


async def closed(page: Opened) -> tuple[int, str]:
    """Its end: the code and the reason."""
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionClosed):
            async for _ in page.socket:
                pass
    assert page.socket.close_code is not None
    return page.socket.close_code, page.socket.close_reason or ""


async def test_a_worker_elsewhere_makes_the_bell_ring(service: Service, bea: str) -> None:
    page = await opened(service, {"token": service.token(bea)})
    assert await page.told() == {"type": "hello", "unread": 0}
    async with service.worker():
        said = await service.notify(recipient=bea, title="It rings")
        told = await page.told()
    assert (told["type"], told["unread"]) == ("entries", 1)
    assert [(one["id"], one["title"]) for one in told["entries"]] == [(said["id"], "It rings")]
    await page.socket.close()


async def test_a_page_that_comes_back_gets_what_it_missed(service: Service, bea: str) -> None:
    seen = await put(service, bea, "seen")
    missed = [await put(service, bea, f"missed {number}") for number in (1, 2)]
    page = await opened(service, {"token": service.token(bea), "after": seen.number})
    assert await page.told() == {"type": "hello", "unread": 3}
    assert [one["number"] for one in (await page.told())["entries"]] == [one.number for one in missed]
    await page.socket.close()


async def test_a_page_that_missed_very_much_looks_anew(service: Service, bea: str) -> None:
    for number in range(50):
        await put(service, bea, str(number))
    page = await opened(service, {"token": service.token(bea), "after": 0})
    assert [(await page.told())["type"] for _ in range(3)] == ["hello", "anew", "entries"]
    await page.socket.close()


async def test_what_is_marked_on_one_page_is_shown_on_all(service: Service, bea: str) -> None:
    entry = await put(service, bea)
    pages = [await opened(service, {"token": service.token(bea)}) for _ in range(2)]
    assert [await page.told() for page in pages] == [{"type": "hello", "unread": 1}] * 2
    ids = [entry.notification.id]
    await service.http.post("/inbox/read", json={"ids": ids}, headers=service.headers(bea))
    for page in pages:  # One that had just come may have seen the number before it was told why.
        told = sorted([await page.told(), await page.told()], key=lambda one: str(one["type"]))
        assert told == [{"type": "marked", "verb": "read", "ids": ids}, {"type": "unread", "unread": 0}]
        await page.socket.close()


async def test_others_are_told_nothing(service: Service, bea: str) -> None:
    await service.person("eve")
    page = await opened(service, {"token": service.token("eve")})
    await page.told()
    await put(service, bea)
    await service.programs.post("/announce", json={"recipients": [bea]})
    await put(service, "eve", "for eve")
    await service.programs.post("/announce", json={"recipients": ["eve"]})
    assert [one["title"] for one in (await page.told())["entries"]] == ["for eve"]
    await page.socket.close()


@pytest.mark.parametrize(
    "said", ["{", "7", "{}", '{"token": 7}', '{"token": "x", "after": -1}', '{"token": "x", "after": true}', b"{}"]
)
async def test_a_first_message_that_is_none_ends_the_socket(service: Service, said: str | bytes) -> None:
    assert (await closed(await opened(service, said)))[0] == 4400


async def test_a_token_that_does_not_hold_ends_the_socket(service: Service) -> None:
    code, reason = await closed(await opened(service, {"token": TOKEN}))
    assert (code, "token" in reason) == (4401, True)


async def test_a_socket_ends_with_its_token(service: Service, bea: str) -> None:
    page = await opened(service, {"token": service.token(bea, 60)})
    await page.told()
    service.clock.ahead = 61_000
    try:
        service.served.site.live.announce([bea])
        assert await closed(page) == (4401, "the token's time is over; get another one from the application")
    finally:
        service.clock.ahead = 0


async def test_a_page_that_says_more_is_heard_out(service: Service, bea: str) -> None:
    page = await opened(service, {"token": service.token(bea)})
    await page.told()
    await page.socket.send("whatever")
    await put(service, bea)
    service.served.site.live.announce([bea])
    assert (await page.told())["type"] == "entries"
    await page.socket.close()


async def test_one_recipient_has_only_so_many_pages(service: Service, bea: str) -> None:
    live = service.served.site.live
    with live.page(bea):
        held = [live.page(bea) for _ in range(MOST_PAGES - 1)]
        for one in held:
            one.__enter__()
        assert (await closed(await opened(service, {"token": service.token(bea)})))[0] == 4429
        for one in held:
            one.__exit__(None, None, None)
    page = await opened(service, {"token": service.token(bea)})
    assert (await page.told())["type"] == "hello"
    await page.socket.close()


async def test_a_page_looks_by_itself_from_time_to_time() -> None:
    assert await Page().woken(0) == (True, [])


async def test_a_page_that_reads_nothing_is_told_to_look_anew() -> None:
    live = Live()
    with live.page("ada") as page:
        for number in range(MOST_NEWS + 5):
            live.marked("ada", "read", [str(number)])
        look, news = await page.woken(1)
    assert (look, len(news), news[-1]) == (True, MOST_NEWS + 1, {"type": "anew"})


async def test_a_page_is_told_once_the_database_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: asyncio.Event
) -> None:
    monkeypatch.setattr("leaseway_notify.service.live_socket.AWAY_AGAIN", 0.01)
    async with notify_service(tmp_path) as service:
        page = await opened(service, {"token": service.token()})
        await page.told()
        await put(service, "ada")
        with closing(sqlite3.connect(tmp_path / "notify.db")) as other:
            other.execute("ALTER TABLE inbox RENAME TO elsewhere")
            service.served.site.live.announce(["ada"])
            async with asyncio.timeout(PATIENCE):
                await warned.wait()
            other.execute("ALTER TABLE elsewhere RENAME TO inbox")
        assert (await page.told())["type"] == "entries"
        await page.socket.close()


async def test_announcing_neither_waits_nor_fails(service: Service, warned: asyncio.Event) -> None:
    entry = await put(service, "ada")
    async with web_service(always(500)) as other:
        async with Announcer(ServiceSettings(internal_url=other.url, token=TOKEN)) as announcer:
            await announcer(entry)
            async with asyncio.timeout(PATIENCE):
                await warned.wait()
        assert orjson.loads(other.asked[0].body) == {"recipients": ["ada"]}
    warned.clear()
    async with Announcer(ServiceSettings(internal_url=other.url, token=TOKEN)) as announcer:
        await announcer(entry)  # Nobody is there.
        async with asyncio.timeout(PATIENCE):
            await warned.wait()
    async with Announcer(ServiceSettings(internal_url=other.url)) as announcer:
        await announcer(entry)  # Without a token nobody is told.
