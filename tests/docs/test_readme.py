"""Every snippet of README.md is run, and its figures are those of the code.

A block is run by the function of its marker's name in `RUNS`; one without a marker, or whose marker nobody runs, fails.
"""

import ast
import asyncio
import json
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from playwright.async_api import Page, expect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from client.scripted_peer import A, Conversation, ack, item, peer
from docs.snippets import Snippet, python, serving, shell, snippets, started
from leaseway import Client, Forbidden
from leaseway_server.config import ServerConfig, load_config
from leaseway_server.core.access import TICKET_LIFE, Grants
from leaseway_server.core.jsontext import DEEPEST, HIGHEST_INTEGER, LOWEST_INTEGER
from leaseway_server.core.limits import ServerLimits
from leaseway_server.core.policy import Policy
from leaseway_server.core.queue import META_LIMIT, RECORD_LIMIT, Limits, Queue
from leaseway_server.core.retention import DAY, HOUR, Keep
from leaseway_server.store.place import SqliteFolder
from support.browser import open_tab
from support.server import TestServer, running_server
from support.wire import check_http

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = list(snippets(README))
PAGE_ORIGIN = "http://127.0.0.1:8000"
"""Where the page is served."""
GREETED = """url => new Promise(resolve => {
    const socket = new WebSocket(url.replace("http", "ws") + "/demo/monitor")
    socket.onopen = () => socket.send('{"hello": {}}')
    socket.onmessage = event => resolve(JSON.parse(event.data).type)
    socket.onclose = event => resolve(`${event.code} ${event.reason}`)
})"""
"""In a page: what a socket hears first, or how it was closed."""
KiB = 1024

Run = Callable[[Snippet, Path], Awaitable[None]]
RUNS: dict[str, Run] = {}


def run(run: Run) -> Run:
    """Registers what runs the block whose marker is the function's name."""
    RUNS[run.__name__.replace("_", "-")] = run
    return run


def the(marker: str) -> Snippet:
    """The block of that marker."""
    (snippet,) = (each for each in SNIPPETS if each.marker == marker)
    return snippet


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.marker or snippet.text[:20])
async def test_a_snippet_does_what_is_said_of_it(snippet: Snippet, tmp_path: Path) -> None:
    assert snippet.marker in RUNS, f"nobody runs this block:\n{snippet.text}"
    await RUNS[snippet.marker](snippet, tmp_path)


def test_each_block_is_run_once() -> None:
    assert sorted(snippet.marker for snippet in SNIPPETS) == sorted(RUNS)


# ── The first screen ──


@run
async def make(snippet: Snippet, _folder: Path) -> None:
    """The two commands open the page. They are not run here: this test is one of theirs."""
    assert snippet is SNIPPETS[0]
    assert snippet.commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    for command in snippet.commands:
        assert re.search(rf"^{command.removeprefix('make ')}:.*##", makefile, re.MULTILINE)


@run
async def install(snippet: Snippet, folder: Path) -> None:
    """Installed into a folder (from here, without the packages that are here already), it serves the queue demo."""
    install, serve = snippet.commands
    packages = folder / "packages"
    alone = f"--quiet --no-deps --no-index --no-build-isolation --disable-pip-version-check --target '{packages}'"
    await shell(f"'{sys.executable}' -m {install.replace('pip install', f'pip install {alone}')}", ROOT)
    command = f"'{packages}/bin/'{serve}"
    async with serving(command, folder, PYTHONPATH=str(packages)) as (url, process), httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/")).headers["content-type"].startswith("text/html")
        posted = await http.post(f"{url}/demo/items", json={"item": 1}, headers={"Origin": PAGE_ORIGIN})
        assert (posted.status_code, posted.headers["access-control-allow-origin"]) == (201, PAGE_ORIGIN)
        process.terminate()
        assert await process.wait() == 0
    assert (folder / "leaseway-data" / "demo.db").exists()


