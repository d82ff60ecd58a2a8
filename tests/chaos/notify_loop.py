"""The notification campaign: kill -9 of the planner, the queue's server and the worker, while they are at work.

    python tests/chaos/notify_loop.py --notifications 1000 [--seed N]

Once with a provider that has idempotency keys, once with an SMTP server, which has none. Each notification has to be
delivered, in the inbox and by mail. With keys a mail is taken once; without, it comes once more at most for each time
that its worker was killed in the middle of it. The exit status is 1 where a promise was broken.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # As the tests have it: `chaos` and `support`.

import orjson
from aiohttp import web

from chaos.notify_planner import RECIPIENTS, event_of
from leaseway_notify.delivery import OPEN
from leaseway_notify.profile import Profile
from leaseway_notify.queue import QUEUE
from leaseway_notify.stores.base import DeliveryFilter
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from leaseway_schemas import example_folder
from support.mail_server import mail_server
from support.process import ServerProcess, server_process
from support.raw import raw_socket
from support.web_service import web_service

Transport: TypeAlias = Literal["provider", "smtp"]
OUTSTANDING: Final = 60
"""So many notifications are on their way at a time, so that every kill comes in the middle of something."""
WORDS: Final = (10, 60)
"""A kill comes after so many words of the planner and mails."""
PATIENCE: Final = 120.0
IN_FLIGHT: Final = 25
PLANNER: Final = Path(__file__).with_name("notify_planner.py")
_QUEUE: Final = f"""
[server]
ping_interval = "1s"
ping_timeout = "1s"

