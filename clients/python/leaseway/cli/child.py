"""One process with pipes at its descriptors 1, 2 and 3, in a process group of its own, and its end.

What is written there, and what an exit status means, is `program.py`'s.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final

_CHUNK: Final = 65_536


class Child:
    """A process that runs. `output`, `errors` and `records` are what it writes to 1, 2 and 3.

    Everything that it starts belongs to its group, and gets its signals, unless it leaves the group by itself. None
    of our sockets and files are open in it.
    """

    def __init__(self, pid: int, ended: asyncio.Future[int], reads: Sequence[int]) -> None:
        self.pid = pid
        self.ended = ended
        self.output = asyncio.StreamReader()
        self.errors = asyncio.StreamReader()
        self.records = asyncio.StreamReader()
        self._files = [os.fdopen(end, "rb", buffering=0) for end in reads]
        self._pipes: list[asyncio.ReadTransport] = []

    @classmethod
    def start(
        cls,
        words: tuple[str, ...],
        environment: Mapping[str, str],
        text: bytes,
        began: Callable[[int], None],
        waiting: Executor,
    ) -> Child:
        """Starts it, with `text` at its standard input.

        `began` is told its number at once, `waiting` has a thread that waits for its end. Raises `OSError`.
        """
        ends: list[int] = []
        try:
            for _ in range(3):
                ends += os.pipe()
            pid = _spawn(words, environment, text, ends[1::2])
        except OSError:
            _close(ends)
            raise
        began(pid)
        _close(ends[1::2])
        return cls(pid, asyncio.get_running_loop().run_in_executor(waiting, _wait, pid), ends[::2])

    async def listen(self) -> None:
        """Begins to read."""
        loop = asyncio.get_running_loop()
        for file, reader in zip(self._files, (self.output, self.errors, self.records), strict=True):
            pipe, _ = await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), file)
            self._pipes.append(pipe)

    def signal(self, number: signal.Signals) -> None:
        """To it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):  # The latter is macOS's word for a group of zombies.
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Reads no more."""
        for pipe in self._pipes:
            pipe.close()
        for file in self._files:
            file.close()


async def lines(reader: asyncio.StreamReader, longest: int) -> AsyncIterator[bytes]:
    """Its lines, without their ends; of a longer one the first `longest` bytes and one more. Memory is bounded."""
    line = b""
    while chunk := await reader.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield (line + part)[: longest + 1]
            line = b""
        line = (line + rest)[: longest + 1]
    if line:
        yield line


def _spawn(words: tuple[str, ...], environment: Mapping[str, str], text: bytes, writes: Sequence[int]) -> int:
    """Its standard input is a file: nobody has to wait until it reads. Python opens everything close-on-exec."""
    with tempfile.TemporaryFile() as given:
        given.write(text)
        given.seek(0)
        ends = (given.fileno(), *writes)
        return os.posix_spawnp(
            words[0],
            words,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)],
            setpgroup=0,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ),
        )


def _wait(pid: int) -> int:
    """Its exit status, minus the signal's number where one ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _close(ends: Sequence[int]) -> None:
    for end in ends:
        os.close(end)
