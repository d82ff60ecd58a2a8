"""Every transcript of the protocol, played in Node with the JavaScript client's words, as from Python."""

import json
from pathlib import Path

from leaseway_schemas import transcript_names, transcripts
from support.node import script
from support.server import running_server
from support.transcript import queue_toml, users


async def test_all_transcripts_are_played(tmp_path: Path) -> None:
    wrong = {}
    async with script("transcripts.js") as running:
        for name in transcript_names():
            lines = transcripts()[name]
            folder = tmp_path / name
            folder.mkdir()
            not_narrowed = dict.fromkeys(users(lines), ())
            async with running_server(folder, queue_toml(lines[0]), users=not_narrowed) as server:
                running.tell(json.dumps({"url": server.base_url, "tokens": server.tokens, "lines": lines}))
                told = await running.says("heard")
            if told != "played":
                wrong[name] = told
    assert wrong == {}
