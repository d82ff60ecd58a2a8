"""A stand-in for `systemctl`: it starts, reloads and stops what the units in `$MACHINE/etc/systemd/system` say.

A program of its own, started by the stand-in script of that name. It obeys of a unit: Environment, EnvironmentFile,
ExecStart, ExecReload, KillSignal, TimeoutStopSec, Type, User and WorkingDirectory. There is no sandbox.
"""

import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

MACHINE = Path(os.environ["MACHINE"])
KEPT = ("PATH", "PYTHONPATH")
"""What a started program has of our environment; systemd gives it nothing."""

EAR = f"systemctl-{os.getpid()}"
"""The abstract socket on which a program says that it is ready: a path of the machine's may be too long for one."""

PATIENCE = 20.0
"""Seconds that a program may take until it says that it is ready."""


class Unit:
    """One unit's section `[Service]`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid_file = MACHINE / "run" / f"{name}.pid"
        self._log = MACHINE / "var/log" / name
        text = (MACHINE / "etc/systemd/system" / f"{name}.service").read_text().replace("%S", str(MACHINE / "var/lib"))
        lines = text.partition("[Service]\n")[2].partition("\n[")[0].splitlines()
        self._keys = [line.partition("=")[::2] for line in lines if line and not line.startswith("#")]

    def all(self, key: str) -> list[str]:
        """The values of a key."""
        return [value for name, value in self._keys if name == key]

    def one(self, key: str) -> str:
        """The only value of a key."""
        (value,) = self.all(key)
        return value

    def environment(self) -> dict[str, str]:
        """What its programs are given."""
        lines = [word for line in self.all("Environment") for word in shlex.split(line)]
        for file in self.all("EnvironmentFile"):
            lines += Path(file).read_text().splitlines()
        return {name: os.environ[name] for name in KEPT} | dict(line.split("=", 1) for line in lines)

    def start(self) -> None:
        """Starts it; a unit of the type `notify` is waited for."""
        assert self.one("User") in (MACHINE / "users").read_text().split(), "there is no such user"
        folder = Path(self.one("WorkingDirectory"))
        folder.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear, self._log.open("ab") as log:
            ear.bind(f"\0{EAR}")
            ear.settimeout(PATIENCE)
            process = subprocess.Popen(
                shlex.split(self.one("ExecStart")),
                cwd=folder,
                env=self.environment() | {"NOTIFY_SOCKET": f"@{EAR}"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            self.pid_file.write_text(str(process.pid))
            while self.one("Type") == "notify" and b"READY=1" not in ear.recv(4096):
                pass

    def stop(self) -> None:
        """Sends the signal, and waits as long as the unit allows."""
        pid = int(self.pid_file.read_text())
        ending = select.poll()
        ending.register(os.pidfd_open(pid))
        os.kill(pid, signal.Signals[self.one("KillSignal")])
        if not ending.poll(int(self.one("TimeoutStopSec").removesuffix("s")) * 1000):
            sys.exit(f"{self.name} did not stop in time")
        self.pid_file.unlink()

    def restart(self) -> None:
        """One after the other."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Runs what the unit says."""
        command = self.one("ExecReload").replace("$MAINPID", self.pid_file.read_text())
        subprocess.run(shlex.split(command), check=True)


def main(verb: str, *arguments: str) -> None:
    """Obeys one command line."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if verb in ("enable", "disable"):
        assert arguments[0] == "--now"
        verb = {"enable": "start", "disable": "stop"}[verb]
    for name in names:
        getattr(Unit(name), verb)()
    assert names or verb == "daemon-reload"


main(*sys.argv[1:])
