"""PROTOCOL.md §3 and §5, as a stranger sees a queue that nobody configured: its defaults, its rates, what it keeps."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import wire
from support.clock import START, ManualClock
from support.http_client import http_client
from support.server import open_queue, running_server

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def http(tmp_path: Path, clock: ManualClock) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the queue `demo`, all of whose settings are the default ones."""
    async with running_server(tmp_path, clock=clock) as server, http_client(server.base_url) as http:
        yield http


async def post(http: httpx.AsyncClient, status: int = 201, **body: Any) -> str:
    answer = await http.post("/demo/items", json={"item": 1} | body)
    assert answer.status_code == status, answer.text
    return str(answer.json()["id"])


async def status_of(http: httpx.AsyncClient, item_id: str) -> int:
    """The status of the answer to who asks for the item."""
    return (await http.get(f"/demo/items/{item_id}")).status_code


async def finish(http: httpx.AsyncClient) -> None:
    claimed = (await http.post("/demo/claim", json={})).json()
    report = {"id": claimed["id"], "attempts": claimed["attempts"], "value": 1}
    assert (await http.post("/demo/result", json=report)).json()["accepted"]


# ── How many, and how much ──


@pytest.mark.protocol("5.60", "5.62", "5.63")
@pytest.mark.parametrize("kind", ["json", "x-ndjson"])
async def test_an_array_has_a_thousand_posts_and_not_one_more(kind: str, http: httpx.AsyncClient) -> None:
    for number, status in ((1_001, 422), (1_000, 201)):
        posts = ['{"item":1}'] * number
        content = f"[{','.join(posts)}]" if kind == "json" else "\n".join(posts)
        headers = {"content-type": f"application/{kind}"}
        answer = await http.post("/demo/items", content=content, headers=headers)
        assert answer.status_code == status, answer.text[:300]
    assert len(answer.json()["items"]) == 1_000
    assert (await http.get("/demo")).json()["counts"]["pending"] == 1_000


@pytest.mark.protocol("5.94")
async def test_a_page_of_a_list_has_a_hundred_items_where_nothing_else_is_asked(http: httpx.AsyncClient) -> None:
    assert (await http.post("/demo/items", json=[{"item": 1}] * 101)).status_code == 201
    first = (await http.get("/demo/items")).json()
    rest = (await http.get("/demo/items", params={"cursor": first["next"]})).json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (100, 1, None)


@pytest.mark.protocol("5.114")
@pytest.mark.parametrize(
    ("member", "most"), [("maxAttempts", 1_000), ("delayMs", 2**53 - 1), ("dueAt", 2**53 - 1), ("ttlMs", 2**53 - 1)]
)
async def test_how_large_the_numbers_of_a_post_may_be(member: str, most: int, http: httpx.AsyncClient) -> None:
    await post(http, **{member: most})
    answer = await http.post("/demo/items", json={"item": 1, member: most + 1})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, f"/{member}")


@pytest.mark.protocol("5.110")
async def test_of_very_many_attempts_the_newest_are_told(http: httpx.AsyncClient) -> None:
    """Forty faults of almost 32 KiB, of which 1 MiB is told."""
    item_id = await post(http, maxAttempts=100)
    for number in range(1, 41):
        assert (await http.post("/demo/claim", json={})).json()["attempts"] == number
        fail = {"id": item_id, "attempts": number, "error": {"message": "x" * 32_000}, "retryInMs": 0}
        assert (await http.post("/demo/fail", json=fail)).json()["status"] == "pending"
    answer = await http.get(f"/demo/items/{item_id}/attempts")
    told = [attempt["attempts"] for attempt in answer.json()["attempts"]]
    assert told == list(range(41 - len(told), 41))
    assert len(told) == 2**20 // 32_000


# ── Rates ──


@pytest.mark.protocol("5.44", "5.85", "5.109")
async def test_the_rates_are_of_the_last_sixty_minutes_and_begin_anew_with_a_start(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, clock=clock) as server, http_client(server.base_url) as http:
        for _ in range(3):
            await post(http)
        await finish(http)
        clock.advance(MINUTE)
        await finish(http)
        minutes = await rates(http)
    first = START - START % MINUTE
    quiet = dict.fromkeys(("posted", "claimed", "finished", "failed", "dead", "requeued"), 0)
    before = [{"at": first - ago * MINUTE} | quiet for ago in range(58, 0, -1)]
    assert minutes == [
        *before,
        {"at": first} | quiet | {"posted": 3, "claimed": 1, "finished": 1},
        {"at": first + MINUTE} | quiet | {"claimed": 1, "finished": 1},
    ]
    async with running_server(tmp_path, clock=clock) as server, http_client(server.base_url) as http:
        assert [minute | {"at": 0} for minute in await rates(http)] == [{"at": 0} | quiet] * 60


async def rates(http: httpx.AsyncClient) -> list[dict[str, int]]:
    answer = (await http.get("/demo/rates")).json()
    wire.check_response("GET", "/rates", 200, answer)
    return list(answer["minutes"])


# ── What is kept, and how long ──


@pytest.mark.protocol("5.73")
async def test_a_key_is_held_for_a_day_where_nothing_else_is_configured(
    http: httpx.AsyncClient, clock: ManualClock
) -> None:
    first = await post(http, key="k")
    await http.post(f"/demo/items/{first}/cancel")
    clock.advance(24 * HOUR - 1)
    assert await post(http, 200, key="k") == first
    clock.advance(1)
    assert await post(http, key="k") != first


@pytest.mark.protocol("5.74")
async def test_an_item_stays_as_long_as_its_key_is_held(tmp_path: Path, clock: ManualClock) -> None:
    toml = open_queue(dedupe_window='"1h"', keep='{ cancelled = "1s" }')
    async with running_server(tmp_path, toml, clock=clock) as server, http_client(server.base_url) as http:
        keyed, plain = await post(http, key="k"), await post(http)
        for item_id in (keyed, plain):
            await http.post(f"/demo/items/{item_id}/cancel")
        clock.advance(HOUR - 1)
        await post(http)  # A turn that looks after them.
        assert (await status_of(http, keyed), await status_of(http, plain)) == (200, 404)
        for wait in (1, 10_000):  # The key goes, and then the item within ten seconds.
            clock.advance(wait)
            await post(http)
        assert await status_of(http, keyed) == 404


@pytest.mark.protocol("3.20", "7.8")
async def test_a_finished_item_goes_an_hour_after_its_producer_was_told_of_its_end(tmp_path: Path) -> None:
    """And not an hour after it ended: it is kept for a week for who was not told."""
    clock = ManualClock()
    async with running_server(tmp_path, clock=clock) as server, http_client(server.base_url) as http:
        told, untold = await post(http), await post(http)
        for _ in range(2):
            await finish(http)
        clock.advance(100 * HOUR)
        assert await status_of(http, told) == 200
        await post(http)  # A turn that is synced: the stamp goes with it.
        for wait, expected in ((HOUR - 1, 200), (10_001, 404)):
            clock.advance(wait)
            await post(http)
            listed = (await http.get("/demo/items", params={"status": "finished"})).json()["items"]
            assert [view["id"] for view in listed] == [untold, told][: 1 + (expected == 200)]
            assert await status_of(http, told) == expected
