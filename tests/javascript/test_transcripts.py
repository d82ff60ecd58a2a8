"""Every transcript of the protocol, played in Node with the JavaScript client's words, as from Python."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaseway_schemas import transcript_names, transcripts
from support.node import Script, script
from support.server import TestServer, running_server
from support.transcript import QUEUE, queue_toml, users

Lines = Sequence[Mapping[str, Any]]


def stands_alone(lines: Lines) -> bool:
    """Whether it looks at more than its queue: at the server itself, or at a queue that is not there."""
    return any("queue" in line or str(line.get("path")).startswith("/_") for line in lines[1:])


async def play(player: Script, server: TestServer, queue: str, lines: Lines) -> str:
    """What came of it: `played`, or what went otherwise."""
    player.tell(json.dumps({"url": server.base_url, "queue": queue, "tokens": server.tokens, "lines": lines}))
    return await player.says("heard")


async def test_all_transcripts_are_played(tmp_path: Path) -> None:
    told = {}
    alone = [name for name in transcript_names() if stands_alone(transcripts()[name])]
    shared = [name for name in transcript_names() if name not in alone]
    async with script("transcripts.js") as player:
        for name in alone:
            lines = transcripts()[name]
            (tmp_path / name).mkdir()
            whole = dict.fromkeys(users(lines), ())
            async with running_server(tmp_path / name, queue_toml(lines[0]), users=whole) as server:
                told[name] = await play(player, server, QUEUE, lines)
        # A server takes longer to start and to stop than most transcripts to play: the others share one.
        toml = "".join(
            queue_toml(transcripts()[name][0]).replace(f"queues.{QUEUE}", f"queues.{name}") for name in shared
        )
        whole = {user: () for name in shared for user in users(transcripts()[name])}
        async with running_server(tmp_path, toml, users=whole) as server:
            for name in shared:
                told[name] = await play(player, server, name, transcripts()[name])
    assert len(told) == len(transcript_names())
    assert {name: what for name, what in told.items() if what != "played"} == {}
