"""What the figures were measured on: without it they mean nothing."""

import os
import platform
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class Machine:
    """This one. `filesystem` is that of the stores: each commit waits for its disk."""

    cores: int
    python: str
    sqlite: str
    filesystem: str

    @classmethod
    def found(cls, folder: Path | None) -> "Machine":
        """With stores in this folder, or where temporary files are."""
        place = folder or Path(tempfile.gettempdir())
        return cls(len(os.sched_getaffinity(0)), platform.python_version(), sqlite3.sqlite_version, _filesystem(place))

    def __str__(self) -> str:
        return f"{self.cores} cores, Python {self.python}, SQLite {self.sqlite}, stores on {self.filesystem}"

    @property
    def flatters(self) -> bool:
        """Whether commits cost nothing there, so that the figures are better than a disk's."""
        return self.filesystem in _IN_MEMORY


def _filesystem(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of the file system that a folder is on, as the kernel names it; in a `chroot` that may be hidden."""
    lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    kinds = {line[1]: line[2] for line in lines}
    above = (place.resolve(), *place.resolve().parents)
    return next((kinds[str(folder)] for folder in above if str(folder) in kinds), "a disk unknown")
