"""Holds messages and HTTP bodies against the wire schemas, in both directions.

Owns the one registry of compiled schemas and the way from a message to its schema. What a message should say
in a given situation is not its concern. Every check raises `WireError` (an `AssertionError`) or returns None.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal

import jsonschema_rs
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from referencing import Registry, Resource

from leaseway_schemas import wire, wire_names

Socket = Literal["work", "monitor"]
_ANSWERS = {
    "/_health": "http-health",
    "/_ready": "http-ready",
    "/_queues": "http-queues",
    "": "http-queue",
    "/rates": "http-rates",
    "/pause": "http-paused",
    "/unpause": "http-paused",
    "/workers": "http-workers",
    "/bulk": "http-bulk-counts",
}
"""The schemas of the answers to requests that have a path of their own; "" is the queue's."""
WORK_REQUESTS = ("claim", "progress", "result", "fail", "release", "renew")


class WireError(AssertionError):
    """A message does not conform to the protocol's wire schemas."""


def check_client(socket: Socket, message: Any) -> None:
    """Hold what a client says on a socket against its schema; exactly one known verb (PROTOCOL.md, head)."""
    if not isinstance(message, dict):
        raise WireError(f"a message is one JSON object, not {message!r}")
    known = [verb for verb in _schemas(socket, "client") if verb in message]
    if len(known) != 1:
        raise WireError(f"one known verb is wanted on the {socket} socket, not {known}: {message!r}")
    if known[0] == "batch":
        _check_each(partial(check_client, socket), message["batch"])
    check(_schemas(socket, "client")[known[0]], message)


def check_server(socket: Socket, message: Any) -> None:
    """Hold what the server says on a socket against its schema, which is exact."""
    schema = server_schema(socket, message)
    if message["type"] == "batch":
        _check_each(partial(check_server, socket), message.get("messages"))
    check(schema, message)


def server_schema(socket: Socket, message: Any) -> str:
    """The name of the schema of what the server says on a socket."""
    kind = message.get("type") if isinstance(message, dict) else None
    schema = _schemas(socket, "server").get(str(kind))
    if schema is None:
        raise WireError(f"no message that the server sends on the {socket} socket: {message!r}")
    return schema


def verbs(socket: Socket) -> frozenset[str]:
    """The verbs that a client may use on a socket."""
    return frozenset(_schemas(socket, "client"))


def types(socket: Socket) -> frozenset[str]:
    """The types of message that the server may send on a socket."""
    return frozenset(_schemas(socket, "server"))


def check_request(method: str, path: str, body: Any) -> None:
    """Hold an HTTP body against its schema. `path` is what follows the queue's name: `/items`, `/claim`."""
    if method == "POST" and path == "/items":
        check_http("post-all" if isinstance(body, list) else "post", body)
    elif method == "PATCH":
        check_http("patch", body)
    elif method == "POST" and path.removeprefix("/") in WORK_REQUESTS:
        check_http(path.removeprefix("/"), body)
    elif method == "POST" and path == "/bulk":
        check_http("bulk", body)


def check_response(method: str, path: str, status: int, body: Any) -> None:
    """Hold the body of an HTTP answer against its schema. `path` as in `check_request`, or `/_health`."""
    if isinstance(body, list) and path == "/claim":  # `count` was asked (PROTOCOL.md §5).
        _check_each(partial(check_response, method, path, status), body)
    elif schema := answer_schema(method, path, status, body):
        check(schema, body)
    if status >= 400 and body["status"] != status:
        raise WireError(f"the problem document says {body['status']}, the answer {status}")


def answer_schema(method: str, path: str, status: int, body: Any) -> str | None:
    """The schema of an HTTP answer; None where the body is a user's own (`/items/<id>/item`, `/schemas/…`)."""
    path = path.partition("?")[0]
    if status >= 400:
        return "http-problem"
    if path.removeprefix("/") in WORK_REQUESTS:
        return f"work-server-{body.get('type')}"
    if method == "POST" and path == "/items":
        return "http-posted-all" if "items" in body else "http-posted"
    if method == "POST" and path == "/tickets":
        return "http-ticket"
    if path.endswith("/why"):
        return "http-why"
    if method in ("GET", "HEAD") and path == "/items":
        return "http-page"
    if re.fullmatch("/items/[^/]+/attempts", path):
        return "http-attempts"
    if path.endswith(("/cancel", "/retry")) or (method in ("GET", "PATCH") and re.fullmatch("/items/[^/]+", path)):
        return "http-view"
    return _ANSWERS.get(path)


def check_http(name: str, body: Any) -> None:
    """Hold a body against `http-<name>`."""
    check(f"http-{name}", body)


def check(name: str, value: Any) -> None:
    """Hold a value against the wire schema of that name."""
    if name not in _names():
        raise WireError(f"the protocol has no {name}: {str(value)[:1000]}")
    if not is_valid(name, value):
        faults = sorted(_teller(name).iter_errors(value), key=lambda fault: fault.json_path)
        told = "; ".join(f"{fault.json_path}: {fault.message[:200]}" for fault in faults[:5])
        raise WireError(f"not as {name} says: {told} — in {str(value)[:1000]}")


def is_valid(name: str, value: Any) -> bool:
    """Whether a value meets the wire schema of that name. It is one that JSON can keep."""
    return _judge(name).is_valid(value)


@cache
def _schemas(socket: Socket, side: Literal["client", "server"]) -> dict[str, str]:
    """The names of the schemas by verb or type; `socket-…` are those of either socket."""
    return {
        name.removeprefix(prefix): name
        for prefix in (f"{socket}-{side}-", f"socket-{side}-")
        for name in _names()
        if name.startswith(prefix)
    }


def _check_each(check_one: Callable[[Any], None], messages: Any) -> None:
    """The members of an array one by one, since an error of the whole would not say which and why."""
    for message in messages if isinstance(messages, list) else ():
        check_one(message)


@cache
def _names() -> frozenset[str]:
    return frozenset(wire_names())


@cache
def registry() -> Registry[Any]:
    """All wire schemas, by their `$id`."""
    resources = (Resource.from_contents(wire(name)) for name in _names())
    return Registry().with_resources((resource.id() or "", resource) for resource in resources)


@cache
def _judge(name: str) -> jsonschema_rs.Draft202012Validator:
    """Says whether, a hundred times as fast as the other one."""
    return jsonschema_rs.Draft202012Validator(wire(name), registry=_documents())


@cache
def _documents() -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(document["$id"], document) for document in map(wire, _names())])


@cache
def _teller(name: str) -> Any:
    """Says in which words of a schema what is wrong."""
    return Draft202012Validator(wire(name), registry=registry())
