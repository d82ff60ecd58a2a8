"""Replays every transcript against a real server: each line is a promise of the protocol."""

from pathlib import Path

import pytest

from leaseway_schemas import transcript_names, transcripts
from support.server import running_server
from support.transcript import queue_toml, replay, users


@pytest.mark.parametrize("name", transcript_names())
async def test_the_server_plays_its_part(name: str, tmp_path: Path) -> None:
    lines = transcripts()[name]
    not_narrowed = dict.fromkeys(users(lines), ())
    async with running_server(tmp_path, queue_toml(lines[0]), users=not_narrowed) as server:
        await replay(lines, server.base_url, server.tokens)
