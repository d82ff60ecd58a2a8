"""The log as a test reads it: configured as a server's, written into memory, and put back as it was."""

import asyncio
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from leaseway_server.log import LogFormat, configure_logging

PATIENCE: Final = 10.0
"""Seconds that an event may take before a test fails."""
_LOGGERS: Final = ("", "leaseway_server", "leaseway.audit", "uvicorn")


class Logged(io.StringIO):
    """What was written. `terminal`: it says that it is one."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        """Takes the text."""
        self._written.set()
        return super().write(text)

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._terminal

    @property
    def lines(self) -> list[str]:
        """Each line that was ended."""
        assert self.getvalue() == "" or self.getvalue().endswith("\n")
        return self.getvalue().split("\n")[:-1]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Each line, which is JSON."""
        return [json.loads(line) for line in self.lines]

    @property
    def entry(self) -> dict[str, Any]:
        """The only one."""
        (entry,) = self.entries
        return entry

    async def said(self, event: str) -> dict[str, Any]:
        """The first entry of this event, as soon as it is there."""
        async with asyncio.timeout(PATIENCE):
            while not (found := [entry for entry in self.entries if entry["event"] == event]):
                self._written.clear()
                await self._written.wait()
        return found[0]


@contextmanager
def logged(log_format: LogFormat = "json", *, terminal: bool = False) -> Iterator[Logged]:
    """All that is logged meanwhile."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), [logging.getLogger(name).level for name in _LOGGERS]
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    stream = Logged(terminal=terminal)
    root.handlers = []  # Those of the test run are put aside, or `configure_logging` would close them.
    try:
        with warnings.catch_warnings():
            configure_logging(log_format, stream)
            yield stream
    finally:
        logging.captureWarnings(False)
        root.handlers = handlers
        for name, level in zip(_LOGGERS, levels, strict=True):
            logging.getLogger(name).setLevel(level)
        sys.excepthook, sys.unraisablehook, threading.excepthook = hooks
        logging.raiseExceptions = True
