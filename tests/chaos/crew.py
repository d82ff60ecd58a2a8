"""The workers of several servers: bare ones over both doors, and the Python client's. They write a journal.

Mostly they end their items by results. What a bare one was doing when its connection was lost it goes on with, or
forgets.
"""

import asyncio
import json
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from chaos.crowd import Crowd, Member
from chaos.journals import Message
from leaseway import Attempt, Permanent, Retry, Worker
from leaseway.connection import Outside
from leaseway.leases import Ending, Lease
from support.swallowing import Way

PLACES = 6
FORGETS = 0.2
"""So many of the bare workers that come back know nothing of what they held, and have another name."""
CUTS = 0.005
"""A bare worker's connection is cut before so many of its messages."""
WORK = 0.02
"""The Python client's handlers take up to so many seconds."""


@dataclass(slots=True)
class Held:
    """An item in a worker's hands. `said` is the report that was sent and not answered: verb and body."""

    item_id: str
    attempts: int
    number: int
    said: tuple[str, dict[str, Any]] | None = field(default=None)


class BareWorker(Member):
    """Claims and settles. `name` is what the server knows it by."""

    def __init__(self, crowd: Crowd, who: str, way: Way) -> None:
        super().__init__(crowd, who, way)
        self.name = who
        self.held: list[Held] = []

    @abstractmethod
    async def ask(self, verb: str, body: Message, ref: int) -> list[Message]:
        """Says it, and gives the answers."""

    async def say(self, verb: str, body: Message) -> list[Message]:
        """The same, with a line for each in the journal."""
        ref = self.journal.said(self.who, verb, {"worker": self.name, **body})
        answers = await self.ask(verb, body, ref)
        for answer in answers:
            self.journal.heard(self.who, ref, answer)
        if answers[-1]["type"] == "error":
            await self.crowd.breathe()
        return answers

    async def work(self) -> None:
        """Claims, and settles what is held; once."""
        if len(self.held) < PLACES:
            await self._claim()
        for held in list(self.held):
            if held.said or self.crowd.finishing or self.dice.random() < 0.7:
                await self._settle(held)

    async def _claim(self) -> None:
        claim = {"worker": self.name, "count": self.dice.randint(1, 4), "waitMs": self.dice.choice([0, 50, 500])}
        for message in await self.say("claim", claim):
            if message["type"] == "item":
                self.held.append(Held(message["id"], message["attempts"], message["item"]["number"]))

    async def _settle(self, held: Held) -> None:
        fence = {"id": held.item_id, "attempts": held.attempts}
        if held.said is None and self.dice.random() < 0.3:
            await self.say("progress", {**fence, "value": {"percent": self.dice.randint(0, 99)}})
        elif held.said is None and self.dice.random() < 0.2:
            await self.say("renew", fence)
        held.said = held.said or self._report(held, fence)
        [ack] = await self.say(*held.said)
        if ack["type"] != "error":
            self.held.remove(held)

    def _report(self, held: Held, fence: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        chance = self.dice.random()
        if chance < 0.05:
            return "release", fence
        if chance < 0.15:
            return "fail", {**fence, "error": {"message": "no luck"}, "retryable": chance > 0.07}
        return "result", {**fence, "value": _value(held.number, held.attempts, self.name)}


class SocketWorker(BareWorker):
    """Over the work socket."""

    async def live(self) -> None:
        """One life."""
        async with self.socket("work") as self._socket:
            if self.held and self.dice.random() > FORGETS:
                await self._resume()
            else:
                self.held.clear()
                self.name = f"{self.who}.{self.dice.randrange(10**9)}"
            while True:
                await self.work()

    async def ask(self, verb: str, body: Message, ref: int) -> list[Message]:
        """A message, and its answers. Now and then the socket is cut instead."""
        if self.dice.random() < CUTS:
            self.journal.cut(self.who)
            self._socket.transport.abort()
        await self._socket.send(json.dumps({verb: body, "ref": ref}))
        answers: list[Message] = []
        while len(answers) < body.get("count", 1):
            answers.append(json.loads(await self._socket.recv()))
            assert answers[-1]["ref"] == ref, answers
            if answers[-1]["type"] in ("empty", "error"):
                break
        return answers

    async def _resume(self) -> None:
        leases = [{"id": held.item_id, "attempts": held.attempts} for held in self.held]
        [ack] = await self.say("resume", {"worker": self.name, "leases": leases})
        for held, lease in zip(list(self.held), ack.get("leases", ()), strict=False):
            if not lease["accepted"] and held.said is None:
                self.held.remove(held)  # One whose report was sent is reported again: perhaps only the answer was lost.


class HttpWorker(BareWorker):
    """Over HTTP: each request goes to some server. Its leases have no socket, so it simply goes on."""

    async def live(self) -> None:
        """One round."""
        await self.work()

    async def ask(self, verb: str, body: Message, _ref: int) -> list[Message]:
        """A request, and its answers."""
        answers = await self.request("POST", f"/{verb}", body)
        return answers if isinstance(answers, list) else [answers]


class ClientWorker(Member):
    """The Python client's worker."""

    def __init__(self, crowd: Crowd, who: str, way: Way, outside: Outside) -> None:
        super().__init__(crowd, who, way)
        self._worker = Worker(f"{way.url}/demo", concurrency=3, name=who, outside=outside)
        self._worker.handler(self._handle)
        self._worker.on_settled = self._settled
        self._claim = self.journal.said(who, "claim", {"worker": self._worker.name})
        self._reports: dict[tuple[str, int], int] = {}

    async def live(self) -> None:
        """Its whole life: it reconnects by itself."""
        await self._worker.work()

    async def _handle(self, item: Any, job: Attempt) -> Any:
        told = {"type": "item", "id": job.id, "attempts": job.attempts, "item": item}
        self.journal.heard(self.who, self._claim, told)
        await asyncio.sleep(self.dice.random() * WORK)
        chance = self.dice.random()
        if chance < 0.3:
            await job.progress({"percent": int(chance * 100)})
        if chance > 0.9:
            self._reporting(job, "fail", {"retryable": chance < 0.97})
            raise Retry("no luck") if chance < 0.97 else Permanent("no hope")
        value = _value(item["number"], job.attempts, self._worker.name)
        self._reporting(job, "result", {"value": value})
        return value

    def _reporting(self, job: Attempt, verb: str, body: Message) -> None:
        said = {"worker": self._worker.name, "id": job.id, "attempts": job.attempts, "repeats": True, **body}
        self._reports[job.id, job.attempts] = self.journal.said(self.who, verb, said)

    def _settled(self, lease: Lease, ending: Ending | None) -> None:
        ref = self._reports.pop((lease.id, lease.attempts), None)
        if ref is not None and ending is not None:
            ack = {"type": f"{ending.verb}-ack", "id": lease.id, "accepted": not ending.reason, "status": ending.status}
            self.journal.heard(self.who, ref, ack)


def _value(number: int, attempts: int, by: str) -> Message:
    return {"of": number, "attempts": attempts, "by": by}
