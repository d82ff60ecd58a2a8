"""Behind the real Caddy with the reference Caddyfile: both sockets, HTTP, reloads, health, and what is not passed."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from leaseway import Attempt, Client, Worker
from leaseway.connection import Outside
from leaseway_server.config import ServerConfig
from support.caddy import CADDYFILE, Caddy, caddy, find_caddy, listening_ports
from support.plain_http import exchange, request
from support.raw import raw_socket
from support.server import TestServer, running_server
from support.upstream import recorder

SEEN_SOON = {"health_interval 2s": "health_interval 50ms"}


@asynccontextmanager
async def site(
    folder: Path, changes: dict[str, str] | None = None, *, tls: bool = False
) -> AsyncIterator[tuple[Caddy, TestServer]]:
    """Caddy in front of a server with the open queue `demo`."""
    async with running_server(folder) as server, caddy(folder, server.base_url, changes, tls=tls) as proxy:
        yield proxy, server


# ── What passes ──


async def test_the_whole_way_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path, tls=True) as (proxy, _):
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.root_certificate))
        worker = Worker(f"{proxy.ws_url}/demo")

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            await job.progress({"percent": 50})
            return {"echo": item}

        trust = ssl.create_default_context(cafile=proxy.root_certificate)
        async with Client(f"{proxy.ws_url}/demo") as queue, worker, httpx.AsyncClient(verify=trust) as http:
            job = await queue.post({"over": "the monitor socket"})
            assert await job.result(timeout=20) == {"echo": {"over": "the monitor socket"}}
            assert job.view is not None
            assert job.view.progress == {"percent": 50}
            posted = await http.post(f"{proxy.base_url}/demo/items", json={"item": 1})
            ended = await http.get(f"{proxy.base_url}/demo/items/{posted.json()['id']}?waitMs=20000")
        assert (posted.status_code, ended.json()["result"]) == (201, {"echo": 1})


async def test_plain_http_is_sent_to_tls_and_goes_no_further(tmp_path: Path) -> None:
    async with (
        recorder() as upstream,
        caddy(tmp_path, upstream.base_url, tls=True) as proxy,
        httpx.AsyncClient() as http,
    ):
        answer = await http.get(f"http://localhost:{proxy.http_port}/demo/items/0")
        assert answer.status_code == 308
        assert answer.headers["location"].startswith("https://localhost")
        assert upstream.seen == []


async def test_an_answer_may_take_longer_than_a_request(tmp_path: Path) -> None:
    brief = {"read_header 10s": "read_header 200ms", "read_body 30s": "read_body 200ms"}
    async with site(tmp_path, brief) as (proxy, _), httpx.AsyncClient(base_url=proxy.base_url) as http:
        waiting = {"waitMs": 1000, "criteria": {"is": "never there"}}
        async with raw_socket(f"{proxy.ws_url}/demo/work") as socket:
            socket.say({"claim": waiting})
            claim = await http.post("/demo/claim", json=waiting)
            assert (await socket.hear())["type"] == "empty"
    assert (claim.status_code, claim.json()) == (200, {"type": "empty"})


async def test_the_servers_words_about_its_bounds_come_through(tmp_path: Path) -> None:
    async with site(tmp_path) as (proxy, _), httpx.AsyncClient(base_url=proxy.base_url) as http:
        body = b'{"item": "' + b"x" * 1_048_576 + b'"}'
        answer = await http.post("/demo/items", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


async def test_the_pages_policy_stays_and_the_rest_gets_one(tmp_path: Path) -> None:
    async with site(tmp_path) as (proxy, server), httpx.AsyncClient() as http:
        page, bare = await http.get(f"{proxy.base_url}/"), await http.get(f"{server.base_url}/")
        data = await http.get(f"{proxy.base_url}/_health")
    for name in ("content-security-policy", "content-type", "cache-control"):
        assert page.headers[name] == bare.headers[name]
    assert data.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    for answer in (page, data):
        wanted = {
            "strict-transport-security": "max-age=31536000",
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
        }
        assert {name: answer.headers.get(name) for name in wanted} == wanted
        assert not {"server", "via"} & set(answer.headers)


# ── What does not pass ──

METRICS = [
    "/_metrics", "/_metrics/", "/_metrics?x=1", "/_metrics/x", "//_metrics", "/./_metrics", "/demo/../_metrics",
    "/%5fmetrics", "/%5Fmetrics", "/_%6detrics", "/_METRICS", "/demo/%2e%2e/_metrics", "http://127.0.0.1/_metrics",
]  # fmt: skip


async def test_metrics_are_not_passed_however_they_are_spelled(tmp_path: Path) -> None:
    async with recorder() as upstream, caddy(tmp_path, upstream.base_url) as proxy:
        for target in METRICS:
            answer = await exchange(proxy.port, request(f"GET {target}", proxy.host))
            assert (target, answer.status) == (target, 404)
        assert (await exchange(proxy.port, request("GET /demo/items/0", proxy.host))).status == 200
        assert [seen.target for seen in upstream.seen] == ["/demo/items/0"]


async def test_it_listens_where_the_site_is_and_nowhere_else(tmp_path: Path) -> None:
    async with recorder() as upstream, caddy(tmp_path, upstream.base_url) as proxy:
        assert listening_ports(proxy.pid) == {proxy.port}
    async with recorder() as upstream, caddy(tmp_path / "tls", upstream.base_url, tls=True) as proxy:
        assert listening_ports(proxy.pid) == {proxy.port, proxy.http_port}


async def test_a_server_that_is_not_ready_gets_nothing_new(tmp_path: Path) -> None:
    async with site(tmp_path, SEEN_SOON) as (proxy, server), httpx.AsyncClient(base_url=proxy.base_url) as http:
        assert server.running.site is not None
        async with raw_socket(f"{proxy.ws_url}/demo/work") as socket:
            server.running.site.stopping.set()
            await proxy.said(b"status code out of tolerances")
            assert (await http.post("/demo/items", json={"item": 1})).status_code == 503
            socket.say({"claim": {}})
            assert (await socket.hear())["type"] == "empty"
            server.running.site.stopping.clear()
            before = len(proxy.output)
            await proxy.said(b"host is up", before)
            assert (await http.post("/demo/items", json={"item": 1})).status_code == 201


# ── Reloads ──


async def test_sockets_survive_a_reload(tmp_path: Path) -> None:
    async with (
        site(tmp_path) as (proxy, _),
        httpx.AsyncClient(base_url=proxy.base_url) as http,
        raw_socket(f"{proxy.ws_url}/demo/work") as work,
        raw_socket(f"{proxy.ws_url}/demo/monitor") as watch,
    ):
        for index in range(3):
            item_id = (await http.post("/demo/items", json={"item": index})).json()["id"]
            watch.say({"subscribe": [item_id]})
            assert (await watch.hear())["status"] == "pending"
            work.say({"claim": {}})
            assert (await work.hear())["attempts"] == 1
            assert (await watch.hear())["status"] == "processing"
            await proxy.reload()
            work.say({"result": {"id": item_id, "value": index}})
            assert (await work.hear())["accepted"] is True
            assert (await watch.hear())["result"] == index


@pytest.mark.parametrize("delay", ["24h", "1ms"])
async def test_reloads_lose_nothing_and_double_nothing(tmp_path: Path, delay: str) -> None:
    """With the reference's delay the sockets stay; with hardly any they are cut, and client and worker come back."""
    done: list[int] = []
    async with site(tmp_path, {"stream_close_delay 24h": f"stream_close_delay {delay}"}) as (proxy, _):
        url, soon = f"{proxy.ws_url}/demo", Outside(chance=lambda: 0.01)
        worker = Worker(url, concurrency=3, outside=soon)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            await job.progress({"begun": item})
            if item % 10 == 5:
                await proxy.reload()
            done.append(item)
            return item

        async with Client(url, outside=soon) as queue:
            jobs = [await queue.post(number) for number in range(40)]
            async with worker:
                results = [await job.result(timeout=30) for job in jobs]
    assert results == list(range(40))
    assert sorted(done) == results
    assert proxy.output.count(b"successfully reloaded") == 4


