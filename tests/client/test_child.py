"""Lines of a program, in bounded memory, and the guardian's account of what runs."""

import asyncio

import pytest

from leaseway.cli.child import lines
from leaseway.cli.guardian import Guardian, end, guard


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ([], []),
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"on", b"e\nt", b"wo"], [b"one", b"two"]),
        ([b"\n\n"], [b"", b""]),
        ([b"too long", b" for us\nshort\n"], [b"too lo", b"short"]),
        ([b"x" * 100, b"y" * 100], [b"xxxxxx"]),
    ],
)
async def test_a_line_is_cut_one_byte_behind_the_longest(chunks: list[bytes], found: list[bytes]) -> None:
    reader = asyncio.StreamReader()

    async def write() -> None:
        for chunk in chunks:
            reader.feed_data(chunk)
            await asyncio.sleep(0)
        reader.feed_eof()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        assert [line async for line in lines(reader, 5)] == found


def test_the_guardian_ends_what_began_and_did_not_end() -> None:
    assert guard(["+1\n", "+2\n", "-1\n", "+3\n"]) == {2, 3}
    assert guard(["+1\n", "-1\n", "-1\n"]) == set()
    end(set())


def test_who_kills_the_guardian_harms_no_program() -> None:
    with Guardian() as guardian:
        guardian._process.kill()
        guardian._process.wait()
        guardian.began(1)
        guardian.ended(1)
