"""What the clients of several servers share, and the producers among them: they write a journal, and judge nothing.

Each client has a way of its own, which leads each connection to some server that is there, as a name with several
addresses does, and on which it may be cut off. They live on when their server dies. Workers are in `crew.py`.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from chaos.journals import Journal, Message
from chaos.judge import Judge
from chaos.load import GONE
from chaos.promises import TERMINAL
from leaseway import Client, ConnectionLost, Job, PostUnknown, Rejected
from leaseway.connection import Outside
from support.swallowing import Way

ENOUGH: Final = 60
"""While so many of the acknowledged posts are open, nobody posts more: the load is to go all the way."""
BREATH: Final = 0.2
"""A client that lost its server, or was told that it cannot write, waits up to so many seconds (PROTOCOL.md §6)."""
PATIENCE: Final = 5.0
"""Seconds without an answer, to a request or a ping, after which a connection counts as dead."""
BEAT: Final = 1.0
"""Seconds between two pings."""
LOOKS: Final = 6
"""Who watches by requests has so many at once."""
SHARED: Final = 5
"""So many of the latest posts of all may be posted by somebody else too, under the same key."""


@dataclass(slots=True)
class Crowd:
    """`servers` are those that are there, (host, port); `judge` reads the journal as it is written."""

    journal: Journal
    judge: Judge
    dice: Random
    servers: list[tuple[str, int]] = field(default_factory=list)
    finishing: bool = False
    numbers: "count[int]" = field(default_factory=count)
    latest: list[tuple[str, Message]] = field(default_factory=list)

    def server_for(self, who: str) -> tuple[str, int]:
        """Where a new connection goes: one of them, by chance; where none is there, where nobody listens."""
        self.journal.came(who)
        return self.dice.choice(self.servers) if self.servers else ("127.0.0.1", 1)

    @property
    def wants_more(self) -> bool:
        """Whether there is to be posted."""
        return not self.finishing and len(self.judge.promises.open) < ENOUGH

    @property
    def at_rest(self) -> bool:
        """Whether all that was posted has ended, and every producer knows."""
        return not self.judge.promises.open and not self.judge.ends.unlearned

    def write(self, who: str, *, own: bool) -> Message:
        """A new post, or now and then one that somebody else has just posted, perhaps with another item.

        Who writes its `own` shares none with others.
        """
        number, chance = next(self.numbers), self.dice.random()
        others = [] if own else [post for post in self.latest if post[0] != who]
        if others and chance < 0.1:
            _, other = post = self.dice.choice(others)
            self.latest.remove(post)  # Nobody says it twice of its own accord.
            return other if chance < 0.08 else {**other, "item": {"number": number}}
        body: dict[str, Any] = {"item": {"number": number}, "key": f"post {number}", "maxAttempts": 3}
        if chance > 0.97:
            body["ttlMs"] = self.dice.randint(100, 2_000)
        if not own:
            self.latest = [*self.latest[1 - SHARED :], (who, body)]
        return body

    async def breathe(self) -> None:
        """Backs off, with jitter."""
        await asyncio.sleep(self.dice.random() * BREATH)


class Member(ABC):
    """A client. `who` is its name in the journal."""

    def __init__(self, crowd: Crowd, who: str, way: Way) -> None:
        self.crowd = crowd
        self.journal = crowd.journal
        self.dice = crowd.dice
        self.who = who
        self.way = way

    @abstractmethod
    async def live(self) -> None:
        """From one lost connection to the next."""

    async def forever(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self.live()
            except (*GONE, TimeoutError):
                await self.crowd.breathe()

    @asynccontextmanager
    async def socket(self, kind: str, token: str = "") -> AsyncIterator[ClientConnection]:
        """A new WebSocket, on which a dead server is noticed soon."""
        url = f"{self.way.url}/demo/{kind}" + (f"?token={token}" if token else "")
        times: dict[str, Any] = {"ping_interval": None, "open_timeout": PATIENCE, "close_timeout": 0.1}
        async with connect(url, compression=None, proxy=None, max_queue=None, **times) as socket:
            beating = asyncio.create_task(self._beat(socket))
            try:
                yield socket
            finally:
                beating.cancel()

    async def _beat(self, socket: ClientConnection) -> None:
        """Cuts the connection where no ping is answered: it is the client that gives it up."""
        with suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(BEAT)
                try:
                    async with asyncio.timeout(PATIENCE):
                        await (await socket.ping())
                except TimeoutError:
                    self.journal.cut(self.who)
                    socket.transport.abort()

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """A request on a connection of its own. Gives the answer, a problem as the `error` that a socket would say."""
        url = f"{self.way.url.replace('ws', 'http', 1)}/demo{path}"
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
            answer = await http.request(method, url, json=body)
        told = answer.json()
        return told if answer.is_success else {**told, "type": "error"}


class Outbox:
    """The posts of one producer until they are answered: then they are acknowledged, or refused for good.

    `own`: none of them is somebody else's too.
    """

    def __init__(self, member: Member, *, own: bool = False) -> None:
        self._member = member
        self._own = own
        self._waiting: dict[int, Message] = {}
        self._numbers = count()

    def waiting(self) -> list[int]:
        """What was not answered yet, or was refused for the moment, has to be posted again."""
        return list(self._waiting)

    def write(self) -> int:
        """A new post, by its number here."""
        number = next(self._numbers)
        self._waiting[number] = self._member.crowd.write(self._member.who, own=self._own)
        return number

    def body(self, number: int) -> Message:
        """A post."""
        return self._waiting[number]

    def say(self, number: int, **more: bool) -> int:
        """It is about to be posted. Gives the journal's ref."""
        return self._member.journal.said(self._member.who, "post", {**self._waiting[number], **more})

    def answered(self, number: int, ref: int, message: Message) -> str:
        """Gives the item's id where the post is acknowledged."""
        self._member.journal.heard(self._member.who, ref, message)
        if message["type"] == "posted" or message["code"] != "unavailable":
            del self._waiting[number]
        return str(message.get("id") or "")


