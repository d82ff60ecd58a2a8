"""Replays every transcript against a real server: each line is a promise of the protocol."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_schemas import transcript_names, transcripts
from support.postgres import fresh_database
from support.server import running_server
from support.stores import KINDS
from support.transcript import queue_toml, replay, users


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Where the server keeps its queues; "" is a folder."""
    if request.param == "sqlite":
        yield ""
        return
    async with fresh_database(request.getfixturevalue("postgres")) as url:
        yield url


@pytest.mark.parametrize("name", transcript_names())
async def test_the_server_plays_its_part(name: str, place: str, tmp_path: Path) -> None:
    lines = transcripts()[name]
    not_narrowed = dict.fromkeys(users(lines), ())
    async with running_server(tmp_path, queue_toml(lines[0]), users=not_narrowed, store=place) as server:
        await replay(lines, server.base_url, server.tokens)
