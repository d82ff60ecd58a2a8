"""What a worker and the processes that it starts do with SIGINT, SIGTERM and SIGHUP.

A terminal sends them to all processes of its group, a service manager too: the worker decides, the others wait for
its word.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

HELD = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


@contextlib.contextmanager
def at_first_signal(told: Callable[[], None]) -> Iterator[None]:
    """Calls `told` at the first SIGINT or SIGTERM. From then on both do what the system does with them: they kill.

    Nothing of ours needs to run for that, so that it works whatever holds up the event loop or the interpreter.
    """

    def on_signal(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        told()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, on_signal)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None is one that Python did not set and cannot set.


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """A process that is started now begins with these blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def pass_over_signals() -> None:
    """In a process that began so: they do nothing, and what it starts in turn has them as the system sets them."""
    for number in HELD:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def how_ended(status: int) -> str:
    """The end of a process, by the status that Python gives it: below 0 where a signal ended it."""
    return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