class HttpProducer(Member):
    """Posts one by one or in arrays, looks for what it posted until it has ended, and cancels now and then."""

    def __init__(self, crowd: Crowd, who: str, way: Way) -> None:
        super().__init__(crowd, who, way)
        self._outbox = Outbox(self)
        self._open: list[str] = []

    async def live(self) -> None:
        """One round."""
        numbers = self._outbox.waiting()
        if self.crowd.wants_more:
            numbers += [self._outbox.write() for _ in range(self.dice.randint(1, 4))]
        await self._post(numbers)
        if self._open:
            some = self.dice.sample(self._open, min(LOOKS, len(self._open)))
            for failed in await asyncio.gather(*(self._look(item_id) for item_id in some), return_exceptions=True):
                if failed is not None:
                    raise failed
        else:
            await self.crowd.breathe()

    async def _post(self, numbers: list[int]) -> None:
        bodies = [self._outbox.body(number) for number in numbers]
        keys = {body["key"] for body in bodies}
        if len(keys) == len(bodies) > 1 and self.dice.random() < 0.3:
            await self._post_all(numbers)
            return
        for number in numbers:
            ref = self._outbox.say(number)
            answer = await self.request("POST", "/items", self._outbox.body(number))
            self._posted(number, ref, {"type": "posted", **answer})

    async def _post_all(self, numbers: list[int]) -> None:
        """An array: all of it, or nothing. One that is refused for a single item's sake is posted one by one."""
        refs = [self._outbox.say(number) for number in numbers]
        answer = await self.request("POST", "/items", [self._outbox.body(number) for number in numbers])
        refused = {"type": "error", "code": "unavailable"}
        answers = answer.get("items", [refused] * len(numbers))
        for number, ref, each in zip(numbers, refs, answers, strict=True):
            self._posted(number, ref, {"type": "posted", **each})

    def _posted(self, number: int, ref: int, message: Message) -> None:
        if item_id := self._outbox.answered(number, ref, message):
            self._open.append(item_id)

    async def _look(self, item_id: str) -> None:
        if self.dice.random() < 0.03:
            await self._cancel(item_id)
        ref = self.journal.said(self.who, "get", {"id": item_id})
        view = await self.request("GET", f"/items/{item_id}?waitMs={self.dice.choice([0, 20, 100])}")
        self.journal.heard(self.who, ref, view)
        if view.get("status") in TERMINAL:
            self._open.remove(item_id)

    async def _cancel(self, item_id: str) -> None:
        ref = self.journal.said(self.who, "cancel", {"id": item_id})
        answer = await self.request("POST", f"/items/{item_id}/cancel")
        if answer.get("code") == "conflict":  # It had ended otherwise: the next look says how.
            answer = {"type": "cancel-ack", "id": item_id, "status": "conflict"}
        self.journal.heard(self.who, ref, answer)


