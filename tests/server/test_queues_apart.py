"""`leaseway serve --queues`: the queues of one file in several processes, over one folder and one set of tokens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from leaseway_server.__main__ import Running
from leaseway_server.config import load_config
from leaseway_server.core.errors import StoreRefused
from support.tokens import TokenFile

TOML = """
[server]
listen = "127.0.0.1:0"
[queues.cats.access]
post = "users"
[queues.dogs.access]
post = "users"
"""


@asynccontextmanager
async def serving(file: Path, queues: str) -> AsyncIterator[httpx.AsyncClient]:
    """A server of these queues of the file."""
    running = Running(load_config(file, queues=queues))
    task = asyncio.create_task(running.run())
    started = asyncio.create_task(running.started.wait())
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        started.cancel()
        task.result()
    try:
        async with httpx.AsyncClient(base_url=running.address) as http:
            yield http
    finally:
        running.stop()
        await task


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration of two queues."""
    path = tmp_path / "leaseway.toml"
    path.write_text(TOML)
    return path


async def test_each_process_serves_its_queues_and_both_know_the_tokens(file: Path) -> None:
    async with serving(file, "cats") as cats, serving(file, "dogs") as dogs:
        with TokenFile(file.parent / "leaseway-data") as store:
            token, secret = store.add("ann", None, None, 0, 0)
            bearer = {"Authorization": f"Bearer {secret}"}
            assert (await cats.post("cats/items", json={"item": 1}, headers=bearer)).status_code == 201
            assert (await dogs.post("dogs/items", json={"item": 2}, headers=bearer)).status_code == 201
            assert (await cats.post("dogs/items", json={"item": 3}, headers=bearer)).status_code == 404
            store.revoke(token.id)
        for http, queue in ((cats, "cats"), (dogs, "dogs")):
            async with asyncio.timeout(5):  # PROTOCOL.md §2: within 5 s.
                while (await http.post(f"{queue}/items", json={"item": 4}, headers=bearer)).status_code != 401:
                    pass


async def test_a_queue_is_served_by_one_process_alone(file: Path) -> None:
    async with serving(file, "cats"):
        with pytest.raises(StoreRefused, match=r"cats\.db is served by another process"):
            async with serving(file, "cats,dogs"):
                pass
        async with serving(file, "dogs") as dogs:
            assert (await dogs.get("_ready")).status_code == 200
