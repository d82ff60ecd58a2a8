"""The demo's application: a page with a bell, a mailbox, pushes and deliveries, and what a reader may press.

It stands for anybody's application: it makes the token of whoever is signed in, and sends events to the service over
HTTP. It knows nothing of how they are delivered.
"""

from importlib.resources import files
from typing import Any, Final

import aiohttp
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leaseway_notify.demo.browser import Browser
from leaseway_notify.demo.mailbox import Mailbox
from leaseway_notify.recipient_token import recipient_token

READER: Final = "ada"
EVENTS: Final[dict[str, dict[str, Any]]] = {
    "mention": {"type": "mention", "title": "Bob mentioned you", "body": "in the plan for Monday", "actor": "bob"},
    "security": {"type": "security", "title": "Somebody signed in", "body": "from a browser that is new here"},
    "system": {"type": "system", "title": "The report is ready", "body": "12 pages"},
}
_MEDIA: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


class Application:
    """The application. `url` is the service's, `address` its own; `keys` are the service's token and secret. `session`
    is open, and stays the caller's."""

    def __init__(
        self,
        url: str,
        address: str,
        keys: tuple[str, str],
        mailbox: Mailbox,
        browser: Browser,
        session: aiohttp.ClientSession,
    ) -> None:
        self.url = url
        self.address = address
        self.mailbox = mailbox
        self.browser = browser
        self._token, self._secret = keys
        self._session = session
        self._number = 0

    async def notify(self, kind: str) -> Any:
        """An event of one kind happens."""
        self._number += 1
        said = {**EVENTS[kind], "recipient": READER, "context": "monday", "payload": {"number": self._number}}
        return await self.ask("POST", "/notify", said)

    async def ask(self, method: str, path: str, said: Any = None, *, as_reader: bool = False) -> Any:
        """What the service answers. Raises `aiohttp.ClientError` for an answer that is no success."""
        token = self.reader_token() if as_reader else self._token
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.request(method, f"{self.url}{path}", json=said, headers=headers) as answer:
            answer.raise_for_status()
            return orjson.loads(await answer.read() or b"null")

    def reader_token(self) -> str:
        """A token for whoever is signed in here, which is always the same one."""
        return recipient_token(self._secret, READER)

    async def state(self) -> dict[str, Any]:
        """All that the page shows."""
        log = await self.ask("GET", f"/deliveries?recipient={READER}&limit=30")
        attention = await self.ask("GET", "/attention")
        mails = [{"subject": one.subject, "text": one.text, "to": one.to} for one in reversed(self.mailbox.mails)]
        return {
            "failing": self.mailbox.failing,
            "mails": mails[:20],
            "pushes": self.browser.pushes[::-1][:20],
            "deliveries": log["deliveries"],
            "attention": [*attention["failed"], *attention["dead"]],
        }

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/", self._file),
                Route("/demo.{ending}", self._file),
                Route("/token", self._give_token),
                Route("/state", self._state),
                Route("/events/{kind}", self._event, methods=["POST"]),
                Route("/provider/{state}", self._provider, methods=["POST"]),
                Route("/retry/{delivery}", self._retry, methods=["POST"]),
                Route("/push", self._push, methods=["POST"]),
            ],
            exception_handlers={aiohttp.ClientResponseError: _refused},
        )

    async def _file(self, request: Request) -> Response:
        ending = request.path_params.get("ending", "html")
        if ending not in _MEDIA:
            return Response(status_code=404)
        text = files("leaseway_notify.demo").joinpath(f"demo.{ending}").read_text(encoding="utf-8")
        live = self.url.replace("http", "ws")
        policy = f"default-src 'self'; script-src 'self' {self.url}; connect-src 'self' {self.url} {live}"
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache"}
        return Response(text.replace("{service}", self.url), headers=headers, media_type=_MEDIA[ending])

    async def _give_token(self, request: Request) -> Response:
        """The inbox's page, which is the service's, may ask for it too."""
        headers = {"Cache-Control": "no-store"}
        if request.headers.get("origin") == self.url:
            headers |= {"Access-Control-Allow-Origin": self.url, "Access-Control-Allow-Credentials": "true"}
        return _json({"token": self.reader_token()}, headers)

    async def _state(self, _request: Request) -> Response:
        return _json(await self.state())

    async def _event(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        return _json(await self.notify(kind)) if kind in EVENTS else Response(status_code=404)

    async def _provider(self, request: Request) -> Response:
        self.mailbox.failing = request.path_params["state"] == "fails"
        return Response(status_code=204)

    async def _retry(self, request: Request) -> Response:
        return _json(await self.ask("POST", f"/attention/{request.path_params['delivery']}/retry"))

    async def _push(self, request: Request) -> Response:
        """Here the push service of the demo takes pushes."""
        self.browser.take(await request.body())
        return Response(status_code=201)


async def _refused(_request: Request, error: Exception) -> Response:
    """What the service refuses is refused here."""
    assert isinstance(error, aiohttp.ClientResponseError)
    return Response(error.message, error.status)


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), headers=headers, media_type="application/json")
