"""What befalls the servers of the campaign, their database, and their clients' connections.

Each fault strikes, and mends what it broke before it returns. It is written into the journal before it strikes; what
may come of it is not judged here.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from chaos.crowd import Crowd, Member
from support.postgres import OwnPostgres
from support.process import ServerProcess

TOML: Final = """
[server]
resume_grace = "3s"
ping_interval = "1s"
ping_timeout = "4s"

[queues.demo]
lease = "6s"
access = { post = "open", fetch = "open", work = "open", admin = "open" }

[queues.demo.retry]
delays = ["10ms"]
cap = "1s"
max_losses = 1000
"""
"""As `terms.py` says it. Who answers no ping for so long is cut off; a busy machine is not to be taken for that."""
SUSPENDED_SECONDS: Final = (0.5, 8.0)
"""A server stands still for a moment, or for so long that the others take it for gone."""
LEFT_SECONDS: Final = 0.3
"""The database is away for up to so much longer than it must."""
CUT_AT_ONCE: Final = 4

Fault: TypeAlias = Callable[["Struck"], Coroutine[Any, Any, None]]


class Struck:
    """Three servers, their database and their clients: all that can be struck."""

    def __init__(self, folder: Path, postgres: OwnPostgres, url: str, crowd: Crowd) -> None:
        self.postgres = postgres
        self.crowd = crowd
        self.dice: Random = crowd.dice
        self.members: Sequence[Member] = ()
        self.servers: list[ServerProcess] = []
        for name in ("a", "b", "c"):
            (folder / name).mkdir()
            self.servers.append(ServerProcess(folder / name, TOML, store=url))
        self.database = asyncio.Lock()
        """One thing at a time befalls it."""
        self._struck: set[ServerProcess] = set()
        self.broken: list[str] = []
        """What a server should not have done."""

    async def start(self, server: ServerProcess) -> None:
        """Started until it serves, as a supervisor would: it does not while the database is away. Clients find it."""
        await server.spawn()
        while not await server.serves():
            await server.ended()
            await server.spawn()
        self.crowd.servers.append(address_of(server))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[ServerProcess]:
        """One of the servers, by chance, which nothing else befalls meanwhile. Clients do not find it any more."""
        server = self.dice.choice([server for server in self.servers if server not in self._struck])
        self._struck.add(server)
        self.crowd.servers.remove(address_of(server))
        yield server
        self._struck.remove(server)


def address_of(server: ServerProcess) -> tuple[str, int]:
    """Where it listens."""
    host, _, port = server.base_url.removeprefix("http://").partition(":")
    return host, int(port)


async def killed(struck: Struck) -> None:
    """kill -9 of a server, which is started again."""
    async with struck.one() as server:
        struck.crowd.journal.struck("kill -9 of a server", sockets=True)
        await server.kill()
        await struck.start(server)


async def stopped(struck: Struck) -> None:
    """A planned restart of a server."""
    async with struck.one() as server:
        struck.crowd.journal.struck("planned restart of a server", sockets=True)
        ended = await server.stop()
        if ended.status:
            struck.broken.append(f"a server ended with status {ended.status} in a planned stop")
        await struck.start(server)


async def suspended(struck: Struck) -> None:
    """A server stands still for a while, with all its sockets."""
    async with struck.one() as server:
        struck.crowd.journal.struck("server suspended", sockets=True)
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(struck.dice.uniform(*SUSPENDED_SECONDS))
        server.signal(signal.SIGCONT)
        struck.crowd.servers.append(address_of(server))


async def database_restarted(struck: Struck) -> None:
    """All connections to the database end, and it is away for a moment."""
    await _restart(struck, "fast")


async def database_crashed(struck: Struck) -> None:
    """The same without a word to anybody: it has to recover."""
    await _restart(struck, "immediate")


async def _restart(struck: Struck, mode: str) -> None:
    async with struck.database:
        struck.crowd.journal.struck(f"pg_ctl restart -m {mode}", sockets=True)
        await asyncio.to_thread(struck.postgres.stop, mode)
        await asyncio.sleep(struck.dice.random() * LEFT_SECONDS)
        await asyncio.to_thread(struck.postgres.start)


async def disconnected(struck: Struck) -> None:
    """The connections of all servers to the database are ended there."""
    async with struck.database:
        struck.crowd.journal.struck("connections to the database ended", sockets=False)
        await struck.postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


async def cut(struck: Struck) -> None:
    """Connections of some clients are reset, or swallow what is sent on them, one way or both."""
    for member in struck.dice.sample(struck.members, struck.dice.randint(1, CUT_AT_ONCE)):
        struck.crowd.journal.cut(member.who)
        kind = struck.dice.randrange(4)
        if kind:
            member.way.swallow(to_server=kind != 1, to_client=kind != 2)
        else:
            member.way.reset()


QUICK: Final[dict[str, Fault]] = {
    "servers killed": killed,
    "planned restarts of servers": stopped,
    "databases restarted": database_restarted,
    "databases crashed": database_crashed,
    "connections to the database ended": disconnected,
}
SLOW: Final[dict[str, Fault]] = {**QUICK, "servers suspended": suspended}
