"""A worker's state without a socket: a clock, and the server's words, all held against the wire schemas."""

import json
from typing import Any

from client.scripted_peer import A, Message, hello, item
from leaseway.leases import Event, Lease, Renewed, Settled, Start
from leaseway.outcome import Outcome
from leaseway.worker_state import WorkerState
from support.wire import check_client, check_server

DONE = Outcome.result({"width": 64})


class Worker:
    """A worker's state, a clock, and the server's words."""

    def __init__(self, slots: int = 1, criteria: Message | None = None, *, until_empty: bool = False) -> None:
        self.now = 1000.0
        self.awake = True
        self.state = WorkerState(
            "box-1", slots, criteria, until_empty=until_empty, awake=lambda: self.awake, labels={"gpu": True}
        )

    def connect(self) -> list[Message]:
        """A socket opens; what is said on it first."""
        assert json.loads(self.state.hello())["hello"]["worker"] == "box-1"
        self.state.opened(hello(), self.now)
        return self.said()

    def said(self) -> list[Message]:
        """All that wants to be sent, as the server will read it."""
        messages = []
        while (data := self.state.next_message()) is not None:
            check_client("work", message := json.loads(data))
            messages += message.get("batch", [message])
        return messages

    def one(self) -> Message:
        """The only thing that wants to be sent."""
        (message,) = self.said()
        return message

    def tell(self, *messages: Message) -> list[Event]:
        """The server says this; what came of it, what a worker's handlers do not notice aside."""
        for message in messages:
            check_server("work", message)
            self.state.received(message, self.now)
        return [event for event in self.state.take_events() if not isinstance(event, Renewed | Settled)]

    def start(self, claim: Message, item_id: str = A, attempts: int = 1, **members: Any) -> Lease:
        """A claim is answered with an item."""
        (event,) = self.tell(item(claim, item_id, attempts, **members))
        assert isinstance(event, Start)
        return event.lease

    def later(self, seconds: float) -> list[Message]:
        """Time passes; what is said then."""
        self.now += seconds
        self.state.tick(self.now)
        return self.said()

    def progress(self, lease: Lease, value: Any) -> int:
        """A handler posts a progress record; its ref."""
        return self.state.progress(lease, value, self.now)

    def settle(self, lease: Lease, outcome: Outcome | None = DONE) -> list[Message]:
        """A handler ends; what is said then."""
        self.state.settle(lease, outcome, self.now)
        return self.said()


def busy(attempts: int = 1) -> tuple[Worker, Lease]:
    """A worker with one slot and an item in it."""
    worker = Worker()
    (claim,) = worker.connect()
    return worker, worker.start(claim, attempts=attempts)
