"""A token that ends while its request waits gives nothing any more (PROTOCOL.md §2)."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from leaseway_server.core.commands import Found, Read
from leaseway_server.core.model import Item
from leaseway_server.runtime.engine import Engine
from leaseway_server.runtime.looking import Looking
from leaseway_server.web import bulk
from support.server import running_server
from support.tokens import TokenFile

TOML = '[queues.demo.access]\npost = "open"\nfetch = "users"\nwork = "users"\n'


async def test_what_comes_for_a_waiting_claim_of_a_revoked_token_is_given_back(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, TOML, users={"box": []}) as server,
        httpx.AsyncClient(base_url=server.base_url, headers=bearer(server.tokens["box"])) as box,
        httpx.AsyncClient(base_url=server.base_url) as anyone,
    ):
        claim = asyncio.create_task(box.post("/demo/claim", json={"waitMs": 60_000}))
        item_id = (await anyone.post("/demo/items", json={"item": 1})).json()["id"]
        first = (await claim).json()
        assert first["id"] == item_id, "the claim waited, and is served as long as its token is valid"

        claim = asyncio.create_task(box.post("/demo/claim", json={"waitMs": 60_000}))
        watch = asyncio.create_task(box.get(f"/demo/items/{item_id}", params={"waitMs": 60_000}))
        while len(server.engine("demo").hub) == 0:
            await anyone.get("/_health")
        with TokenFile(tmp_path / "data") as store:
            (token,) = store.all()
            store.revoke(token.id)
        while (await box.get(f"/demo/items/{item_id}")).status_code != 401:
            pass
        late = (await anyone.post("/demo/items", json={"item": 2})).json()["id"]
        assert (await claim).status_code == 401
        result = {"id": item_id, "attempts": first["attempts"], "value": 1}
        assert (await box.post("/demo/result", json=result)).status_code == 401
        watch.cancel()
        item = await stored(server.engine("demo"), late)
        assert (item.status, item.losses) == ("pending", 0)


@pytest.mark.protocol("5.102")
async def test_what_is_done_to_many_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SLICE", 1)
    page, reading, revoked = Looking.page, asyncio.Event(), asyncio.Event()

    async def held_up(self: Looking, *arguments: Any, **named: Any) -> Any:
        reading.set()
        await revoked.wait()
        return await page(self, *arguments, **named)

    monkeypatch.setattr(Looking, "page", held_up)
    async with (
        running_server(tmp_path, TOML + 'admin = ["root"]\n', users={"root": []}) as server,
        httpx.AsyncClient(base_url=server.base_url, headers=bearer(server.tokens["root"])) as root,
    ):
        await root.post("/demo/items", json=[{"item": number} for number in range(3)])
        cancelling = asyncio.create_task(root.post("/demo/bulk", json={"action": "cancel", "filter": {}}))
        await reading.wait()
        with TokenFile(tmp_path / "data") as store:
            (token,) = store.all()
            store.revoke(token.id)
        while (await root.get("/demo")).status_code != 401:
            pass
        revoked.set()
        assert (await cancelling).status_code == 401
        counts = server.engine("demo").tally.counts
        assert (counts["cancelled"], counts["pending"]) == (1, 2)


def bearer(token: str) -> dict[str, str]:
    """The header that a token travels in."""
    return {"Authorization": f"Bearer {token}"}


async def stored(engine: Engine, item_id: str) -> Item:
    """The item as it stands, once what was said before is done."""
    found = await engine.ask(Read((item_id,)))
    assert isinstance(found, Found)
    return found.items[item_id]