class MonitorProducer(Member):
    """Posts on a monitor socket and watches by id what it has not learned the end of; with a token all that is its."""

    def __init__(self, crowd: Crowd, who: str, way: Way, token: str = "") -> None:
        super().__init__(crowd, who, way)
        self._outbox = Outbox(self, own=bool(token))
        self._token = token

    async def live(self) -> None:
        """One life."""
        async with self.socket("monitor", self._token) as socket:
            watch = await self._watch(socket)
            refs = await self._post(socket, self._outbox.waiting())
            while True:
                if not refs and self.crowd.wants_more:
                    refs = await self._post(socket, [self._outbox.write() for _ in range(self.dice.randint(1, 4))])
                try:
                    async with asyncio.timeout(BREATH):  # Others may have brought more posts under way to an end.
                        message = json.loads(await socket.recv())
                except TimeoutError:
                    refs = refs or await self._post(socket, self._outbox.waiting())
                else:
                    self._hear(watch, refs, message)

    async def _watch(self, socket: ClientConnection) -> int:
        unlearned = [item_id for who, item_id in self.crowd.judge.ends.unlearned if who == self.who]
        mine = bool(self._token)
        watch = self.journal.said(self.who, "subscribe", {"ids": unlearned, "mine": mine})
        await socket.send(json.dumps({"subscribe": {"mine": True} if mine else unlearned, "ref": watch}))
        return watch

    async def _post(self, socket: ClientConnection, numbers: list[int]) -> dict[int, int]:
        """Gives the number of each post by its ref."""
        refs = {}
        for number in numbers:
            ref = self._outbox.say(number)
            refs[ref] = number
            watched = {} if self._token else {"subscribe": True}
            await socket.send(json.dumps({"post": {**self._outbox.body(number), **watched}, "ref": ref}))
        return refs

    def _hear(self, watch: int, refs: dict[int, int], message: Message) -> None:
        if message["type"] == "status":
            self.journal.told(self.who, watch, message)
        elif message["ref"] == watch:  # It was refused for the moment.
            self.journal.heard(self.who, watch, message)
            raise TimeoutError
        else:
            self._outbox.answered(refs.pop(message["ref"]), message["ref"], message)


class ClientProducer(Member):
    """The Python client: posts, and waits for each end."""

    def __init__(self, crowd: Crowd, who: str, way: Way, outside: Outside) -> None:
        super().__init__(crowd, who, way)
        self._outbox = Outbox(self)
        self._outside = outside
        self._awaited: set[str] = set()

    async def live(self) -> None:
        """Its whole life: it reconnects by itself."""
        try:
            async with Client(f"{self.way.url}/demo", outside=self._outside) as client, asyncio.TaskGroup() as tasks:
                while True:
                    await self._round(client, tasks)
        except* ConnectionLost as lost:  # No server was there when it began.
            raise TimeoutError from lost

    async def _round(self, client: Client[Any, Any], tasks: asyncio.TaskGroup) -> None:
        numbers = self._outbox.waiting()
        if self.crowd.wants_more:
            numbers += [self._outbox.write() for _ in range(self.dice.randint(1, 4))]
        for number in numbers:
            job = await self._post(client, number)
            if job is not None and job.id not in self._awaited:
                self._awaited.add(job.id)
                tasks.create_task(self._wait(job))
        await self.crowd.breathe()

    async def _post(self, client: Client[Any, Any], number: int) -> Job[Any] | None:
        body, ref = self._outbox.body(number), self._outbox.say(number, repeats=True)
        ttl = body["ttlMs"] / 1000 if "ttlMs" in body else None
        try:
            job: Job[Any] = await client.post(
                body["item"], key=body["key"], timeout=PATIENCE, max_attempts=body["maxAttempts"], ttl=ttl
            )
        except (PostUnknown, TimeoutError):
            return None
        except Rejected as refused:
            self._outbox.answered(number, ref, {"type": "error", "code": refused.code, "errors": refused.errors})
            return None
        self._outbox.answered(number, ref, {"type": "posted", "id": job.id, "duplicate": job.duplicate})
        return job

    async def _wait(self, job: Job[Any]) -> None:
        """Sees it to its end."""
        watch = self.journal.said(self.who, "watch", {"id": job.id})
        async for view in job.watch():
            members = {name: getattr(view, name) for name in ("id", "status", "rev", "attempts", "failures", "result")}
            bounds = {"finishedAt": view.finished_at, "expiresAt": view.expires_at, "maxAttempts": view.max_attempts}
            self.journal.told(self.who, watch, {"type": "status", **members, **bounds})
