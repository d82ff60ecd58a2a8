"""When an end counts as delivered on a monitor socket: once its peer answered a ping that was sent after it (§3)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.asyncio.client import connect

from leaseway_server.core.commands import Found, Read
from support.matrix import Line, bearer
from support.raw import PING, PONG, RawSocket, raw_socket
from support.server import TestServer, running_server

TOML: Final = '[queues.demo]\naccess = { work = ["box"] }\n'
OFTEN: Final = '[server]\nping_interval = "1s"\nping_timeout = "1m"\n' + TOML + 'lease = "5m"\n'


class Scene:
    """A server, and monitors of ann."""

    def __init__(self, server: TestServer, line: Line, stack: AsyncExitStack) -> None:
        self.server = server
        self._line = line
        self._stack = stack

    @property
    def url(self) -> str:
        """The monitor socket for ann."""
        return f"{self.server.ws_url}/demo/monitor?token={self.server.tokens['ann']}"

    async def monitor(self) -> RawSocket:
        """A monitor that answers nothing by itself."""
        return await self._stack.enter_async_context(raw_socket(self.url))

    async def post(self, user: str = "ann") -> str:
        """A new item of this user."""
        return str((await self._ask("/demo/items", user, {"item": 1}))["id"])

    async def ended(self) -> str:
        """A finished item."""
        return await self.finish(await self.post())

    async def finish(self, item_id: str) -> str:
        """Ends the item."""
        assert (await self._ask("/demo/result", "box", {"id": item_id, "value": 1}))["accepted"]
        return item_id

    async def stamped(self, item_id: str) -> bool:
        """Whether the end counts as delivered, by what the server has heard by now."""
        await self.post("box")  # Stamps go with a turn that is synced anyway.
        found = await self.server.engine("demo").ask(Read((item_id,)))
        assert isinstance(found, Found)
        return bool(found.items[item_id].fetched_at)

    async def tells_again(self, item_id: str) -> bool:
        """Whether a new page with `mine` is told the end."""
        async with raw_socket(self.url) as page:
            page.say({"subscribe": {"mine": True}})
            seen = []
            for ref in ("it is asked for", "it is told"):
                page.say({"ref": ref})
                while (message := await page.hear()).get("ref") != ref:
                    seen.append(message["id"])
                await self.server.engine("demo").ask(Read(()))
            return item_id in seen

    async def _ask(self, path: str, user: str, body: Any) -> Any:
        return (await self._line.ask("POST", path, bearer(self.server.tokens[user]), body)).json


@asynccontextmanager
async def scene(folder: Path, toml: str = TOML) -> AsyncIterator[Scene]:
    async with (
        running_server(folder, toml, users={"ann": (), "box": ()}) as server,
        Line(server.base_url) as line,
        AsyncExitStack() as stack,
    ):
        yield Scene(server, line, stack)


async def read_by_server(monitor: RawSocket) -> None:
    """Whatever the monitor said before, the server has read it by now."""
    monitor.frame(PING, b"read?")
    assert ((frame := await monitor.next()).opcode, frame.data) == (PONG, b"read?")


def by_id(item_id: str) -> Any:
    return {"subscribe": [item_id]}


def mine(_item_id: str) -> Any:
    return {"subscribe": {"mine": True}}


Subscribe = Callable[[str], Any]
either_way = pytest.mark.parametrize("subscribe", [by_id, mine])


@pytest.mark.protocol("3.44")
@either_way
async def test_a_first_view_is_delivered_with_the_pong(subscribe: Subscribe, tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, monitor = await on.ended(), await on.monitor()
        assert (await monitor.ask(subscribe(item_id)))["status"] == "finished"
        payload = await monitor.ping()
        assert not await on.stamped(item_id), "it was written, and no more is known"
        monitor.frame(PONG, payload)
        await read_by_server(monitor)
        assert await on.stamped(item_id)


@pytest.mark.protocol("3.44")
@either_way
async def test_a_change_is_delivered_with_the_pong(subscribe: Subscribe, tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, monitor = await on.post(), await on.monitor()
        assert (await monitor.ask(subscribe(item_id)))["status"] == "pending"
        await read_by_server(monitor)  # And no ping before that: what is open is not stamped.
        await on.finish(item_id)
        assert (await monitor.hear())["status"] == "finished"
        await monitor.answers_ping()
        assert await on.stamped(item_id)


@pytest.mark.protocol("3.29", "3.44")
@pytest.mark.parametrize("read", [True, False])
async def test_what_was_only_written_to_a_connection_that_dies_is_told_again(read: bool, tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, frozen = await on.post(), await on.monitor()
        assert (await frozen.ask(mine(item_id)))["status"] == "pending"
        await on.finish(item_id)
        if read:
            assert (await frozen.hear())["status"] == "finished"
        assert not await on.stamped(item_id)
        frozen.cut()
        assert await on.tells_again(item_id)


async def test_neither_a_message_nor_any_other_pong_proves_anything(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, monitor = await on.ended(), await on.monitor()
        assert (await monitor.ask(mine(item_id)))["status"] == "finished"
        payload = await monitor.ping()
        assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        for other in (b"", b"stray", payload[:-1], payload + b"x"):
            monitor.frame(PONG, other)
        await read_by_server(monitor)
        assert not await on.stamped(item_id)


async def test_a_pong_proves_what_was_written_before_its_ping_and_nothing_later(tmp_path: Path) -> None:
    """There is one ping under way: what is written meanwhile is asked for with the next."""
    async with scene(tmp_path) as on:
        first, second, third = [await on.post() for _ in range(3)]
        monitor = await on.monitor()
        monitor.say({"subscribe": [first, second, third]})
        assert [(await monitor.hear())["status"] for _ in range(3)] == ["pending"] * 3
        await on.finish(first)
        assert (await monitor.hear())["id"] == first
        payload = await monitor.ping()
        for later in (second, third):
            await on.finish(later)
            assert (await monitor.hear())["id"] == later
        monitor.frame(PONG, payload)
        following = await monitor.ping()
        assert [await on.stamped(item_id) for item_id in (first, second, third)] == [True, False, False]
        monitor.frame(PONG, following)
        await read_by_server(monitor)
        assert await on.stamped(second)
        assert await on.stamped(third)


async def test_the_pong_to_a_later_keepalive_will_do_and_the_keepalive_goes_on(tmp_path: Path) -> None:
    """A peer may answer the latest ping only (RFC 6455 §5.5.3)."""
    async with scene(tmp_path, OFTEN) as on:
        item_id, monitor = await on.ended(), await on.monitor()
        assert (await monitor.ask(mine(item_id)))["status"] == "finished"
        asked, keepalive = await monitor.ping(), await monitor.ping()
        assert asked != keepalive
        monitor.frame(PONG, keepalive)
        await read_by_server(monitor)
        assert await on.stamped(item_id)
        monitor.frame(PONG, await monitor.ping())
        assert await monitor.ping(), "the next keepalive"


async def test_a_client_that_answers_pings_by_itself_is_stamped_and_the_next_page_is_not_told_again(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as on:
        item_id = await on.ended()
        async with connect(on.url) as page:
            await page.send('{"subscribe": {"mine": true}}')
            assert item_id in str(await page.recv())
            await (await page.ping())  # By its pong the server has read ours.
            await (await page.ping())
            assert await on.stamped(item_id)
        assert not await on.tells_again(item_id)
