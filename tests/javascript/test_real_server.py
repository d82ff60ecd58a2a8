"""The JavaScript client in Node, Deno and Bun against the real server: work, restart, tokens that end."""

from pathlib import Path
from typing import Final

import pytest

from leaseway_server.testing import MovableClock
from support.node import script
from support.process import server_process
from support.server import open_queue, running_server
from support.tokens import TokenFile

LIFE: Final = 1_800_000
"""Of a token, milliseconds: shorter than the delay of the item that is posted with it."""
OWN = """
[queues.own]
visibility = "own"
retry = { delays = ["10ms"] }
access = { post = "users", fetch = "users", work = "users", admin = ["alice"] }
"""


in_each = pytest.mark.parametrize("runtime", ["node", "deno", "bun"])


@in_each
async def test_a_producer_and_a_worker(runtime: str, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, OWN, users={"alice": []}) as server,
        script("produce.js", f"{server.base_url}/own", server.tokens["alice"], runtime=runtime),
    ):
        pass  # It ends well, or `script` tells why not.


@in_each
async def test_a_server_that_is_killed_costs_nothing(runtime: str, tmp_path: Path) -> None:
    async with (
        server_process(tmp_path, open_queue()) as server,
        script("restart.js", f"{server.ws_url}/demo", runtime=runtime) as running,
    ):
        await running.says("working")
        await server.restart()


@pytest.mark.parametrize("runtime", ["deno", "bun"])
async def test_a_handler_in_a_web_worker(runtime: str) -> None:
    async with script("hosted.js", runtime=runtime):
        pass


@pytest.mark.parametrize("end", ["revoked", "over"])
async def test_a_token_that_ends_is_replaced_or_is_the_end(end: str, tmp_path: Path) -> None:
    clock = MovableClock()
    async with running_server(tmp_path, OWN, users={"alice": []}, clock=clock) as server:
        with TokenFile(tmp_path / "data") as store:
            brief, secret = store.add("alice", None, None, clock.now() + LIFE, clock.now())
            async with script("expiring.js", f"{server.base_url}/own", secret, server.tokens["alice"]) as running:
                await running.says("open")
                if end == "revoked":
                    store.revoke(brief.id)
                else:
                    clock.move(LIFE)