@run
async def bare_worker(snippet: Snippet, folder: Path) -> None:
    """At most 15 lines, and `websockets` alone: it works against the real server, and asks again after `empty`."""
    assert len(snippet.lines) <= 15
    assert imported(snippet.text) == {"json", "time", "websockets"}
    async with running_server(folder) as server, python(snippet.at(server.base_url), folder):
        view = await ended(server, {"hello": "world"})
    assert (view["status"], view["progress"]) == ("finished", {"percent": 75})
    assert view["result"] == {"echo": {"hello": "world"}}
    async with (
        peer() as scripted,
        python(snippet.at(scripted.url.removesuffix("/resize").replace("ws", "http")), folder),
    ):
        await hold_the_conversation(await scripted.accept())


async def hold_the_conversation(socket: Conversation) -> None:
    """What PROTOCOL.md §4 says on a work socket; each message is held against its schema, in both directions."""
    for answer in ({"type": "empty"}, item({"ref": 1})):
        assert await socket.hear() == {"claim": {"waitMs": 60_000}}
        await socket.say(without_ref(answer))
    for percent in (25, 50, 75):
        report = await socket.hear()
        assert report == {"progress": {"id": A, "value": {"percent": percent}}}
        await socket.say(without_ref(ack({**report, "ref": 1})))
    report = await socket.hear()
    assert report == {"result": {"id": A, "value": {"echo": {"width": 64}}}}
    await socket.say(without_ref(ack({**report, "ref": 1}, status="finished")))
    await socket.expect("claim")


@run
async def page(snippet: Snippet, folder: Path) -> None:
    """At most 10 lines. Served as the next block does, it shows a worker's work, its death and the end."""
    assert len(snippet.lines) <= 10
    async with open_tab() as tab, page_server(folder) as origin, serving(serve_with(origin), folder) as (url, _):
        expect.set_options(timeout=20_000)
        worker = the("bare-worker").at(url)
        (folder / "page.html").write_text(snippet.at(url).text)
        await tab.page.goto(f"{origin}/page.html")
        await shows(tab.page, "pending")
        async with python(worker, folder):
            await shows(tab.page, '"percent":50')
        await shows(tab.page, "pending")
        async with python(worker, folder):
            await shows(tab.page, "finished")
        states = [json.loads(line) for line in (await tab.page.locator("pre").inner_text()).splitlines()]
    assert runs_of([state["status"] for state in states]) == [
        "pending", "processing", "pending", "processing", "finished",
    ]  # fmt: skip
    assert states[-1] == {"status": "finished", "progress": {"percent": 75}, "result": {"echo": {"hello": "world"}}}
    assert tab.complaints == []


async def shows(page: Page, words: str) -> None:
    """Waits until the last line of the page says so."""
    await expect(page.locator("pre")).to_have_text(re.compile(rf"{re.escape(words)}[^\n]*\n?$"))


@run
async def serve_page(snippet: Snippet, folder: Path) -> None:
    """It serves at the origin that the server was told to let in. From elsewhere a page is refused, and reads why."""
    assert f"open {PAGE_ORIGIN}/page.html" in snippet.text
    (folder / "page.html").write_text("<!doctype html>")
    async with open_tab() as tab, page_server(folder) as origin, serving(serve_with(origin), folder) as (url, _):
        await tab.page.goto(f"{origin}/page.html")
        assert await tab.page.evaluate(GREETED, url) == "hello"
        for address in (f"{origin.replace('127.0.0.1', 'localhost')}/page.html", (folder / "page.html").as_uri()):
            await tab.page.goto(address)
            assert await tab.page.evaluate(GREETED, url) == (
                "4403 pages of this origin may not speak to this server; allowed_origins lists those that may"
            )


def serve_with(origin: str) -> str:
    """The command that starts the server for the page, with another origin."""
    return the("install").replacing(PAGE_ORIGIN, origin).commands[1]


