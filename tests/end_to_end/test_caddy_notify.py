"""The site of notifications behind a real Caddy: pages and sockets pass, and no link of a mail is in any log."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import orjson
import pytest
from websockets.asyncio.client import connect

from leaseway_notify.serving import _uvicorn_config
from leaseway_notify.settings import ServiceSettings
from support.caddy import CADDYFILE, PATIENCE, SEVERAL, Caddy, caddy, find_caddy
from support.notify_service import TOKEN, Service, notify_service
from support.ports import free_port

FILE: Final = CADDYFILE.with_name("Caddyfile.notify")
SITE: Final = "{$LEASEWAY_NOTIFY_SITE:notify.localhost}"
UPSTREAM: Final = "{$LEASEWAY_NOTIFY_UPSTREAM:127.0.0.1:8790}"
CANARY: Final = "CanaryTokenCanaryTokenCanaryToken0"


@asynccontextmanager
async def site(folder: Path, upstream: str, reference: Path = CADDYFILE) -> AsyncIterator[tuple[Caddy, str]]:
    """A Caddy whose file imports the site, and the site's URL."""
    url = f"http://127.0.0.1:{free_port()}"
    imported = folder / "Caddyfile.notify"
    imported.write_text(FILE.read_text().replace(SITE, url).replace(UPSTREAM, upstream.removeprefix("http://")))
    changes = {"#import Caddyfile.notify": f"import {imported}"}
    queue = f"http://127.0.0.1:{free_port()}"  # Nobody is there, which is no matter of this site.
    async with caddy(folder / "caddy", queue, changes, reference=reference) as proxy:
        yield proxy, url


async def notify(url: str, title: str) -> httpx.Response:
    """An event, from another program, on a connection of its own: a reload ends those that are idle."""
    said = {"type": "system", "recipient": "ada", "title": title}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{url}/notify", json=said, headers={"Authorization": f"Bearer {TOKEN}"})


async def put(service: Service, delivery: str) -> None:
    """A worker puts it into the inbox, and tells the service."""
    sending = await service.store.delivery(delivery)
    assert sending is not None
    await service.store.put_in_inbox(sending.notification, service.clock())
    service.served.site.live.announce(["ada"])


@pytest.mark.parametrize("reference", [CADDYFILE, SEVERAL], ids=["one server", "several"])
async def test_events_and_open_inboxes_pass_and_survive_a_reload(tmp_path: Path, reference: Path) -> None:
    async with (
        notify_service(tmp_path) as service,
        site(tmp_path, service.url, reference) as (proxy, url),
        connect(f"{url.replace('http', 'ws')}/inbox/live", proxy=None) as inbox,
        asyncio.timeout(PATIENCE),
    ):
        await inbox.send(orjson.dumps({"token": service.token("ada")}).decode())
        assert orjson.loads(await inbox.recv())["type"] == "hello"
        for title in ("before", "after"):
            posted = await notify(url, title)
            assert posted.status_code == 201
            await put(service, f"{posted.json()['id']}-in_app")
            while (said := orjson.loads(await inbox.recv()))["type"] != "entries":
                pass
            assert [entry["title"] for entry in said["entries"]] == [title]
            await proxy.reload()


async def test_a_page_keeps_its_policy_and_says_to_no_cache_what_the_service_did_not(tmp_path: Path) -> None:
    async with (
        notify_service(tmp_path) as service,
        site(tmp_path, service.url) as (_, url),
        httpx.AsyncClient() as http,
    ):
        for path in ("/", "/bell.js", f"/u/{service.link()}"):
            behind, bare = await http.get(url + path), await http.get(service.url + path)
            assert behind.status_code == bare.status_code == 200
            for name in ("content-security-policy", "content-type", "cache-control"):
                assert behind.headers[name] == bare.headers.get(name, "default-src 'none'; frame-ancestors 'none'")
            assert behind.headers["strict-transport-security"] == "max-age=31536000"
            assert behind.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("filtered", [True, False])
async def test_no_link_of_a_mail_is_in_anything_that_caddy_writes(tmp_path: Path, *, filtered: bool) -> None:
    """Nobody serves the site, so that the log of errors has each request too. Without the filter they are there."""
    reference = tmp_path / "reference"
    text = CADDYFILE.read_text()
    reference.write_text(text if filtered else text.replace("/+[copu]/|", ""))
    links = [f"/{kind}/{CANARY}" for kind in "copu"]
    links += [f"/u/{CANARY}/undo", f"//u/{CANARY}", f"/p/{CANARY}?x={CANARY}", f"/inbox?token={CANARY}"]
    async with (
        site(tmp_path, f"http://127.0.0.1:{free_port()}", reference) as (proxy, url),
        httpx.AsyncClient(base_url=url) as http,
    ):
        for link in links:
            assert (await http.get(f"{url}{link}")).status_code == 502
        assert (await http.get("/the/last/one")).status_code == 502
        seen = [access["request"]["uri"] for access in await proxy.accesses_until("/the/last/one")]
        await proxy.stop()
        assert b'"http.log.error"' in proxy.output
    assert (CANARY.encode() in proxy.written()) is not filtered
    if filtered:
        assert seen == ["/c/", "/o/", "/p/", "/u/", "/u/", "//u/", "/p/", "/inbox", "/the/last/one"]


def test_the_file_is_in_caddys_own_style() -> None:
    assert subprocess.run([find_caddy(), "fmt", FILE], capture_output=True, check=True).stdout == FILE.read_bytes()


async def test_the_upstream_is_where_the_service_listens_by_itself(tmp_path: Path) -> None:
    service = ServiceSettings()
    assert f"{{$LEASEWAY_NOTIFY_UPSTREAM:{service.host}:{service.port}}}" == UPSTREAM
    assert SITE in FILE.read_text()
    assert UPSTREAM in FILE.read_text()
    assert "keepalive 3s" in FILE.read_text()
    async with notify_service(tmp_path) as served:
        assert _uvicorn_config(served.served.site).timeout_keep_alive > 3
