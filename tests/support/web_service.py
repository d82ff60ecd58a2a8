"""HTTP services of the tests: what they were asked, and an answer that the test decides, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Answering = Callable[[web.BaseRequest, bytes], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebService:
    """A service at `url`; `answer` says what it answers, and may wait."""

    url: str
    answer: Answering
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Notes the request, and answers."""
        body = await request.read()
        self.asked.append(Asked(request.path, {name.lower(): value for name, value in request.headers.items()}, body))
        self.arrived.set()
        return await self.answer(request, body)


def always(status: int, text: str = "", headers: dict[str, str] | None = None) -> Answering:
    """The same answer to everything."""

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return answer


@asynccontextmanager
async def web_service(answer: Answering) -> AsyncIterator[WebService]:
    """A service on a free port of loopback, in this event loop."""
    service = WebService("", answer)
    runner = web.ServerRunner(web.Server(service.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    service.url = f"http://127.0.0.1:{port}"
    try:
        yield service
    finally:
        await runner.cleanup()