@asynccontextmanager
async def page_server(folder: Path) -> AsyncIterator[str]:
    """The page's own server, on a free port; its origin."""
    (folder / "favicon.ico").touch()  # Browsers ask for it.
    (command,) = the("serve-page").replacing(" 8000 ", " 0 ").commands
    async with started("sh", "-c", f"exec {command}", folder=folder) as process:
        assert process.stdout is not None
        address = re.search(rb"http://[^/]+", await process.stdout.readline())
        assert address is not None
        yield address[0].decode()


# ── The client, and HTTP ──


@run
async def worker(snippet: Snippet, folder: Path) -> None:
    """It works, fails for good what it cannot do, and ends in order."""
    async with running_server(folder) as server, python(snippet.at(server.base_url), folder) as process:
        done, refused = await ended(server, {"hello": "world"}), await ended(server, {})
        process.send_signal(signal.SIGTERM)
        said = (await process.communicate())[1].decode()
        assert process.returncode == 0
    assert "connected to" in said, "it says what it does"
    assert (done["status"], done["progress"], done["result"]) == (
        "finished", {"percent": 50}, {"echo": {"hello": "world"}},
    )  # fmt: skip
    assert (refused["status"], refused["error"]) == ("failed", {"message": "nobody to greet"})


@run
async def client(snippet: Snippet, folder: Path) -> None:
    """It prints the states that it saw, and the result."""
    async with (
        running_server(folder) as server,
        python(the("worker").at(server.base_url), folder),
        python(snippet.at(server.base_url), folder) as process,
    ):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    *states, result = output.decode().splitlines()
    assert states[-1] == "finished {'percent': 50}"
    assert {state.partition(" ")[0] for state in states} <= {"pending", "processing", "finished"}
    assert ast.literal_eval(result) == {"echo": {"hello": "world"}}


@run
async def post(snippet: Snippet, folder: Path) -> None:
    """curl posts, and is answered as the next block shows."""
    need_curl()
    async with running_server(folder) as server:
        answer = json.loads(await shell(snippet.at(server.base_url).text, folder))
    check_http("posted", answer)
    shown = json.loads(the("posted").text)
    assert (answer.keys(), answer["status"]) == (shown.keys(), shown["status"])


@run
async def posted(snippet: Snippet, _folder: Path) -> None:
    """The answer conforms to its schema."""
    check_http("posted", json.loads(snippet.text))


@run
async def wait(snippet: Snippet, folder: Path) -> None:
    """curl is answered when the item has ended."""
    need_curl()
    async with running_server(folder) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        item_id = (await http.post("/demo/items", json={"item": 1})).json()["id"]
        command = snippet.at(server.base_url).replacing(json.loads(the("posted").text)["id"], item_id)
        waiting = asyncio.create_task(shell(command.text, folder))
        claimed = (await http.post("/demo/claim", json={})).json()
        await http.post("/demo/result", json={"id": item_id, "attempts": claimed["attempts"], "value": "done"})
        view = json.loads(await waiting)
    check_http("view", view)
    assert (view["status"], view["result"]) == ("finished", "done")


# ── The configuration ──


@run
async def toml(snippet: Snippet, folder: Path) -> None:
    """It can be read, says what its comments say, and shows the defaults."""
    config = load_config(configure(snippet, folder))
    queue = config.queues["resize"]
    assert config.server == ServerConfig(store=SqliteFolder(folder / "leaseway-data"))
    assert queue.queue.policy == Policy()
    assert all(queue.queue.schemas.documents().values())
    alice, box, root = (frozenset([user]) for user in ("alice", "box", "root"))
    assert queue.grants == Grants(post=alice, fetch=alice, work=box, admin=root)


