"""The clients of the kill loop: producers and workers over both doors, who live on when their server dies.

They speak the protocol by hand, with `websockets` and HTTP alone, tell `Promises` what they were promised and what they
saw, and judge nothing themselves. When the server is killed is `World.said`'s, which counts what they say and hear.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, Final, TypeAlias

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from chaos.promises import NOTHING, Facts, Promises

Message: TypeAlias = dict[str, Any]
GONE: Final = (ConnectionClosed, InvalidHandshake, InvalidMessage, OSError, EOFError, httpx.TransportError)
"""What a client sees when its server is killed."""
ENOUGH: Final = 100
"""While so many of the acknowledged posts are open, nobody posts more: the load is to go all the way."""
WATCHED: Final = 2_000
"""So many of the acknowledged posts, and all that are open, are watched after each start."""


def still_there(answer: httpx.Response) -> httpx.Response:
    """The answer; one of a server that is about to stop is none."""
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise httpx.RemoteProtocolError(answer.text)
    return answer


@dataclass(slots=True)
class World:
    """What the clients share. `up` is set while a server serves; after `until` more words `strike` is called, once."""

    promises: Promises
    dice: Random
    strike: Callable[[], None]
    base_url: str = ""
    until: int = 0
    life: int = 0
    finishing: bool = False
    up: asyncio.Event = field(default_factory=asyncio.Event)
    all_ended: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: "count[int]" = field(default_factory=count)

    def begin(self, base_url: str, until: int) -> None:
        """A new life of the server, which ends with the word number `until` (0: not at all)."""
        self.base_url, self.until = base_url, until
        self.life += 1
        self.up.set()

    def said(self) -> None:
        """A client said something, or was answered."""
        if self.until:
            self.until -= 1
            if not self.until:
                self.up.clear()
                self.strike()

    @property
    def wants_more(self) -> bool:
        """Whether there is to be posted."""
        return not self.finishing and len(self.promises.open) < ENOUGH

    def look_whether_all_ended(self) -> None:
        """After an end: whether it was the last, and no more is posted."""
        if self.finishing and not self.promises.open:
            self.all_ended.set()

    async def lost(self, life: int) -> None:
        """A client lost its connection in this life: it waits for the next, where the server is dead."""
        if life == self.life and self.until == 0 and not self.finishing:
            self.up.clear()
        await self.up.wait()

    @asynccontextmanager
    async def socket(self, kind: str) -> AsyncIterator[ClientConnection]:
        """A new WebSocket."""
        url = f"{self.base_url.replace('http', 'ws', 1)}/demo/{kind}"
        async with connect(url, compression=None, proxy=None, max_queue=None, close_timeout=1) as socket:
            yield socket

    async def forever(self, live: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lives from server to server; `live` returns when its work is over for good, else it is cancelled."""
        while True:
            await self.up.wait()
            life = self.life
            try:
                await live()
            except GONE:
                await self.lost(life)
            else:
                return


# ── Producers ──


class Outbox:
    """The posts of one producer, each under a key of its own, until they are answered: then they are acknowledged."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._unanswered: dict[int, Message] = {}

    def unanswered(self) -> list[int]:
        """The numbers of what was posted, perhaps in an earlier life, and not answered: it has to be posted again."""
        return list(self._unanswered)

    def write(self) -> int:
        """A new post, by its number."""
        number = next(self._world.numbers)
        self._unanswered[number] = {"item": {"number": number}, "key": f"post {number}"}
        return number

    def read(self, number: int) -> Message:
        """The body of a post."""
        return self._unanswered[number]

    def answered(self, number: int, answer: Message) -> str:
        """The post is acknowledged. Gives the item's id."""
        del self._unanswered[number]
        item_id: str = answer["id"]
        self._world.promises.post_acknowledged(item_id, number, answer["duplicate"])
        return item_id


