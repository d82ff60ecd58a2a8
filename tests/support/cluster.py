"""Several servers on one database, in this process and event loop, each on a port of its own.

async with running_cluster(postgres, folder, 2) as cluster:
    cluster.servers[0].base_url
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from leaseway_server.core.access import Right
from leaseway_server.runtime import neighbours, peers
from leaseway_server.runtime.clock import Clock
from leaseway_server.store.postgres import servers
from support.postgres import Postgres, fresh_database
from support.process import ServerProcess
from support.raw import RawSocket
from support.server import TestServer, open_queue, running_server

PATIENCE: Final = 20.0
OPEN = f"[server]\n{open_queue()}"


class Cluster:
    """Servers that share the database at `url`."""

    def __init__(self, url: str, folder: Path, toml: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.servers: list[TestServer] = []
        self._folder = folder
        self._folders = count()
        self._toml = toml
        self._stack = stack

    async def add(
        self, clock: Clock | None = None, *, url: str = "", listen_url: str = "", users: Sequence[str] = ()
    ) -> TestServer:
        """One more; `url` may lead to the database by another way. Each of the users gets a token."""
        running = self.another(clock, url=url, listen_url=listen_url, users=users)
        self.servers.append(await self._stack.enter_async_context(running))
        return self.servers[-1]

    def another(
        self, clock: Clock | None = None, *, url: str = "", listen_url: str = "", users: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[TestServer]:
        """One that a test may end before the others."""
        folder = self._folder / str(next(self._folders))
        folder.mkdir()
        named: dict[str, Sequence[Right]] = dict.fromkeys(users, ())
        store = url or self.url
        return running_server(folder, self._toml, users=named, clock=clock, store=store, listen_url=listen_url)


@asynccontextmanager
async def running_cluster(
    postgres: Postgres, folder: Path, number: int, toml: str = OPEN, *, clocks: Sequence[Clock] = ()
) -> AsyncIterator[Cluster]:
    """So many servers, with these clocks, on a database of their own."""
    async with fresh_database(postgres) as url, AsyncExitStack() as stack:
        cluster = Cluster(url, folder, toml, stack)
        for place in range(number):
            await cluster.add(clocks[place] if place < len(clocks) else None)
        yield cluster


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that start from now on in this process say more often that they are alive, and are gone sooner."""
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(neighbours, "LOOK_MS", 200)
    monkeypatch.setattr(servers, "GONE_MS", 1_500)


async def until(true: Callable[[], bool]) -> None:
    """Waits until it is so, while the servers go on."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  It is many things, of which none tells when it changes.
            await asyncio.sleep(0)


async def ask(server: TestServer | ServerProcess, method: str, path: str, body: Any = None) -> Any:
    """What the queue `demo` of this server answers, JSON."""
    # Nothing is encrypted here, and to read which certificates are to be trusted takes longer than to ask.
    async with httpx.AsyncClient(base_url=server.base_url, timeout=PATIENCE, verify=False) as http:  # noqa: S501
        answer = await http.request(method, f"/demo{path}", json=body)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


async def until_it_says(server: TestServer, path: str, right: Callable[[Any], bool]) -> Any:
    """Asks until the answer is right: what it tells comes from another server, in its time."""
    async with asyncio.timeout(PATIENCE):
        while not right(answer := await ask(server, "GET", path)):
            pass
    return answer


async def hear_until(socket: RawSocket, right: Callable[[Any], bool]) -> list[Any]:
    """All that is heard up to the message that is right, and this one."""
    heard: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while not heard or not right(heard[-1]):
            heard.append(await socket.hear())
    return heard