@run
async def tokens(snippet: Snippet, folder: Path) -> None:
    """The commands print three tokens, and these do what the text says of them."""
    configure(the("toml"), folder)
    output = await shell("\n".join(snippet.commands), folder)
    alice, box, root = re.findall(r"^[\w-]{20,}$", output, re.MULTILINE)
    assert output.startswith("leaseway.toml is fine.\n")
    assert re.search(r"^\w+ +alice .*^\w+ +box +resize +work ", output, re.MULTILINE | re.DOTALL)
    async with serving("leaseway serve", folder) as (url, _):
        async with Client(f"{url}/resize", token=alice):
            pass
        with pytest.raises(Forbidden):
            async with Client(f"{url}/resize", token=box):
                pass
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {box}"}) as http:
            assert (await http.post(f"{url}/resize/claim", json={})).json() == {"type": "empty"}
            administrator = {"Authorization": f"Bearer {root}"}
            assert (await http.get(f"{url}/resize/items", headers=administrator)).status_code == 200
            assert (await http.post(f"{url}/resize/items?token={alice}", json={})).status_code == 401
            bearer = {"Authorization": f"Bearer {alice}"}
            ticket = (await http.post(f"{url}/resize/tickets", headers=bearer)).json()["ticket"]
        monitor = f"{url.replace('http', 'ws')}/resize/monitor?ticket={ticket}"
        async with connect(monitor) as socket:
            await socket.send('{"hello": {}}')
            assert json.loads(await socket.recv())["type"] == "hello"
        async with connect(monitor) as again:
            with pytest.raises(ConnectionClosed, match="4401"):
                await again.recv()


@run
async def look_after(snippet: Snippet, folder: Path) -> None:
    """The commands find a dead item, tell of it, have it tried again, and pause; their comments' undo that."""
    async with running_server(folder) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        item_id = (await http.post("/demo/items", json={"item": 1, "maxAttempts": 1})).json()["id"]
        await http.post("/demo/claim", json={})
        await http.post("/demo/fail", json={"id": item_id, "attempts": 1, "error": {"message": "no"}})

        async def after(commands: list[str]) -> tuple[str, str, bool]:
            """What the commands print, the item's status then, and whether the queue is paused."""
            text = "\n".join(commands).replace(" ID", f" {item_id}")
            output = await shell(text, folder, LEASEWAY_URL=f"{server.base_url}/demo")
            view, facts = (await http.get(f"/demo/items/{item_id}")).json(), (await http.get("/demo")).json()
            return output, view["status"], facts["paused"]

        output, status, paused = await after(snippet.commands)
        assert re.search(rf"^{item_id} .*dead", output, re.MULTILINE), output
        assert '\n  error       {"message": "no"}\n' in output, "of the whole item"
        assert output.count("0 items of demo were retried.\n") == 1, "it was the only dead one, and was retried before"
        assert (status, paused) == ("pending", True)
        undo = [line.rpartition(": ")[2] for line in snippet.lines if ": leaseway" in line]
        assert (await after(undo))[1:] == ("cancelled", False)


# ── What no block shows ──


def test_the_picture_is_well_formed_and_has_both_colours() -> None:
    drawn, *screens = sorted(re.findall(r"!\[[^]]{40,}\]\(([^)]+\.svg)\)", README))
    for screen in screens:
        assert screen.startswith("docs/screens/"), (
            "those are taken by a command, and tests/docs/test_screens.py has them"
        )
    svg = (ROOT / drawn).read_text(encoding="utf-8")
    assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314  It is our own file.
    assert "prefers-color-scheme: dark" in svg


async def test_processes_share_a_folder_but_no_queue(tmp_path: Path) -> None:
    (tmp_path / "leaseway.toml").write_text("[queues.busy]\n[queues.rest]\n")
    async with serving("leaseway serve --queues busy", tmp_path), serving("leaseway serve --queues rest", tmp_path):
        with pytest.raises(AssertionError, match=r"busy\.db is served by another process"):
            async with serving("leaseway serve", tmp_path):
                pass


