"""What the library has to say of its connection while a command runs, for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _News(logging.Handler):
    def __init__(self, tell: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record.getMessage())


@contextmanager
def telling_news(tell: Callable[[str], None], level: int = logging.WARNING) -> Iterator[None]:
    """Tells what `leaseway` logs meanwhile, a line each and without tracebacks, and nobody else is told it."""
    logger = logging.getLogger("leaseway")
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [_News(tell, level)], False
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.handlers, _, logger.propagate = before
        logger.setLevel(before[1])
