"""The bulk loop: a file of many lines is posted by a command that is killed again and again; each line is there once.

    python tests/chaos/bulk_loop.py --lines 1000000 --kills 5 [--seed N]

Each life of the command ends with SIGKILL when a random number of lines is in the queue; every third time the server
gets it too. The last life runs to its end. The exit status is 1 where the queue holds not exactly as many items as the
file has lines.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # As the tests have it: `support`.

from websockets.asyncio.client import connect

from support.process import ServerProcess, server_process
from support.server import open_queue

COMMAND: Final = "from leaseway.cli import main; main()"
_PEAK: Final = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


class BulkLoop:
    """One file, one server, and the lives of the command."""

    def __init__(self, folder: Path, server: ServerProcess, lines: int, seed: int) -> None:
        self.peak = 0
        """The most memory that a life had, kB."""
        self._server = server
        self._lines = lines
        self._random = random.Random(seed)  # noqa: S311  No secret.
        self._file = folder / "items.ndjson"
        with self._file.open("w") as file:  # Each tenth line is like the one before.
            file.writelines(f'{{"n": {number - (number % 10 == 9)}, "text": "an item"}}\n' for number in range(lines))

    async def run(self, kills: int, tell: Callable[[str], None]) -> dict[str, Any]:
        """Gives what the last life said of itself, and the items that the queue holds."""
        for number, until in enumerate(sorted(self._random.randrange(self._lines) for _ in range(kills)), 1):
            process = await self._start()
            held = await self._held(until, process)
            process.kill()
            await process.communicate()
            if number % 3 == 0:
                await self._server.restart()
            tell(f"killed at {held:,} lines")
        process = await self._start()
        began = time.monotonic()
        await self._held(self._lines, process)
        out, _ = await process.communicate()
        told: dict[str, Any] = json.loads(out)
        return told | {"seconds": round(time.monotonic() - began, 1), "held": await self._held(self._lines, None)}

    async def _start(self) -> Process:
        words = ("post", f"{self._server.base_url}/demo", "--bulk", str(self._file), "--json")
        return await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, *words, stdout=PIPE, stderr=PIPE)

    async def _held(self, enough: int, process: Process | None) -> int:
        """Waits until the queue holds so many items. Gives how many they are."""
        async with connect(f"{self._server.ws_url}/demo/monitor") as socket:
            await socket.send('{"stats": true}')
            while True:
                held = int(json.loads(await socket.recv())["counts"].get("pending", 0))
                if process is not None:
                    self._measure(process)
                if held >= enough:
                    return held

    def _measure(self, process: Process) -> None:
        status = Path(f"/proc/{process.pid}/status")
        found = _PEAK.search(status.read_text()) if status.exists() else None
        self.peak = max(self.peak, int(found[1]) if found else 0)


async def campaign(lines: int, kills: int, seed: int) -> bool:
    """Whether each line is there once."""
    with tempfile.TemporaryDirectory(prefix="leaseway-bulk-") as name:
        folder = Path(name)
        async with server_process(folder, open_queue(max_pending=str(2 * lines))) as server:
            loop = BulkLoop(folder, server, lines, seed)
            told = await loop.run(kills, print)
    print(f"{told}; the command had at most {loop.peak / 1024:.0f} MB")
    return bool(told["held"] == lines == told["new"] + told["known"])


def main() -> None:
    """The campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed: {options.seed}, {os.cpu_count()} processors")
    raise SystemExit(not asyncio.run(campaign(options.lines, options.kills, options.seed)))


if __name__ == "__main__":
    main()
