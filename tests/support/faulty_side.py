"""An end of a move that fails where a test says so: at the seam that `moving/side.py` is, around any end."""

from collections.abc import Callable
from typing import Any, Final

_VERBS: Final = frozenset(
    {
        "queues", "tokens", "add_tokens", "remove_tokens", "mark_tokens",
        "look", "set_mark", "counts", "read", "begin", "last", "write", "end", "remove",
    }
)  # fmt: skip


class Killed(Exception):
    """Nothing more was done."""


class Count:
    """Which verbs were said to both ends. The `nth` of the name `fatal` is not done, nor any after it."""

    def __init__(self, fatal: str, nth: int = 1) -> None:
        self._fatal = fatal
        self._left = nth

    def one_more(self, name: str) -> None:
        """Raises `Killed` where it is time."""
        self._left -= name == self._fatal
        if self._left <= 0:
            raise Killed


class FaultySide:
    """A `Side`, or a `QueueSide` of one, whose verbs are counted."""

    def __init__(self, inner: Any, count: Count) -> None:
        self._inner = inner
        self._count = count

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "queue":
            return self._queue
        return self._counted(name, value) if name in _VERBS else value

    async def _queue(self, name: str) -> "FaultySide":
        return FaultySide(await self._inner.queue(name), self._count)

    def _counted(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any) -> Any:
            self._count.one_more(name)
            return await verb(*arguments)

        return counted
