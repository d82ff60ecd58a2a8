"""Reads a transcript without a server: each line is held against its wire schema, names must be known when used.

Owns the sample values that stand in for what a server would say. Plays nothing: that is `support.transcript`.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest

from leaseway_schemas import wire
from support import wire as held
from support.matching import Names, is_placeholder
from support.wire import WireError, check_client, check_request


class Rehearsal:
    """One transcript's lines, read in order; what is wrong raises `AssertionError` or `KeyError`."""

    _samples: ClassVar[dict[str, Any]] = {
        "time": 1751500000000,
        "number": 7,
        "text": "text",
        "object": {},
        "list": [],
    }

    def __init__(self, head: dict[str, Any]) -> None:
        self._names = Names(head.get("values", {}))
        self._sockets: dict[str, held.Socket] = {}
        self._requests: dict[str, dict[str, Any]] = {}

    def read(self, line: dict[str, Any]) -> None:
        """Read the next line, the head aside."""
        verb = next(iter(line))
        step: dict[str, Callable[[dict[str, Any]], None]] = {
            "open": self._open,
            "from": self._from,
            "to": self._to,
            "request": self._request,
            "response": self._response,
        }
        if verb in step:
            step[verb](line)
        else:
            assert verb in ("close", "drop", "closed")
            del self._sockets[line[verb]]

    def end(self) -> None:
        """The transcript is over: every socket is closed and every request answered."""
        assert not self._sockets
        assert not self._requests

    def _open(self, line: dict[str, Any]) -> None:
        assert line["open"] not in self._sockets
        self._names.write(line.get("ticket", ""))
        self._sockets[line["open"]] = line["socket"]

    def _from(self, line: dict[str, Any]) -> None:
        socket = self._sockets[line["from"]]
        if "says" in line:
            message = self._names.fill(line["says"])
            self._hold(line, partial(check_client, socket, message))

    def _to(self, line: dict[str, Any]) -> None:
        socket, says = self._sockets[line["to"]], line["says"]
        self._expect(held.server_schema(socket, says), says, {})

    def _request(self, line: dict[str, Any]) -> None:
        assert line["request"] not in self._requests
        self._requests[line["request"]] = line
        self._names.write(line["path"] + line.get("ticket", ""))
        if "body" in line:
            body = self._names.fill(line["body"])
            self._hold(line, partial(check_request, line["method"], line["path"], body))

    def _response(self, line: dict[str, Any]) -> None:
        asked = self._requests.pop(line["response"])
        body = line.get("body", {})
        schema = held.answer_schema(asked["method"], asked["path"], line["status"], body)
        if schema:
            self._expect(schema, body, {"status": line["status"]} if line["status"] >= 400 else {})

    def _hold(self, line: dict[str, Any], check: Callable[[], None]) -> None:
        if line.get("broken"):
            with pytest.raises(WireError):
                check()
        else:
            check()

    def _expect(self, schema: str, wanted: dict[str, Any], fixed: dict[str, Any]) -> None:
        """Some example of the schema, with the line's members laid over it, meets schema and line."""
        faults = []
        for shown in wire(schema)["examples"]:
            message = self._laid_over(shown | fixed, wanted)
            try:
                held.check(schema, message)
            except WireError as fault:
                faults.append(fault)
            else:
                return
        raise AssertionError(faults)

    def _laid_over(self, shown: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        message = copy.deepcopy(shown)
        for key, value in wanted.items():
            message[key] = self._sample(value, message.get(key))
            if value == {"$absent": True}:
                del message[key]
            # One by one, since a line may use what it captured in an earlier member.
            self._names.match({key: value}, message)
        return message

    def _sample(self, wanted: Any, shown: Any) -> Any:
        match wanted:
            case {"$same": str(name)}:
                return self._names.fill({"$same": name})
            case {"$above": str(name)}:
                return self._names.fill({"$same": name}) + 1
            case {"$any": str(kind)}:
                return self._samples[kind]
            case _ if is_placeholder(wanted):
                return shown
            case dict():
                members = shown if isinstance(shown, dict) else {}
                return {key: self._sample(value, members.get(key)) for key, value in wanted.items()}
            case list():
                first = shown[0] if isinstance(shown, list) and shown else None
                return [self._sample(value, first) for value in wanted]
            case _:
                return wanted
