"""The lines of a file as posts: their keys, their slices, and that a stream of any length takes no memory."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import click
import pytest

from leaseway.cli import bulk_lines
from leaseway.cli.bulk_lines import ContentKeys, Keys, Line, MemberKeys, posts, slices

LIMIT = 1_000


def read(text: str | bytes, keys: Keys | None = None, **options: Any) -> list[Line]:
    data = text.encode() if isinstance(text, str) else text
    return list(posts(io.BytesIO(data), keys or ContentKeys(""), options, LIMIT))


def keys_of(text: str, run: str = "") -> list[str]:
    return [json.loads(line.body)["key"] for line in read(text, ContentKeys(run))]


def test_lines_are_bodies_of_posts_and_empty_ones_are_nothing() -> None:
    lines = read('{"a": 1}\n\n  \r\n [1.0, 12345678901234567890]\r\nnull', priority=5)
    assert [line.number for line in lines] == [1, 4, 5]
    assert [json.loads(line.body)["item"] for line in lines] == [{"a": 1}, [1.0, 12345678901234567890], None]
    assert b'"item":[1.0, 12345678901234567890],' in lines[1].body, "as it was written"
    assert {json.loads(line.body)["priority"] for line in lines} == {5}


def test_a_byte_order_mark_says_nothing_and_changes_no_key() -> None:
    assert keys_of("\ufeff1\r\n2") == keys_of("1\n2")
    assert [line.body for line in read("\ufeff")] == []
    assert [bool(line.fault) for line in read("1\n\ufeff2")] == [False, True], "in the midst it is a fault"


def test_a_key_is_by_what_the_line_says_and_how_often_that_was_there() -> None:
    first = keys_of('1\n1\n2\n{"a":1}\n')
    assert len(set(first)) == 4
    assert keys_of('1\n1\n2\n{"a":1}\n') == first, "the same file gives the same keys"
    assert keys_of('3\n2\n1\n\n{"a":1}\n1') == [keys_of("3")[0], first[2], first[0], first[3], first[1]]
    assert not set(keys_of('1\n1\n2\n{"a":1}', run="monday")) & set(first)
    assert all(len(key) <= 200 for key in first)


def test_a_full_disk_is_told_and_what_to_do() -> None:
    keys = ContentKeys("")
    keys._seen.execute("PRAGMA max_page_count = 3")
    with pytest.raises(click.ClickException, match=r"disk is full; SQLITE_TMPDIR can name a folder with more room"):
        read("\n".join(map(str, range(1_000))), keys)


def test_a_member_is_the_key_where_it_is_said_so() -> None:
    keys = MemberKeys("order.id")
    lines = read('{"order": {"id": "x"}}\n{"order": {"id": 7}}\n{"order": {"id": true}}\n{"order": 1}\n1', keys)
    assert [json.loads(line.body)["key"] for line in lines if line.body] == ["x", "7"]
    assert [(line.number, line.fault) for line in lines if line.fault] == [
        (number, "it has no text or integer 'order.id', which is to be its key") for number in (3, 4, 5)
    ]


def test_what_is_not_json_and_what_is_too_long_is_a_fault_of_its_line() -> None:
    long = json.dumps("x" * LIMIT)
    lines = read(f'1,"priority":9\n{long}\n2\n{"x" * 5 * LIMIT}'.encode() + b'\n"\xff"\n3')
    assert [(line.number, line.fault.partition(":")[0].partition(",")[0]) for line in lines] == [
        (1, "it is not JSON"),
        (2, "it has more than 1"),
        (3, ""),
        (4, "it has more than 1"),
        (5, "it is not JSON"),
        (6, ""),
    ]


def line(number: int, size: int = 1, fault: str = "") -> Line:
    return Line(number, b"x" * size, fault)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([line(1), line(2), line(3), line(4)], [[1, 2, 3], [4]]),
        ([line(1), line(2, fault="no"), line(3)], [[1], [2], [3]]),
        ([line(1, fault="no"), line(2, fault="no")], [[1], [2]]),
        ([line(1, 60), line(2, 60), line(3, 10), line(4, 500), line(5)], [[1], [2, 3], [4], [5]]),
    ],
)
def test_slices_are_bounded_in_number_and_bytes(
    given: list[Line], expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_lines, "SLICE_BYTES", 100)
    assert [[each.number for each in part] for part in slices(iter(given), 3)] == expected


class Endless(io.RawIOBase):
    """A stream that gives so many bytes, and was never there as a whole."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = next(self._chunks, b"")
        buffer[: len(chunk)] = chunk
        return len(chunk)


@pytest.mark.parametrize(
    ("chunk", "times", "found"),
    [(b"x" * 8_000, 8_000, 1), (b'{"n": "%s"}\n' % (b"y" * 900) * 8, 1_500, 12_000)],
    ids=["one line of 64 MB", "12,000 lines of 11 MB"],
)
def test_a_stream_of_any_length_takes_no_memory(chunk: bytes, times: int, found: int) -> None:
    stream = io.BufferedReader(Endless(chunk for _ in range(times)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in posts(stream, ContentKeys(""), {}, LIMIT)) == found
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
