"""The screens of the README, taken anew from the commands themselves: `make screens`.

    python tests/docs/screens.py

Each is what a command wrote to a terminal, up to a moment that its scene names. How a terminal shows it is in
`terminal.py`.
"""

import asyncio
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from docs.terminal import Terminal
from leaseway import Client

SCREENS: Final = Path(__file__).resolve().parents[2] / "docs" / "screens"
LEASEWAY: Final = [sys.executable, "-c", "from leaseway.cli import main; main(prog_name='leaseway')"]
COLUMNS: Final = 100
ROWS: Final = 30
STILL: Final = 0.03
"""Seconds without output, and what is on the terminal is whole."""
PATIENCE: Final = 90.0
QUEUES: Final = {"primes": 3, "large-primes": 2, "mail": 0}
"""The queues of the scene of `top`, and how many workers each has."""

Moment = Callable[[str], bool]
"""Whether what is on the terminal is the picture that is wanted."""


def main() -> None:
    """Takes all."""
    SCREENS.mkdir(exist_ok=True)
    _save("demo", "leaseway demo", shot([*LEASEWAY, "demo"], _goes_on())[0])
    with _busy_server() as url:
        _save("top", f"leaseway top {url}", shot([*LEASEWAY, "top", url], _worked_for(20))[0])
        words = ["post", f"{url}/large-primes", '{"from": 0, "to": 1000000}', "--priority", "9", "--watch"]
        _save("post", f"leaseway {shlex.join(words)}", shot([*LEASEWAY, *words], _half_done)[0])


def _save(name: str, title: str, terminal: Terminal) -> None:
    (SCREENS / f"{name}.svg").write_text(terminal.picture(name, title, COLUMNS), encoding="utf-8")
    print(f"{SCREENS / name}.svg\n{terminal.text}")


# ── Moments ──


def _goes_on() -> Moment:
    """Another worker has the item of the one that was killed, and some are finished."""
    return lambda text: "goes on with" in text and text.count("finished") >= 3


def _worked_for(seconds: float) -> Moment:
    """After so long, while something is in work."""
    began = time.monotonic()
    return lambda text: time.monotonic() - began > seconds and "WORKER " in text


def _half_done(text: str) -> bool:
    """A worker is somewhere between half and all of it."""
    return bool(re.search(r"\b[5-8]\d %", text))


# ── Taking ──


def shot(words: list[str], moment: Moment, columns: int = COLUMNS) -> tuple[Terminal, int]:
    """Runs a command on a terminal until the moment has come, and ends it by Ctrl-C; what is on it, and its status."""
    master, ours = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment = kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(words, stdin=ours, stdout=ours, stderr=ours, env=environment, start_new_session=True)
    os.close(ours)
    terminal = Terminal()
    try:
        _watch(master, terminal, moment)
    finally:
        process.send_signal(signal.SIGINT)
        _drain(master)
        status = process.wait()
    return terminal, status


def _watch(master: int, terminal: Terminal, moment: Moment) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([master], [], [], STILL)[0]:
            terminal.write(_read(master))
        elif moment(terminal.text):
            return
    raise TimeoutError(f"the moment did not come:\n{terminal.text}")


def _read(master: int) -> str:
    """What was written, up to a whole character."""
    data = os.read(master, 65_536)
    while True:
        try:
            return data.decode()
        except UnicodeDecodeError:
            data += os.read(master, 1)


def _drain(master: int) -> None:
    try:
        while os.read(master, 65_536):
            pass
    except OSError:
        os.close(master)


# ── The scene of `top` ──


@contextmanager
def _busy_server() -> Iterator[str]:
    """A server with work for some time, and workers at it."""
    with tempfile.TemporaryDirectory() as folder:
        access = 'access = { post = "open", fetch = "open", work = "open", admin = "open" }'
        toml = "\n".join(f"[queues.{queue}]\n{access}" for queue in QUEUES)
        (Path(folder) / "leaseway.toml").write_text(toml, encoding="utf-8")
        listen = ["serve", "--listen", "127.0.0.1:0", "--log", "terminal"]
        server = subprocess.Popen([*LEASEWAY, *listen], cwd=folder, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        serving = next(found for line in server.stderr if (found := re.search(r"serving (http://\S+)/ ", line)))
        children = [server]
        try:
            asyncio.run(_post(serving[1]))
            children += [_worker(serving[1], queue, number) for queue, many in QUEUES.items() for number in range(many)]
            yield serving[1]
        finally:
            for child in reversed(children):
                child.terminate()
                child.wait()
            server.stderr.close()


async def _post(url: str) -> None:
    for queue, items, size in (("primes", 400, 10_000), ("large-primes", 60, 500_000), ("mail", 40, 100)):
        async with Client(f"{url}/{queue}") as posting:
            for number in range(items):
                await posting.post({"from": number * size, "to": (number + 1) * size})


def _worker(url: str, queue: str, number: int) -> "subprocess.Popen[str]":
    words = ["-m", "leaseway.cli.demo.worker", f"{url}/{queue}", "--name", f"box-{number + 1}", "--pace", "0.01"]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, *words], stdout=nowhere, stderr=nowhere, text=True)


if __name__ == "__main__":
    main()