class HttpProducer:
    """Posts in small bursts and looks for what it posted, in this life or in an earlier one, until all is posted."""

    def __init__(self, world: World, http: httpx.AsyncClient) -> None:
        self._world = world
        self._http = http
        self._outbox = Outbox(world)
        self._mine: list[str] = []

    async def live(self) -> None:
        """One life."""
        world = self._world
        while not world.finishing:
            numbers = self._outbox.unanswered()
            if world.wants_more or not self._mine:
                numbers += [self._outbox.write() for _ in range(world.dice.randint(1, 4))]
            await self._post(numbers)
            item_id = world.dice.choice([self._mine[-1], world.dice.choice(self._mine)])
            before = world.promises.known(item_id)
            url = f"{world.base_url}/demo/items/{item_id}"
            answer = still_there(await self._http.get(url, params={"waitMs": world.dice.choice([0, 0, 20, 100])}))
            world.said()
            if answer.status_code == 200:
                world.promises.seen(answer.json(), before)
            else:
                world.promises.not_found(item_id)

    async def _post(self, numbers: list[int]) -> None:
        """All in one array, or one by one."""
        at_once = self._world.dice.random() < 0.3
        for some in [numbers] if at_once and numbers else [[number] for number in numbers]:
            bodies = [self._outbox.read(number) for number in some]
            self._world.said()
            url = f"{self._world.base_url}/demo/items"
            answer = still_there(await self._http.post(url, json=bodies if at_once else bodies[0]))
            assert answer.status_code in (200, 201), answer.text
            answers = answer.json()["items"] if at_once else [answer.json()]
            self._mine += [self._outbox.answered(*each) for each in zip(some, answers, strict=True)]
            self._world.said()


class MonitorProducer:
    """Watches what was acknowledged in earlier lives, and what it posts over the same socket."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outbox = Outbox(world)
        self._floor: dict[str, Facts] = {}

    async def live(self) -> None:
        """One life."""
        world = self._world
        async with world.socket("monitor") as socket:
            await self._watch(socket)
            waiting = await self._post(socket, self._outbox.unanswered())
            while True:
                if waiting == 0 and world.wants_more:
                    many = world.dice.randint(1, 4)
                    waiting = await self._post(socket, [self._outbox.write() for _ in range(many)])
                waiting -= self._hear(json.loads(await socket.recv()))

    async def _watch(self, socket: ClientConnection) -> None:
        promises = self._world.promises
        posted = list(promises.posted)
        wanted = promises.open | set(self._world.dice.sample(posted, min(WATCHED, len(posted))))
        self._floor = {item_id: promises.known(item_id) for item_id in wanted}
        await socket.send(json.dumps({"subscribe": list(wanted)}))

    async def _post(self, socket: ClientConnection, numbers: list[int]) -> int:
        for number in numbers:
            self._world.said()
            await socket.send(json.dumps({"post": self._outbox.read(number) | {"subscribe": True}, "ref": number}))
        return len(numbers)

    def _hear(self, message: Message) -> int:
        """Gives 1 where a post was answered."""
        promises = self._world.promises
        if message["type"] == "posted":
            self._world.said()  # Views are no word: after a start thousands come at once, and work is to be under way.
            item_id = self._outbox.answered(message["ref"], message)
            self._floor.setdefault(item_id, NOTHING)  # As it was known when the post was sent: a worker may be quicker.
            return 1
        assert message["type"] == "status", message
        item_id = message["id"]
        promises.seen(message, self._floor[item_id])
        self._world.look_whether_all_ended()
        self._floor[item_id] = replace(self._floor[item_id], rev=message["rev"])
        return 0


# ── Workers ──


@dataclass(slots=True)
class Held:
    """An item in a worker's hands. `said` is the report that was sent and not answered."""

    item_id: str
    attempts: int
    number: int
    said: Message | None = None


