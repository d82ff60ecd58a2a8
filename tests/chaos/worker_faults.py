"""What befalls the workers of the campaign: each is a context, which strikes when it is entered and mends at its end.

Between the two the server has noticed what it can notice. Owns no item and judges nothing.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

from chaos.struck_worker import StruckWorker
from client.worker_process import children

Fault: TypeAlias = Callable[[StruckWorker, Sequence[str]], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def killed(worker: StruckWorker, ids: Sequence[str]) -> AsyncIterator[None]:
    """SIGKILL; the items go to others at once, or to the next one."""
    worker.journal.killed(ids)
    await worker.kill()
    await _given_up(worker, ids)
    yield
    await worker.begin()


@asynccontextmanager
async def connection_ended(worker: StruckWorker, _ids: Sequence[str]) -> AsyncIterator[None]:
    """Its connection process is killed, or hangs: another takes over."""
    (connection,) = children(worker.pid)
    os.kill(connection, worker.dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
    yield


@asynccontextmanager
async def stopped(worker: StruckWorker, ids: Sequence[str]) -> AsyncIterator[None]:
    """SIGSTOP beyond the end of its leases, then SIGCONT."""
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        await _given_up(worker, ids)
        yield
    finally:
        os.kill(worker.pid, signal.SIGCONT)


@asynccontextmanager
async def cut_off(worker: StruckWorker, ids: Sequence[str]) -> AsyncIterator[None]:
    """Its connection swallows bytes, in one direction or both; in the end it is reset, or the worker finds out."""
    to_server, to_client = worker.dice.choice([(True, True), (True, False), (False, True)])
    connections = worker.connections
    worker.way.swallow(to_server=to_server, to_client=to_client)
    await worker.journal.until(
        lambda item_id: worker.journal.given_up(item_id) or worker.connections > connections,
        ids,
        "the server to give them up, or the worker its connection",
    )
    yield
    if worker.dice.random() < 0.5:
        worker.way.reset()


async def _given_up(worker: StruckWorker, ids: Sequence[str]) -> None:
    await worker.journal.until(worker.journal.given_up, ids, "the server to give them up")


FAULTS: Final[dict[str, Fault]] = {
    "worker killed": killed,
    "connection process killed or stopped": connection_ended,
    "worker stopped beyond its lease": stopped,
    "worker cut off": cut_off,
}
