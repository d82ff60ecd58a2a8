"""One queue at its address, asked over HTTP with the standard library alone.

Owns one connection, and what hinders any in plain words; no text holds the token. What a refusal means to
a program is `asking.py`'s, to a command line `cli/remote.py`'s.
"""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import SplitResult, unquote, urlencode

import orjson

from leaseway.address import PORTS, QUEUE, check_token, parted, proxy_to
from leaseway.errors import ConnectionLost

if TYPE_CHECKING:
    from http.client import HTTPConnection

Json = Any
TIMEOUT: Final = 30.0
"""Seconds that the server may be silent."""
LOST: Final = "the connection was lost"
NO_HTTP: Final = "it does not speak HTTP; is the address to begin with https:// instead?"
_GATEWAY: Final = frozenset({502, 503, 504})
"""What a proxy answers whose server is away."""


class Unanswered(ConnectionLost):
    """It was said, and no answer came: it may have been done or not."""


class Untrusted(ConnectionLost):
    """Who answers there is not who was to answer, or no Leaseway: to wait will not mend it."""


class Refusal(Exception):
    """The server's own answer that it did not do it: an HTTP status, the protocol's code (§4), and what it says.

    `errors` are the places that a schema or an option refused, `tokenless` says that no token was sent.
    """

    def __init__(
        self, status: int, code: str, message: str, errors: Sequence[dict[str, Json]], *, tokenless: bool
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.errors = errors
        self.tokenless = tokenless


class Remote:
    """A queue. `url` is `http(s)://host/queue`, or the same with ws or wss. Raises `ValueError`.

    Every request raises `ConnectionLost` where nobody answers who speaks this protocol, and `Refusal`.
    """

    given_as: ClassVar[str] = "token="
    """Where a user is told to put the token."""
    paths: ClassVar[re.Pattern[str]] = QUEUE

    def __init__(self, url: str, token: str | None) -> None:
        parts = parted(url, self.given_as, self.paths)
        check_token(token)
        self.site = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path.rstrip("/")
        self.patience = TIMEOUT
        """Seconds that the server may be silent; counts from the next connection on."""
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._parts = parts
        self._connection: HTTPConnection | None = None
        self._heard = False

    @property
    def url(self) -> str:
        """The address, with http or https."""
        return f"{self.site}{self._path}"

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._path.rpartition("/")[2]

    def close(self) -> None:
        """Ends the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()

    def get(self, path: str, wanted: str, query: Sequence[tuple[str, str]] = ()) -> Json:
        """The answer to a GET of `/queue/path`: an object with this member, or it is none of our server's."""
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path, wanted)

    def post(self, path: str, wanted: str, body: bytes = b"{}", kind: str = "application/json") -> Json:
        """The answer to a POST of this body to `/queue/path`; `wanted` as in `get`."""
        return self.ask("POST", path, wanted, body, kind)

    def ask(self, method: str, path: str, wanted: str, body: bytes | None = None, kind: str = "") -> Json:
        """The answer to a request of `/queue/path`, or of the queue itself where the path is empty."""
        status, content = self._exchange(method, f"{self._path}/{path}".rstrip("/"), body, kind)
        value = _object(content)
        if status in (200, 201) and wanted in value:
            return value
        raise self._no_answer(status, value)

    def content(self, method: str, path: str, wanted: int) -> bytes:
        """The content of the answer to a request of `/queue/path`, which has this status: JSON, or nothing."""
        status, content = self._exchange(method, f"{self._path}/{path}", None, "")
        if status != wanted or (content and not _is_json(content)):
            raise self._no_answer(status, _object(content))
        return content

    def _exchange(self, method: str, target: str, body: bytes | None, kind: str) -> tuple[int, bytes]:
        """The status and content of an answer. A connection that was idle may be closed by now: a GET is said again."""
        from http.client import HTTPException  # Loaded here, so that an import of ours stays quick.

        headers = self._headers | ({"Content-Type": kind} if kind else {})
        may_repeat = method == "GET" and self._heard
        while True:
            connection = self._connected()
            try:
                connection.request(method, target, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, HTTPException) as error:
                self.close()
                if not (may_repeat and isinstance(error, ConnectionError)):
                    raise Unanswered(self._hindered(error)) from None
                may_repeat = False
            else:
                self._heard = True
                return answer.status, content

    def _connected(self) -> HTTPConnection:
        """The open connection. What fails here was never said."""
        self._connection = self._connection or _connection(self._parts, self.patience)
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError as error:
                self.close()
                kind = Untrusted if isinstance(error, ssl.SSLError) else ConnectionLost
                raise kind(self._hindered(error)) from None
        return self._connection

    def _hindered(self, error: Exception) -> str:
        way = " through the proxy that the environment names" if proxy_to(self.site) else ""
        return f"cannot reach {self.site}{way}: {hindrance(error, self.patience, heard=self._heard)}"

    def _no_answer(self, status: int, value: dict[str, Json]) -> ConnectionLost | Refusal:
        if 300 <= status < 400:
            return Untrusted(f"{self.site} sends elsewhere (status {status}); give the address it leads to")
        if status < 400 or not isinstance(value.get("code"), str):
            kind = ConnectionLost if status in _GATEWAY else Untrusted
            return kind(f"what answers at {self.site} is no Leaseway server (status {status})")
        tokenless = "Authorization" not in self._headers
        message = f"{_told(value)}{self._doubt(status)}"
        return Refusal(status, value["code"], message, _places(value), tokenless=tokenless)

    def _doubt(self, status: int) -> str:
        """Behind a proxy a queue's path may be long; yet where nothing is there, one below the queue was given."""
        if status not in (404, 405) or self._path.count("/") == 1:
            return ""
        return f"; is {self._path} the queue's own path, and not one below it?"


