"""The fenced blocks of a Markdown text, and the processes that run what stands in them.

A block is known by its marker, `<!-- run: NAME -->` on the line before it. What a block should do is not decided here.
"""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from support.child import ended_after

ADDRESS = "127.0.0.1:8787"
"""Where the snippets expect the server."""
_BLOCK = re.compile(
    r"(?:^<!-- run: (?P<marker>[a-z-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One fenced block; `marker` is "" where it has none."""

    marker: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, empty ones too."""
        return self.text.splitlines()

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, without comments."""
        return [line.partition("  #")[0].strip() for line in self.lines]

    def at(self, server_url: str) -> "Snippet":
        """The same for another server, `http://HOST:PORT`."""
        assert ADDRESS in self.text, self
        return self.replacing(ADDRESS, server_url.removeprefix("http://").rstrip("/"))

    def replacing(self, old: str, new: str) -> "Snippet":
        """The same with another text in it."""
        assert old in self.text, self
        return replace(self, text=self.text.replace(old, new))


def snippets(markdown: str) -> Iterator[Snippet]:
    """All fenced blocks. Raises `AssertionError` where there is a fence that is none of a block's."""
    found = [Snippet(each["marker"] or "", each["language"], each["text"]) for each in _BLOCK.finditer(markdown)]
    assert markdown.count("```") == 2 * len(found), "a fence is indented, open or nested"
    yield from found


@asynccontextmanager
async def started(*command: str | Path, folder: Path, **environment: str) -> AsyncIterator[Process]:
    """A process with its outputs in pipes; killed at the end, where it still runs.

    It finds this environment's commands first, and nothing of Leaseway's in its variables but what is given.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=kept | {"PATH": path, "PYTHONUNBUFFERED": "1"} | environment,
        stdout=PIPE,
        stderr=PIPE,
    )
    async with ended_after(process):
        yield process


@asynccontextmanager
async def python(snippet: Snippet, folder: Path) -> AsyncIterator[Process]:
    """A Python block at work, as a file of its own."""
    file = folder / f"{snippet.marker}.py"
    file.write_text(snippet.text)
    async with started(sys.executable, file, folder=folder) as process:
        yield process


async def shell(text: str, folder: Path, **environment: str) -> str:
    """What a shell block prints. Raises `AssertionError` where a command of it ends badly."""
    async with started("sh", "-ec", text, folder=folder, **environment) as process:
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


@asynccontextmanager
async def serving(command: str, folder: Path, **environment: str) -> AsyncIterator[tuple[str, Process]]:
    """A server started by a command, on a free port: its `http://HOST:PORT`, and its process."""
    async with started("sh", "-c", f"exec {command}", folder=folder, LEASEWAY_LISTEN="127.0.0.1:0", **environment) as (
        process
    ):
        assert process.stderr is not None
        printed = b""
        async for line in process.stderr:
            printed += line
            if address := re.search(rb"serving (http://\S+)/", line):
                yield address[1].decode(), process
                return
        raise AssertionError(f"it ended without serving:\n{printed.decode()}")
