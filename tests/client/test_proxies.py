"""The proxy that the environment names: for what is far, by sockets and requests alike, and never for this machine."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from leaseway import Client, ConnectionLost, Worker
from leaseway.address import proxy_to
from leaseway.testing import Served, serving

NAMES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "socks_proxy", "ws_proxy", "wss_proxy")
FAR = "http://queue.test/demo"
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def none_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    users = dict.fromkeys(("post", "fetch", "work"), "users")
    with serving(queues={"demo": {"access": users}}) as server:
        yield server


class Proxy:
    """One that tunnels (CONNECT) to a port of this machine, wherever it was asked to go."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        self.knows: list[bool] = []
        self._port = port

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.partition(" HTTP")[0])
        self.knows.append("Proxy-Authorization: Basic bWU6c2VjcmV0" in head)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))


async def _pour(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxy(monkeypatch: pytest.MonkeyPatch, served: Served) -> AsyncIterator[Proxy]:
    """Named by the environment, with a user and a password."""
    one = Proxy(int(served.url("demo").rsplit(":", 1)[1].split("/")[0]))
    async with await asyncio.start_server(one.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{port}")
        yield one


async def test_what_is_far_is_reached_through_it_by_sockets_and_by_requests(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    async with proxy(monkeypatch, served) as asked, Client(FAR, served.token("alice")) as queue:
        job = await queue.post({"a": 1})
        assert await job.cancel()
        # The demands of the socket's library and of ours name the port or leave it to http.
        assert {each.removesuffix(":80") for each in asked.asked} == {"CONNECT queue.test"}
        assert len(asked.asked) == 2
        assert all(asked.knows)


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_this_machine_is_asked_directly(scheme: str, monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "127.0.0.1" if name == "no_proxy" else NOBODY)
    monkeypatch.delenv("no_proxy")
    url, token = served.url("demo").replace("ws", scheme, 1), served.token("alice")
    worker = Worker(url, token=token, drain=True)
    worker.handler(lambda item, job: item)
    async with Client(url, token) as queue:
        job = await queue.post("here")
        await worker.work()
        assert await job.result(timeout=10) == "here"
        assert not await job.cancel()


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:8787/demo",
        "http://127.8.8.8/demo",
        "wss://[::1]/demo",
        "http://localhost/demo",
        "ws://a.localhost/x",
    ],
)
def test_all_names_of_this_machine_are_known(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", NOBODY)
    monkeypatch.setenv("https_proxy", NOBODY)
    assert proxy_to(url) is None


def way(url: str) -> str | None:
    proxy = proxy_to(url)
    return proxy and proxy.geturl()


def test_each_scheme_has_its_own_and_no_proxy_excepts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "plain:3128")
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:3128")
    monkeypatch.setenv("no_proxy", "near.test,other.test:8443")
    assert way("ws://queue.test/demo") == way("http://queue.test/demo") == "http://plain:3128"
    assert way("wss://queue.test/demo") == way("https://queue.test/demo") == "http://secure:3128"
    assert way("wss://near.test/demo") is way("https://a.near.test:1/demo") is None
    assert way("https://other.test:8443/demo") is None
    assert way("https://other.test/demo") == "http://secure:3128"


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (NOBODY, "cannot reach http://queue.test through the proxy that the environment names: nobody listens there"),
        ("socks5://127.0.0.1:9", "the proxy that the environment names is none of http://host:port"),
        ("http://:x", "the proxy that the environment names is none of http://host:port"),
        ("http://host:port", "the proxy that the environment names is none of http://host:port"),
    ],
)
async def test_a_proxy_that_is_of_no_use_is_said_to_be(named: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", named)
    queue = Client(FAR, open_timeout=0.2)
    with pytest.raises(ConnectionLost) as lost:
        await queue.get("0" * 16)
    assert str(lost.value) == told
    with pytest.raises(ConnectionLost, match="no connection within"):
        async with queue:
            pass