def test_the_limits_are_those_of_the_code() -> None:
    limits, server = Limits(), ServerLimits()
    told = {
        "an item, a result": f"{limits.value_bytes // KiB} KiB of JSON",
        "a progress record, an error": f"{RECORD_LIMIT // KiB} KiB",
        "`meta`, which travels with an item": f"{META_LIMIT:,} bytes",
        "nesting": f"{DEEPEST} levels",
        "integers": "−2⁶³ to 2⁶⁴−1",
        "waiting for an answer (`waitMs`)": f"{limits.wait_ms // 60_000} minutes",
        "items in one claim, messages in a batch": f"{limits.batch:,}",
        "items in one post": f"{limits.bulk_items:,}",
        "items that one socket watches": f"{limits.subscriptions:,}",
        "items that wait in a queue": f"{Queue('demo').max_pending:,}",
        "open connections of one address, or with one token": f"{server.connections_per_address:,}",
        "messages a second on one socket": f"{server.messages_per_second:,}",
        "wrong tokens of one address in a minute": f"{server.failed_tokens_per_minute:,}",
    }
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE))
    assert {name: rows[name].partition(";")[0].partition(".")[0] for name in told} == told
    whole, array = limits.bulk_bytes // KiB**2, limits.message_bytes // KiB**2
    assert f"NDJSON has at most {whole} MiB, an array {array} MiB" in rows["items in one post"]
    assert (LOWEST_INTEGER, HIGHEST_INTEGER, limits.count) == (-(2**63), 2**64 - 1, limits.batch)
    assert server.connections_per_token == server.connections_per_address
    assert TICKET_LIFE == 30_000
    assert "for one connection within 30 s" in README


def test_the_durations_are_those_of_the_code() -> None:
    server, policy = ServerConfig(), Policy()
    assert policy.lease == 5 * 60_000
    assert "five minutes unless you say otherwise" in README
    vanished = (server.ping_interval + server.ping_timeout) // 1000 + 1
    assert f"within about {vanished} s" in README
    assert f"workers have {server.resume_grace // 1000} s to come back" in README
    assert policy.backoff.delays == (30_000, 120_000, 480_000, 1_920_000)
    assert "after 30 s, 2 min, 8 min and 32 min" in README
    keep = Keep()
    assert (keep.fetched, keep.finished, keep.cancelled, keep.failed) == (HOUR, 7 * DAY, DAY, 90 * DAY)
    assert (keep.expired, keep.dead) == (keep.cancelled, keep.failed)
    assert "finished ones an hour after their producer saw the end, or a week after it" in README
    assert "cancelled and expired ones after a day, failed and dead ones after 90 days" in README
    assert (policy.max_attempts, policy.max_losses) == (5, 5)
    assert "After five failed tries, or after it has taken five workers down" in README


# ── Means ──


def imported(text: str) -> set[str]:
    """The packages that a program imports."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


async def ended(server: TestServer, body: Any) -> dict[str, Any]:
    """Posts an item to the queue demo, and gives its view when it has ended."""
    async with httpx.AsyncClient(base_url=server.base_url, timeout=30) as http:
        item_id = (await http.post("/demo/items", json={"item": body})).json()["id"]
        view: dict[str, Any] = (await http.get(f"/demo/items/{item_id}?waitMs=30000")).json()
    return view


def without_ref(message: dict[str, Any]) -> dict[str, Any]:
    """What a server says to a client that sends no `ref`."""
    return {name: value for name, value in message.items() if name != "ref"}


def runs_of(statuses: list[str]) -> list[str]:
    """The statuses, each as often as it came anew."""
    return [status for before, status in zip([None, *statuses], statuses, strict=False) if status != before]


def configure(snippet: Snippet, folder: Path) -> Path:
    """The configuration as a file, beside the schemas that it names."""
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    file = folder / "leaseway.toml"
    file.write_text(snippet.text)
    return file


def need_curl() -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