[queues.{QUEUE}]
schemas = "{example_folder(QUEUE)}"
lease = "5m"
access = {{ post = "open", fetch = "open", work = "open", admin = "open" }}
retry = {{ max_attempts = 100, delays = ["100ms"], cap = "1s" }}
"""


@dataclass
class Door:
    """Where mails arrive. `taken` counts mails by delivery, `asked` calls; `bodies` are what each key was said with."""

    taken: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    bodies: dict[str, bytes] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    word: Callable[[], None] = lambda: None

    def with_key(self, key: str, body: bytes) -> None:
        """A call of a provider that has keys: it takes each once."""
        delivery = key.partition("@")[0]
        self.asked[delivery] += 1
        if self.bodies.setdefault(delivery, body) != body:
            self.changed.append(delivery)
        self.taken[delivery] = 1
        self.word()

    def without(self, message_id: str) -> str:
        """A mail of an SMTP server, which takes all."""
        delivery = message_id.strip("<>").partition("@")[0]
        self.asked[delivery] += 1
        self.taken[delivery] += 1
        self.word()
        return "250 OK"


@dataclass
class Report:
    """What a run showed."""

    transport: Transport
    notifications: int
    kills: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    called_again: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        kills = ", ".join(f"{many} of the {who}" for who, many in sorted(self.kills.items()))
        again = f"calls said again with their key: {self.called_again}" if self.transport == "provider" else ""
        return [
            f"{self.transport}: {self.notifications} notifications in {self.seconds:.0f} s, kill -9: {kills}",
            f"  each in its inbox once; mails that came twice: {self.twice} {again}".rstrip(),
            *(f"  BROKEN: {one}" for one in self.broken),
        ]


class NotifyLoop:
    """One run."""

    def __init__(self, folder: Path, transport: Transport, notifications: int, seed: int) -> None:
        self.report = Report(transport, notifications)
        self._folder = folder
        self._door = Door(word=self._word)
        self._dice = random.Random(seed)  # noqa: S311  Chance that can be had again, not a secret.
        self._words = 0
        self._said = asyncio.Event()
        self._told: set[int] = set()
        self._excused: Counter[str] = Counter()
        self._planner: Process
        self._worker: Process

    async def run(self, kills: int, *, apart: bool = False) -> Report:
        """So many kills of each, then all comes to an end and is judged.

        `apart`: a mail comes between any two. What a worker held that is gone when the server goes too waits for half
        a minute (`resume_grace`).
        """
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(await open_sqlite(self._folder / "notify.db"))
            for number in range(RECIPIENTS):
                await store.save_profile(Profile(f"r{number}", f"r{number}@example.com"))
            server = await stack.enter_async_context(server_process(self._folder, _QUEUE))
            await self._write_settings(server, await stack.enter_async_context(self._doors()))
            stack.push_async_callback(self._end)
            await self._start_planner()
            await self._start_worker()
            strikes = ["planner", "server", "worker"] * kills
            self._dice.shuffle(strikes)
            for who in strikes:
                await self._words_pass(self._dice.randint(*WORDS))
                await self._strike(who, server, store)
                if apart:
                    await self._mail_comes()
            await self._all_done(server, store)
            await self._judge(store)
        self.report.seconds = time.monotonic() - began
        return self.report

    # The strikes

    async def _strike(self, who: str, server: ServerProcess, store: SqlStore) -> None:
        self.report.kills[who] += 1
        if who == "server":
            await server.restart()
        elif who == "planner":
            await _kill(self._planner)
            await self._start_planner()
        else:
            await _kill(self._worker)
            begun = await store.deliveries(DeliveryFilter(label="processing", channel="email"), 2 * IN_FLIGHT)
            self._excused.update(one.delivery.id for one in begun)
            await self._start_worker()

    async def _words_pass(self, many: int) -> None:
        """Waits for so many words, or for the end of all that there is to say."""
        until = self._words + many
        async with asyncio.timeout(PATIENCE):
            while self._words < until and len(self._door.taken) < self.report.notifications:
                await self._next_word()

    async def _mail_comes(self) -> None:
        taken = len(self._door.taken)
        async with asyncio.timeout(PATIENCE):
            while len(self._door.taken) <= taken < self.report.notifications:
                await self._next_word()

    async def _next_word(self) -> None:
        await self._said.wait()
        self._said.clear()

    def _word(self) -> None:
        self._words += 1
        self._said.set()
        self._feed()

    # The planner

    async def _start_planner(self) -> None:
        self._planner = await _process(PLANNER, self._folder / "notify.toml", stdin=PIPE, stdout=PIPE)
        self._asked = set(self._told)
        self._listening = asyncio.create_task(self._listen(self._planner))
        self._feed()

    def _feed(self) -> None:
        """Says further numbers, also those whose answer a kill has swallowed, and no more than may be on their way."""
        stdin = self._planner.stdin
        assert stdin is not None
        most = min(self.report.notifications, len(self._door.taken) + OUTSTANDING)
        for number in range(most):
            if number not in self._asked and not stdin.is_closing():
                self._asked.add(number)
                stdin.write(f"{number}\n".encode())

    async def _listen(self, planner: Process) -> None:
        assert planner.stdout is not None
        async for line in planner.stdout:
            self._told.add(int(line))
            self._word()

    # The worker and the doors

    async def _start_worker(self) -> None:
        words = ("-m", "leaseway_notify", "worker", "--config", self._folder / "notify.toml")
        self._worker = await _process(*words, stdin=DEVNULL, stdout=DEVNULL)

    @asynccontextmanager
    async def _doors(self) -> AsyncIterator[dict[str, Any]]:
        """Where mails go; gives the table `email` of the settings."""
        door = self._door

        async def take(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
            door.with_key(request.headers["Idempotency-Key"], body)
            return web.json_response({"id": "taken"})

        if self.report.transport == "provider":
            async with web_service(take) as provider:
                yield {"transport": "provider", "provider": provider.url, "provider_key": "x"}
            return
        async with mail_server() as room:
            room.answer = lambda: door.without(str(room.mails[-1]["Message-ID"]))
            yield {"transport": "smtp", "host": room.host, "port": room.port, "security": "none"}

    async def _write_settings(self, server: ServerProcess, email: dict[str, Any]) -> None:
        tables: dict[str, dict[str, Any]] = {
            "queue": {"url": f"{server.ws_url}/{QUEUE}"},
            "outbox": {"repost_every": "500ms"},
            "storm": {"most": 10_000},
            "worker": {"in_flight": IN_FLIGHT},
            "email": {"sender": "bell@app.example", **email},
        }
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {orjson.dumps(value).decode()}\n" for key, value in table.items())
            for name, table in tables.items()
        )
        await asyncio.to_thread((self._folder / "notify.toml").write_text, text)

    # The end

    async def _all_done(self, server: ServerProcess, store: SqlStore) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self._told) < self.report.notifications:
                await self._next_word()
        async with raw_socket(f"{server.ws_url}/{QUEUE}/monitor", patience=PATIENCE) as monitor:
            monitor.say({"stats": True})  # At once, and again whenever an item of the queue has ended.
            while await self._any_open(store):
                await monitor.hear()

    async def _any_open(self, store: SqlStore) -> bool:
        counts = await store.counts()
        return any(counts.get(status) for status in OPEN)

    async def _judge(self, store: SqlStore) -> None:
        report, door = self.report, self._door
        for number in range(report.notifications):
            kept = await store.notification(event_of(number).id)
            if kept is None:
                report.broken.append(f"event {number} was told as notified, and is not there")
                continue
            for one in kept.deliveries:
                wanted = {"in_app": "delivered", "email": "sent", "push": "skipped"}[one.channel]
                if one.status != wanted:
                    report.broken.append(f"{one.id} is {one.status}, not {wanted}: {one.error}")
            email = f"event-{number}-email"
            if not 1 <= door.taken[email] <= 1 + self._excused[email]:
                report.broken.append(
                    f"{email} was taken {door.taken[email]} times, of {1 + self._excused[email]} at most"
                )
        inboxes = sum([await store.unread(f"r{number}") for number in range(RECIPIENTS)])
        if inboxes != report.notifications:
            report.broken.append(f"{inboxes} entries in the inboxes")
        report.broken += [f"{one} was said anew with its key, and otherwise" for one in door.changed]
        report.twice = sum(many - 1 for many in door.taken.values())
        report.called_again = sum(many - 1 for many in door.asked.values())

    async def _end(self) -> None:
        for process in (self._planner, self._worker):
            await _kill(process)
        await asyncio.wait({self._listening})


async def _process(*words: str | Path, stdin: int, stdout: int) -> Process:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEWAY_", "COVERAGE_"))}
    return await asyncio.create_subprocess_exec(
        sys.executable, *map(str, words), stdin=stdin, stdout=stdout, stderr=DEVNULL, env=kept
    )


async def _kill(process: Process) -> None:
    """SIGKILL; what it had written is read to its end."""
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.wait()


async def campaign(notifications: int, kills: int, seed: int, transports: Sequence[Transport]) -> int:
    """A run with each transport. Gives the exit status."""
    broken = False
    for transport in transports:
        with tempfile.TemporaryDirectory() as folder:
            report = await NotifyLoop(Path(folder), transport, notifications, seed).run(kills)
        print("\n".join(report.lines()), flush=True)
        broken = broken or bool(report.broken)
    return int(broken)


def main() -> None:
    """Reads what was asked for, and runs it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--notifications", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=10, help="of each: the planner, the server, the worker")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    raise SystemExit(asyncio.run(campaign(given.notifications, given.kills, given.seed, ("provider", "smtp"))))


if __name__ == "__main__":
    main()
