"""The transcripts, read without a server: each line meets its wire schema, and together they say everything."""

from typing import Any

import pytest

from leaseway_schemas import transcript_names, transcripts
from support import wire
from support.rehearsal import Rehearsal

SOCKETS: tuple[wire.Socket, ...] = ("work", "monitor")


@pytest.mark.parametrize("name", transcript_names())
def test_each_line_of_a_transcript_meets_its_schema(name: str) -> None:
    head, *lines = transcripts()[name]
    assert head.keys() <= {"title", "section", "about", "queue", "sentences", "values"}
    assert head["title"]
    assert head["section"]
    rehearsal = Rehearsal(head)
    for number, line in enumerate(lines, start=2):
        try:
            rehearsal.read(line)
        except (AssertionError, KeyError) as fault:
            raise AssertionError(f"line {number}: {line}\n{fault!r}") from fault
    rehearsal.end()


@pytest.mark.parametrize(
    "line",
    [
        {"to": "w1", "says": {"type": "empty", "colour": "red"}},
        {"to": "w1", "says": {"type": "posted"}},
        {"to": "w1", "says": {"type": "result-ack", "accepted": True, "reason": "fence"}},
        {"to": "w1", "says": {"type": "item", "attempts": {"$any": "text"}}},
        {"to": "w1", "says": {"type": "item", "id": {"$same": "nobody"}}},
        {"to": "w2", "says": {"type": "empty"}},
        {"from": "w1", "says": {"claim": {"waitMs": -1}}},
        {"from": "w1", "says": {"result": {"id": {"$same": "nobody"}, "value": 1}}},
        {"response": "r1", "status": 200, "body": {"status": "lost"}},
        {"response": "r2", "status": 200},
        {"request": "r2", "method": "GET", "path": "/items/{nobody}"},
        {"request": "r2", "method": "GET", "path": "/items/0", "ticket": "{nobody}"},
        {"open": "w2", "socket": "work", "ticket": "{nobody}"},
        {"request": "r2", "method": "POST", "path": "/items", "body": {}},
        {"shout": "w1"},
    ],
)
def test_a_wrong_line_is_seen(line: dict[str, Any]) -> None:
    rehearsal = Rehearsal({})
    rehearsal.read({"open": "w1", "socket": "work"})
    rehearsal.read({"request": "r1", "method": "GET", "path": "/items/0000000000000000"})
    with pytest.raises((AssertionError, KeyError)):
        rehearsal.read(line)


def test_what_is_left_open_is_seen() -> None:
    rehearsal = Rehearsal({})
    rehearsal.read({"open": "w1", "socket": "work"})
    with pytest.raises(AssertionError):
        rehearsal.end()


def test_the_transcripts_say_everything_that_there_is_to_say() -> None:
    said: set[tuple[str, str]] = set()
    for lines in transcripts().values():
        sockets = {line["open"]: line["socket"] for line in lines if "open" in line}
        for line in lines:
            if "from" in line and "says" in line:
                said |= {(sockets[line["from"]], verb) for verb in line["says"]}
            elif "to" in line:
                said.add((sockets[line["to"]], line["says"]["type"]))
    for socket in SOCKETS:
        # A batch of the server is taken apart, so that no line shows one.
        words = wire.verbs(socket) | (wire.types(socket) - {"batch"})
        assert {(socket, word) for word in words} <= said