async def test_a_file_with_a_mistake_leaves_all_as_it_is(tmp_path: Path) -> None:
    async with (
        site(tmp_path) as (proxy, _),
        httpx.AsyncClient(base_url=proxy.base_url) as http,
        raw_socket(f"{proxy.ws_url}/demo/work") as socket,
    ):
        right = proxy.file.read_text()
        proxy.file.write_text(right.replace("reverse_proxy", "reverse_poxy"))
        await proxy.reload(takes=False)
        assert (await http.get("/_ready")).status_code == 200
        socket.say({"claim": {}})
        assert (await socket.hear())["type"] == "empty"
        proxy.file.write_text(right)
        await proxy.reload()


# ── The file itself ──


async def test_a_queue_may_have_a_process_of_its_own(tmp_path: Path) -> None:
    async with recorder() as most, recorder() as one:
        own = {
            "#@resize path": "@resize path",
            "#import leaseway @resize 127.0.0.1:8788": f"import leaseway @resize {one.base_url.removeprefix('http://')}",
        }
        async with caddy(tmp_path, most.base_url, own) as proxy, httpx.AsyncClient(base_url=proxy.base_url) as http:
            for target in ("/resize", "/resize/items", "/%72esize/work", "/resizer/items", "/demo/items", "/_queues"):
                assert (await http.get(target)).status_code == 200
    assert [request.target for request in one.seen] == ["/resize", "/resize/items", "/%72esize/work"]
    assert [request.target for request in most.seen] == ["/resizer/items", "/demo/items", "/_queues"]


def test_the_file_is_in_caddys_own_style() -> None:
    formatted = subprocess.run([find_caddy(), "fmt", CADDYFILE], capture_output=True, check=True).stdout
    assert formatted == CADDYFILE.read_bytes()


def test_caddy_leaves_an_idle_connection_before_the_server_does() -> None:
    assert "keepalive 3s" in CADDYFILE.read_text()
    assert uvicorn.Config("app", log_config=None).timeout_keep_alive > 3


def test_the_upstream_is_where_the_server_listens_by_itself() -> None:
    default = ServerConfig()
    assert f"{{$LEASEWAY_UPSTREAM:{default.host}:{default.port}}}" in CADDYFILE.read_text()