def printable(text: str) -> str:
    """A text that others wrote, as it may go to a terminal: whatever is not printable is escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _is_json(content: bytes) -> bool:
    try:
        orjson.loads(content)
    except ValueError:
        return False
    return True


def _object(content: bytes) -> dict[str, Json]:
    """The JSON object that it is; an empty one where it is none."""
    try:
        value = orjson.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _connection(parts: SplitResult, patience: float) -> HTTPConnection:
    """To the server; through the proxy that the environment names, if it names one. Raises `Untrusted`."""
    assert parts.hostname is not None
    host, port = parts.hostname, parts.port or PORTS[parts.scheme]
    try:
        proxy = proxy_to(parts.geturl())
    except ValueError as no_proxy:
        raise Untrusted(str(no_proxy)) from None
    if proxy is None:
        return _to(parts.scheme, host, port, patience)
    connection = _to(parts.scheme, proxy.hostname or "", proxy.port or PORTS["http"], patience)
    connection.set_tunnel(host, port, _proxy_headers(proxy))
    return connection


def _to(scheme: str, host: str, port: int, patience: float) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    if scheme == "https":
        return HTTPSConnection(host, port, timeout=patience, context=ssl.create_default_context())
    return HTTPConnection(host, port, timeout=patience)


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """Who we are to the proxy, where its address says it."""
    if not proxy.username:
        return {}
    told = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(told).decode()}"}


def hindrance(error: Exception, patience: float, *, heard: bool = False) -> str:
    """What hinders a connection, in words; sockets say it so too.

    `patience` is how long was waited, seconds, `heard` whether it has answered before, and so does speak HTTP.
    """
    from http.client import HTTPException

    match error:
        case ConnectionError() if heard and not isinstance(error, ConnectionRefusedError):
            return LOST
        case TimeoutError():
            return f"no answer within {patience:.0f} s"
        case ConnectionRefusedError():
            return "nobody listens there"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message} (SSL_CERT_FILE names others to trust)"
        case ssl.SSLError():
            return "it does not speak TLS; is the address to begin with http:// instead?"
        case HTTPException():
            return NO_HTTP
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _told(problem: dict[str, Json]) -> str:
    """What a problem document says (RFC 9457): where a schema or an option refused, each place."""
    detail = printable(str(problem.get("detail") or problem.get("title") or problem["code"]))
    texts = [printable(f"{error['path']}: {error.get('message', '')}") for error in _places(problem)]
    return "; ".join(
        texts if texts and detail in texts[0] else [detail, *(text for text in texts if text not in detail)]
    )


def _places(problem: dict[str, Json]) -> list[dict[str, Json]]:
    return [error for error in problem.get("errors") or () if isinstance(error, dict) and error.get("path")]
