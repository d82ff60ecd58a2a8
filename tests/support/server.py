"""A real server for tests: in this process and event loop, on a free port of loopback, with its store in a folder.

async with running_server(folder, toml, users={"alice": [], "box": ["work"]}) as server:
    server.base_url, server.ws_url, server.tokens["alice"], server.engine("resize")
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from leaseway_schemas import example_folder
from leaseway_server.__main__ import Running
from leaseway_server.config import load_config
from leaseway_server.core.access import Right
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.engine import Engine
from leaseway_server.stores import kind_of

OPEN_ACCESS = '{ post = "open", fetch = "open", work = "open", admin = "open" }'


def resize_queue(**keys: str) -> str:
    """The example queue `resize`, open to everyone; `keys` are further lines of its table, as TOML values."""
    lines = [f'schemas = "{example_folder("resize")}"', f"access = {OPEN_ACCESS}"]
    lines += [f"{name} = {value}" for name, value in keys.items()]
    return "[queues.resize]\n" + "\n".join(lines) + "\n"


def open_queue(name: str = "demo", **keys: str) -> str:
    """A queue without schemas, open to everyone."""
    return "\n".join([f"[queues.{name}]", f"access = {OPEN_ACCESS}", *(f"{k} = {v}" for k, v in keys.items())]) + "\n"


class TestServer:
    """A server that runs."""

    __test__ = False

    def __init__(self, running: Running, tokens: Mapping[str, str]) -> None:
        self.running = running
        self.tokens = dict(tokens)

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT`, without a slash at the end."""
        return self.running.address.rstrip("/")

    @property
    def port(self) -> int:
        """On which it listens."""
        return int(self.base_url.rpartition(":")[2])

    @property
    def ws_url(self) -> str:
        """The same for WebSockets."""
        return self.base_url.replace("http://", "ws://")

    def engine(self, queue: str) -> Engine:
        """The engine of a queue, for tests that look inside."""
        assert self.running.site is not None
        return self.running.site.queues[queue].engine


@asynccontextmanager
async def running_server(
    folder: Path,
    toml: str | None = None,
    *,
    users: Mapping[str, Sequence[Right]] | None = None,
    clock: Clock | None = None,
    port: int = 0,
    store: str = "",
    listen_url: str = "",
) -> AsyncIterator[TestServer]:
    """Serves `toml` (None: the open queue `demo`) with its data in `folder`; each user gets a token of its name.

    Start it again on the same folder, and on its `port`, for a restart. `users` maps names to the rights that their
    tokens are narrowed to (none: not narrowed). `store` may be the URL of a database, `listen_url` as the configuration
    has it.
    """
    config_file = folder / "leaseway.toml"
    chosen = store or f"sqlite:{folder / 'data'}"
    server = f'[server]\nlisten = "127.0.0.1:{port}"\nstore = "{chosen}"\n'
    server += f'listen_url = "{listen_url}"\n' if listen_url else ""
    text = server + (open_queue() if toml is None else toml)
    if toml is not None and "[server]" in toml:
        text = toml.replace("[server]\n", server, 1)
    config_file.write_text(text)
    config = load_config(config_file)
    tokens = {}
    async with kind_of(config.server.store).access(make=True) as access:
        for user, rights in (users or {}).items():
            tokens[user] = (await access.add(user, None, frozenset(rights) or None, 0, 0))[1]
    running = Running(config, clock)
    task = asyncio.create_task(running.run())
    started = asyncio.create_task(running.started.wait())
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        started.cancel()
        task.result()
    try:
        yield TestServer(running, tokens)
    finally:
        running.stop()
        await task
