"""Looks up names for calls to strangers' addresses, on a few threads of its own.

A name whose servers do not answer holds a thread for as long as the system is patient. On the threads that everything
of the process shares, some such names would keep mails, and whatever else looks up a name, from theirs.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

THREADS: Final = 16
"""So many names are looked up at a time; a call waits for its turn within its own timeout."""


class OwnThreads(AbstractResolver):
    """A resolver of aiohttp's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="leaseway-notify-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises `OSError` where there are none."""
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=0)
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Begins nothing more. What is under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(
    host: str, port: int, family: int
) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str | int, ...]]]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(*one[:4], tuple(one[4])) for one in found]
