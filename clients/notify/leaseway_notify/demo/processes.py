"""The processes of the demo: the queue's server, the service and a worker, as an operator would start them."""

import asyncio
import os
import secrets
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

STOP_WITHIN: Final = 15.0
LAST_WORDS: Final = 8
_PORTS: Final = range(12_000, 30_000)


class DemoFailed(Exception):
    """Something ended that should not, or did not come about."""


def free_port() -> int:
    """A port of loopback that nobody has; below those that systems give to whoever asks for any, so that it is still
    free when a process comes to listen on it."""
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


@asynccontextmanager
async def process(folder: Path, *command: str, ready: str) -> AsyncIterator[asyncio.Task[None]]:
    """A module of Python at work, once a line of its output holds `ready`; the task ends when it ends by itself.

    It has a session of its own: Ctrl-C is the demo's, which then ends its processes in order. Raises `DemoFailed`.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        cwd=folder,
        env={**kept, "PYTHONUNBUFFERED": "1"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    try:
        words: deque[str] = deque(maxlen=LAST_WORDS)
        await _until(child, ready, words)
        watching = asyncio.create_task(_watch(child, command[0], words))
        try:
            yield watching
        finally:
            watching.cancel()
            await asyncio.wait({watching})
    finally:
        await _end(child)


async def _until(child: Process, ready: str, words: deque[str]) -> None:
    assert child.stdout is not None
    async for line in child.stdout:
        words.append(line.decode(errors="replace").rstrip())
        if ready in words[-1]:
            return
    raise DemoFailed("\n".join(words) or "a process ended without a word")


async def _watch(child: Process, name: str, words: deque[str]) -> None:
    assert child.stdout is not None
    async for line in child.stdout:
        words.append(line.decode(errors="replace").rstrip())
    status = await child.wait()
    raise DemoFailed("\n".join([f"{name} ended by itself with status {status}:", *words]))


async def _end(child: Process) -> None:
    """The planned stop; SIGKILL where that takes too long."""
    if child.returncode is None:
        child.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN):
                await child.communicate()
    if child.returncode is None:
        child.kill()
        await child.communicate()


def write_settings(folder: Path, ports: Mapping[str, int], token: str, secret: str) -> None:
    """The files of both configurations. Retries come after a second, so that people see what becomes of them."""
    from leaseway_schemas import example_folder

    schemas = example_folder("notification-deliveries")
    (folder / "leaseway.toml").write_text(
        f"""[server]
listen = "127.0.0.1:{ports["queue"]}"
store = "sqlite:queue"

[queues.notification-deliveries]
schemas = "{schemas}"
lease = "5m"
match = ["channel"]
access = {{ post = "open", fetch = "open", work = "open", admin = "open" }}
retry = {{ max_attempts = 3, delays = ["1s"] }}
"""
    )
    (folder / "notify.toml").write_text(
        f"""store = "sqlite:notify.db"

[queue]
url = "ws://127.0.0.1:{ports["queue"]}/notification-deliveries"

[service]
listen = "127.0.0.1:{ports["service"]}"
token = "{token}"
secret = "{secret}"
token_url = "http://127.0.0.1:{ports["page"]}/token"
origins = ["http://127.0.0.1:{ports["page"]}"]

[email]
transport = "smtp"
sender = "bell@demo.example"
name = "The demo"
host = "127.0.0.1"
port = {ports["mail"]}
security = "none"

[push]
keys = "vapid.pem"
subject = "mailto:ops@demo.example"
allow_private = true

[types.mention]
batch = {{ email = "2s" }}
"""
    )
