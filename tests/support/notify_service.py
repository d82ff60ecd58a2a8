"""The service of notifications for tests: on a real queue, with a store, and a worker where one is wanted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from leaseway_notify.announcing import Announcer
from leaseway_notify.clock import now_ms
from leaseway_notify.compose import execution
from leaseway_notify.notify_toml import settings_of
from leaseway_notify.profile import Profile
from leaseway_notify.queue import QUEUE
from leaseway_notify.recipient_token import recipient_token
from leaseway_notify.serving import Served, serving
from leaseway_notify.settings import Settings
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from leaseway_notify.unsubscribe import Unsubscribe
from leaseway_notify.vapid import new_key
from leaseway_notify.worker import DeliveryWorker
from support.http_client import http_client
from support.notify_scene import served_queue
from support.notify_stores import Opener
from support.ports import free_port

TOKEN: Final = "the token of programs, for tests"
SECRET: Final = "the secret of applications, for tests"
PATIENCE: Final = 60.0
PUSH: Final = "https://push.example.com/a"
"""Where a browser of the tests takes pushes."""


@dataclass
class Clock:
    """ms since the epoch; a test moves it on."""

    ahead: int = 0

    def __call__(self) -> int:
        """The time."""
        return now_ms() + self.ahead


@dataclass
class Service:
    """What a test sees. `programs` says the service's token, `http` says none."""

    served: Served
    store: SqlStore
    settings: Settings
    http: httpx.AsyncClient
    programs: httpx.AsyncClient
    clock: Clock = field(default_factory=Clock)

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return self.served.url

    def token(self, recipient: str = "ada", lifetime: int = 900) -> str:
        """A token as the application makes it."""
        return recipient_token(SECRET, recipient, lifetime, self.clock() / 1000)

    def headers(self, recipient: str = "ada") -> dict[str, str]:
        """Of a request of a recipient's page."""
        return {"Authorization": f"Bearer {self.token(recipient)}"}

    def link(self, kind: str = "mention", recipient: str = "ada") -> str:
        """The token of an unsubscribe link of a mail."""
        return Unsubscribe(recipient, kind, "email", self.clock() + 86_400_000).token(self.served.site.secret)

    async def person(self, recipient: str, **members: Any) -> None:
        """Somebody new, whom no other test has."""
        await self.store.save_profile(Profile(recipient, f"{recipient}@example.com", **members))

    async def notify(self, **members: Any) -> Any:
        """What the service answers to an event."""
        said = {"type": "system", "recipient": "ada", "title": "The disk is full", **members}
        answer = await self.programs.post("/notify", json=said)
        assert answer.status_code == 201, answer.text
        return answer.json()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """A worker that delivers meanwhile, and tells the service."""
        async with (
            Announcer(self.settings.service) as announcer,
            execution(self.store, self.settings, announce=announcer) as executing,
        ):
            worker = DeliveryWorker(executing, self.settings)
            working = asyncio.create_task(worker.work())
            try:
                yield
                worker.stop()
                await working
            finally:
                working.cancel()

    async def drain(self) -> None:
        """Delivers what is due."""
        async with execution(self.store, self.settings) as executing, asyncio.timeout(PATIENCE):
            await DeliveryWorker(executing, self.settings, drain=True).work()


def service_settings(ws_url: str, **tables: Any) -> Settings:
    """Settings of a service on a free port, with the queue of a server."""
    service = {"listen": f"127.0.0.1:{free_port()}", "token": TOKEN, "secret": SECRET, **tables.pop("service", {})}
    return settings_of({"queue": {"url": f"{ws_url}/{QUEUE}"}, "service": service, **tables})


@asynccontextmanager
async def notify_service(folder: Path, opener: Opener | None = None, **tables: Any) -> AsyncIterator[Service]:
    """A service with its queue; ada has a profile. On the store that `opener` opens, or on a file."""
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(served_queue(folder / "queue"))
        opened = await (opener() if opener else open_sqlite(folder / "notify.db"))
        store = await stack.enter_async_context(opened)
        settings = service_settings(queue.ws_url, **tables)
        clock = Clock()
        served = await stack.enter_async_context(serving(store, settings, clock=clock))
        http = await stack.enter_async_context(http_client(served.url))
        programs = await stack.enter_async_context(http_client(served.url))
        programs.headers["Authorization"] = f"Bearer {TOKEN}"
        service = Service(served, store, settings, http, programs, clock)
        await service.person("ada", name="Ada")
        yield service


def push_settings(folder: Path) -> dict[str, Any]:
    """With a new key, which is written there."""
    new_key(folder / "vapid.pem")
    return {"keys": str(folder / "vapid.pem"), "subject": "mailto:ops@example.com"}


def nobody_takes_mails() -> dict[str, Any]:
    """With a mail server that is not there: mails wait to be tried again."""
    return {"transport": "smtp", "sender": "bell@app.example", "port": free_port(), "security": "none"}


def problem(answer: httpx.Response, status: int, code: str, path: str = "") -> str:
    """The detail of an answer that is this problem."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    said = answer.json()
    assert (said["status"], said["code"]) == (status, code)
    assert [each["path"] for each in said.get("errors", [])] == ([path] if path else [])
    assert said["detail"]
    return str(said["detail"])
