"""The README of the JavaScript client: its producer and its worker do what they say, together."""

import asyncio
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

from docs.snippets import snippets
from support.node import CLIENT, find_node
from support.server import open_queue, running_server

PACKAGE = CLIENT / "leaseway_javascript"
README = (PACKAGE / "README.md").read_text()
BLOCKS = [snippet.text for snippet in snippets(README) if snippet.language == "js"]


def block(beginning: str) -> str:
    """The one block of code that begins so."""
    (found,) = [code for code in BLOCKS if code.startswith(beginning)]
    return found


async def output_of(*command: str) -> str:
    """All that the program writes."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    output, _ = await process.communicate()
    return output.decode()


async def test_the_producer_gets_what_the_worker_makes(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/leaseway").symlink_to(PACKAGE)
    code = block("import { Permanent, Worker }") + block("import { Queue }") + "await worker.stop();\n"
    async with running_server(tmp_path, open_queue()) as server:
        program = tmp_path / "program.mjs"
        program.write_text(code.replace("ws://127.0.0.1:8787", server.ws_url))
        told = await output_of(find_node(), str(program))
    assert "finished" in told
    assert told.endswith("{ greeting: 'hello world' }\n")


def test_all_names_of_the_readme_are_exported() -> None:
    code = "".join(path.read_text() for path in PACKAGE.glob("*.js"))
    lists = re.findall(r'import \{([^}]+)\} from "leaseway"', README)
    names = {name.strip() for names in lists for name in names.split(",")}
    assert names
    assert not [name for name in names if not re.search(rf"export (class|function) {name}\b", code)]
