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


def _filesystem(place: Path) -> str:
    """The kind of the file system that a folder is on, as the kernel names it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    kinds = {mount[1]: mount[2] for mount in mounts}
    return next(kinds[str(above)] for above in (place.resolve(), *place.resolve().parents) if str(above) in kinds)