class Worker(ABC):
    """Claims and settles: mostly by results. What it was doing when its server died it goes on with, or forgets."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.held: list[Held] = []

    @abstractmethod
    async def live(self) -> None:
        """One life."""

    @abstractmethod
    async def ask(self, verb: str, body: Message) -> list[Message]:
        """Says it, and gives the answers."""

    async def work(self) -> None:
        """Claims, and settles what is held."""
        world = self.world
        while True:
            if len(self.held) < 8:
                await self._claim()
            for held in list(self.held):
                if held.said or world.finishing or world.dice.random() < 0.85:
                    await self._settle(held)

    async def _claim(self) -> None:
        dice, asked_at = self.world.dice, self.world.promises.moment
        claim = {"worker": self.name, "count": dice.randint(1, 4), "waitMs": dice.choice([0, 20, 60])}
        for message in await self.ask("claim", claim):
            if message["type"] == "item":
                held = Held(message["id"], message["attempts"], message["item"]["number"])
                self.world.promises.handed(held.item_id, held.attempts, held.number, asked_at)
                self.held.append(held)

    async def _settle(self, held: Held) -> None:
        dice, promises = self.world.dice, self.world.promises
        if held.said is None and dice.random() < 0.3:
            progress = {"id": held.item_id, "attempts": held.attempts, "value": {"percent": dice.randint(0, 99)}}
            await self.ask("progress", progress)
        if held.said is None:
            held.said = self._report(held)
        before = promises.known(held.item_id)
        [ack] = await self.ask(*next(iter(held.said.items())))
        self.held.remove(held)
        if "result" in held.said:
            promises.result_answered(ack, held.attempts, held.said["result"]["value"], before)
        else:
            promises.given_up(ack, held.attempts, before)
        self.world.look_whether_all_ended()

    def _report(self, held: Held) -> Message:
        body: Message = {"id": held.item_id, "attempts": held.attempts}
        dice = self.world.dice.random()
        if dice < 0.08:
            return {"release": body}
        if dice < 0.2:
            return {"fail": body | {"error": {"message": "no luck"}, "retryable": dice > 0.1}}
        return {"result": body | {"value": {"of": held.number, "attempts": held.attempts, "by": self.name}}}


class SocketWorker(Worker):
    """Over the work socket. After a drop it resumes, or comes back under another name and knows of nothing."""

    async def live(self) -> None:
        """One life."""
        async with self.world.socket("work") as self._socket:
            if self.held and self.world.dice.random() < 0.8:
                await self._resume()
            else:
                self.held.clear()
                self.name = f"{self.name.partition('.')[0]}.{self.world.dice.randrange(10**9)}"
            await self.work()

    async def ask(self, verb: str, body: Message) -> list[Message]:
        """A message, and its answers. Now and then the socket is cut instead."""
        if self.world.dice.random() < 0.01:
            self._socket.transport.abort()
        self.world.said()
        await self._socket.send(json.dumps({verb: body}))
        answers: list[Message] = []
        while len(answers) < body.get("count", 1):
            answers.append(json.loads(await self._socket.recv()))
            self.world.said()
            if answers[-1]["type"] == "empty":
                break
        return answers

    async def _resume(self) -> None:
        promises = self.world.promises
        before = [promises.known(held.item_id) for held in self.held]
        leases = [{"id": held.item_id, "attempts": held.attempts} for held in self.held]
        [ack] = await self.ask("resume", {"worker": self.name, "leases": leases})
        assert ack["type"] == "resume-ack", ack
        for held, lease, facts in zip(list(self.held), ack["leases"], before, strict=True):
            promises.resumed(lease, held.attempts, facts)
            if not lease["accepted"] and held.said is None:
                self.held.remove(held)  # One whose report was sent is reported again: perhaps only the answer was lost.


class HttpWorker(Worker):
    """Over HTTP. Its leases have no socket, so it simply goes on."""

    def __init__(self, world: World, name: str, http: httpx.AsyncClient) -> None:
        super().__init__(world, name)
        self._http = http

    async def live(self) -> None:
        """One life."""
        await self.work()

    async def ask(self, verb: str, body: Message) -> list[Message]:
        """A request, and its answers."""
        self.world.said()
        answer = still_there(await self._http.post(f"{self.world.base_url}/demo/{verb}", json=body))
        assert answer.status_code == 200, answer.text
        self.world.said()
        answers = answer.json()
        return answers if isinstance(answers, list) else [answers]
