"""Every transcript of the protocol, played in Node with the JavaScript client's words, as from Python."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from leaseway_schemas import transcript_names, transcripts
from support.node import Script, script
from support.server import TestServer, running_server
from support.transcript import QUEUE, queue_toml, users

Lines = Sequence[Mapping[str, Any]]


def stands_alone(lines: Lines) -> bool:
    """Whether it looks at more than its queue: at the server itself, or at a queue that is not there."""
    return any("queue" in line or str(line.get("path")).startswith("/_") for line in lines[1:])


def tell(player: Script, server: TestServer, queue: str, lines: Lines) -> None:
    """Lets the transcript be played on this queue."""
    player.tell(json.dumps({"url": server.base_url, "queue": queue, "tokens": server.tokens, "lines": lines}))


async def hear(player: Script) -> tuple[str, str]:
    """Of one that was played the queue, and what came of it: `played`, or what went otherwise."""
    queue, _, what = (await player.says("heard")).partition(" ")
    return queue, what


@pytest.mark.timeout(120)
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
                tell(player, server, QUEUE, lines)
                told[name] = (await hear(player))[1]
        # A server takes longer to start and to stop than most transcripts to play: the others share one, all at once.
        heads = {name: queue_toml(transcripts()[name][0]) for name in shared}
        toml = "".join(head.replace(f"queues.{QUEUE}", f"queues.{name}") for name, head in heads.items())
        whole = {user: () for name in shared for user in users(transcripts()[name])}
        async with running_server(tmp_path, toml, users=whole) as server:
            for name in shared:
                tell(player, server, name, transcripts()[name])
            told |= [await hear(player) for _ in shared]
    assert told == dict.fromkeys(told, "played")
    assert len(told) == len(transcript_names())
