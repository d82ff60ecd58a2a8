"""What the server serves for browsers: its pages and the JavaScript client, each file as it lies in its package."""

import re
from importlib.resources import files
from pathlib import Path

import httpx

from support.server import open_queue, running_server

PACKAGES = {"/_client/": "leaseway_javascript", "/_pages/": "leaseway_server.web.pages"}
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
POLICY = {
    "default-src 'self'",
    "worker-src 'self' blob:",
    "img-src 'self' data: blob:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}
ADDRESS = re.compile(r"(?:https?|wss?)://([^/\s\"'`$]+)")
NAMESPACES = {"www.w3.org"}
"""A namespace of XML is a name that looks like an address; nothing is fetched from it."""


def files_of(package: str) -> dict[str, Path]:
    """All that is for browsers in a package, by its path there."""
    root = Path(str(files(package)))
    return {str(path.relative_to(root)): path for path in root.rglob("*") if path.suffix in MEDIA}


async def test_each_file_is_served_as_it_lies_there_with_the_policy(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        for prefix, package in PACKAGES.items():
            served = files_of(package)
            assert served
            for name, path in served.items():
                answer = await http.get(prefix + name)
                assert (answer.status_code, answer.content) == (200, path.read_bytes()), name
                assert answer.headers["content-type"] == MEDIA[path.suffix]
                assert set(answer.headers["content-security-policy"].split("; ")) == POLICY
                assert answer.headers["x-content-type-options"] == "nosniff"


async def test_pages_have_an_address_of_their_own(tmp_path: Path) -> None:
    pages = files_of("leaseway_server.web.pages")
    async with running_server(tmp_path) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        page = await http.get("/")
    assert page.content == pages["dashboard/index.html"].read_bytes()
    assert set(page.headers["content-security-policy"].split("; ")) == POLICY


async def test_what_a_browser_has_already_is_not_sent_again(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        first = await http.get("/_client/index.js")
        again = await http.get("/_client/index.js", headers={"If-None-Match": first.headers["etag"]})
        other = await http.get("/_client/client.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.headers["cache-control"], again.status_code, again.content) == ("no-cache", 304, b"")
    assert other.status_code == 200


async def test_a_listed_site_may_import_the_client(tmp_path: Path) -> None:
    toml = '[server]\nallowed_origins = ["https://app.example.com"]\n' + open_queue()
    async with running_server(tmp_path, toml) as server, httpx.AsyncClient(base_url=server.base_url) as http:
        listed = await http.get("/_client/index.js", headers={"Origin": "https://app.example.com"})
        other = await http.get("/_client/index.js", headers={"Origin": "https://other.example.com"})
    assert listed.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "access-control-allow-origin" not in other.headers


def test_no_page_carries_the_address_of_anybody_else() -> None:
    for name, path in files_of("leaseway_server.web.pages").items():
        assert set(ADDRESS.findall(path.read_text("utf-8"))) <= NAMESPACES, name
