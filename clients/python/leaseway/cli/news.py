"""What the library has to say of its connection while a command runs, for people."""

from __future__ import annotations

import logging
from collections.abc import Callable


class _News(logging.Handler):
    def __init__(self, tell: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record.getMessage())


def tell_news(tell: Callable[[str], None], level: int = logging.WARNING) -> None:
    """Tells what `leaseway` logs, a line each and without tracebacks, from now until the process ends."""
    logger = logging.getLogger("leaseway")
    logger.handlers = [_News(tell, level)]
    logger.setLevel(level)
    logger.propagate = False
