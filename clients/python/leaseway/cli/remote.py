"""One queue at its address, asked over HTTP with the standard library alone, and what hinders it in plain words.

Every fault is a `click.ClickException` with an exit status: 1 the server did not do it, 2 it was asked wrongly, 3 it
cannot be reached, or does not allow it. No text of them holds the token.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, urlencode, urlsplit

import click

Json = Any
TIMEOUT: Final = 30.0
"""Seconds that the server may be silent."""
_QUEUE: Final = re.compile(r"(/[!-.0-~]+)*/[a-z0-9][a-z0-9_-]{0,62}/?")
_PORTS: Final = {"http": 80, "https": 443}
_WRONG: Final = frozenset({400, 413, 415, 422})
_UNDONE: Final = frozenset({404, 409})


class CannotReach(click.ClickException):
    """Nobody answers there, or nobody who speaks this protocol, or what was asked is not allowed."""

    exit_code = 3


class NotDone(click.ClickException):
    """The server understood and allows it, and yet it cannot be done: the item is not there, or has ended."""

    exit_code = 1

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class AskedWrongly(click.ClickException):
    """The server does not take it so."""

    exit_code = 2


class Remote:
    """A queue. `url` is `http(s)://host/queue`, or the same with ws or wss. Raises `click.UsageError`."""

    paths: ClassVar[re.Pattern[str]] = _QUEUE

    def __init__(self, url: str, token: str | None) -> None:
        parts = _parts(url, self.paths)
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise click.UsageError("a token is printable ASCII without spaces")
        self.site = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._connection = _connection(parts)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._path.rpartition("/")[2]

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    @property
    def url(self) -> str:
        """The address, with http or https."""
        return f"{self.site}{self._path}"

    def get(self, path: str, wanted: str, query: Sequence[tuple[str, str]] = ()) -> Json:
        """The answer to a GET of `/queue/path`, or of the queue itself where the path is empty.

        It is an object with the wanted member, or none of our server's.
        """
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, wanted)

    def post(self, path: str, wanted: str) -> Json:
        """The answer to a POST to `/queue/path` that says no more than its path; `wanted` as in `get`."""
        return self._ask("POST", path, wanted)

    def _ask(self, method: str, path: str, wanted: str) -> Json:
        body = b"{}" if method == "POST" else None
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        try:
            self._connection.request(method, f"{self._path}/{path}".rstrip("/"), body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            self.close()
            raise CannotReach(f"cannot reach {self.site}: {_hindrance(error)}") from None
        value = _object(content)
        if answer.status == 200 and wanted in value:
            return value
        if 300 <= answer.status < 400:
            raise CannotReach(f"{self.site} sends elsewhere (status {answer.status}); give the address it leads to")
        if answer.status < 400 or not isinstance(value.get("code"), str):
            raise CannotReach(f"what answers at {self.site} is no Leaseway server (status {answer.status})")
        if answer.status == 401 and "Authorization" not in self._headers:
            raise CannotReach(f"a token is needed at {self.site}; set LEASEWAY_TOKEN")
        message = f"{_told(value)}{self._doubt(answer.status)}"
        raise _refusal(answer.status, value["code"], message, of_item=path.startswith("items/"))

    def _doubt(self, status: int) -> str:
        """Behind a proxy a queue's path may be long; yet where nothing is there, one below the queue was given."""
        if status not in (404, 405) or self._path.count("/") == 1:
            return ""
        return f"; is {self._path} the queue's own path, and not one below it?"


class Site(Remote):
    """A server at `http(s)://host`."""

    paths: ClassVar[re.Pattern[str]] = re.compile("/?")

    def queues(self) -> list[str]:
        """The addresses of the queues that the token may look at (PROTOCOL.md §5)."""
        found = self.get("_queues", "queues")["queues"]
        return [f"{self.site}/{each['queue']}" for each in found if "fetch" in each["rights"]]


def _object(content: bytes) -> dict[str, Json]:
    """The JSON object that it is; an empty one where it is none."""
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def printable(text: str) -> str:
    """A text that others wrote, as it may go to a terminal: whatever is not printable is escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _parts(url: str, paths: re.Pattern[str]) -> SplitResult:
    """The parts of a queue's address. What was given is not repeated: it may hold a secret."""
    try:
        parts = urlsplit(url)
        known = _is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        known = False
    if known:
        parts = parts._replace(scheme={"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme))
    if not known or parts.scheme not in _PORTS or not paths.fullmatch(parts.path):
        raise click.UsageError("a queue's address is such as https://task.example.com/resize")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise click.UsageError("a queue's address holds no query, fragment or user; give the token as LEASEWAY_TOKEN")
    return parts


def _is_host(name: str) -> bool:
    """Whether a host can be called so. Raises `UnicodeError`, a `ValueError`, where a part is empty or too long."""
    return bool(name.encode("idna")) and name.isprintable() and " " not in name


def _connection(parts: SplitResult) -> HTTPConnection:
    assert parts.hostname is not None
    port = parts.port or _PORTS[parts.scheme]
    if parts.scheme == "https":
        return HTTPSConnection(parts.hostname, port, timeout=TIMEOUT, context=ssl.create_default_context())
    return HTTPConnection(parts.hostname, port, timeout=TIMEOUT)


def _hindrance(error: Exception) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {TIMEOUT:.0f} s"
        case ConnectionRefusedError():
            return "nobody listens there"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return "it does not speak TLS; is the address to begin with http:// instead?"
        case HTTPException():
            return "it does not speak HTTP; is the address to begin with https:// instead?"
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _refusal(status: int, code: str, message: str, *, of_item: bool) -> click.ClickException:
    if status in _UNDONE and (of_item or status != 404):  # A queue that is not there cannot be reached.
        return NotDone(message, code)
    if status in _WRONG:
        return AskedWrongly(message)
    return CannotReach(f"the server refuses: {message}")


def _told(problem: dict[str, Json]) -> str:
    """What a problem document says (RFC 9457): where a schema or an option refused, each place."""
    detail = printable(str(problem.get("detail") or problem.get("title") or problem["code"]))
    errors = [error for error in problem.get("errors") or () if isinstance(error, dict) and error.get("path")]
    places = [printable(f"{error['path']}: {error.get('message', '')}") for error in errors]
    return "; ".join([detail, *(place for place in places if detail not in place)])
