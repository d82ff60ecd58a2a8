"""One engine with its sockets over one store, driven turn by turn, and spoken to in names that hold for every store.

Items are called `#0`, `#1`, … in the order of their row numbers, so that a program that failed can be read and run
again. Owns the translation, and nothing that judges what is heard: that is the journal's.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.commands import Change, Changed, Delete, Drop, Failed, Handed, Outcome, Pause
from leaseway_server.core.conversation import Conversation
from leaseway_server.core.jsontext import Json
from leaseway_server.core.limits import Allowance, Allowances
from leaseway_server.core.model import HTTP, Item, Status
from leaseway_server.core.monitor_session import MonitorSession
from leaseway_server.core.queue import Queue
from leaseway_server.core.reports import Reporter, ack, parse_ask, parse_report
from leaseway_server.core.session import WorkSession
from leaseway_server.core.view import encode_item
from leaseway_server.core.watch import View
from leaseway_server.runtime.engine import Engine
from leaseway_server.runtime.lookout import QueueLookout
from leaseway_server.runtime.stats import Stats
from support.clock import ManualClock
from support.faulty_store import Faults, FaultyStore
from support.homes import Home

Said = dict[str, Json]
Who = str
"""Who speaks or hears: a work socket (`s1`), a user over HTTP (`http ann`), `monitor`, `mine`, or `admin`.

`monitor` posts, and watches its items by their ids; `mine` watches them as all that its user has.
"""

GRACE: Final = 5_000
REST: Final = 200
"""So many turns without coming to rest, and the engine runs in circles."""


class Monitor:
    """A monitor socket that watches all that it posted, by the ids or as `mine`."""

    def __init__(self, side: "Side") -> None:
        self._engine, self._clock = side.engine, side.clock
        lookout = QueueLookout(side.engine.hub, Stats(side.clock, dict), self)
        self.session = MonitorSession(side.queue, "ann", frozenset({"fetch", "post"}), lookout)

    def offer_stats(self, message: bytes) -> None:
        """The figures are others now."""
        self.session.offer_stats(message)

    def offer(self, view: View) -> None:
        """The hub has a change."""
        self.session.offer(view)

    def end(self, item_id: str) -> None:
        """A watched item is gone."""
        self.session.end(item_id)

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def read_on(self) -> None:
        """The next of the first views is asked for, as the socket does it when the last were sent."""
        for exchange in self.session.read_on():
            assert exchange.command is not None
            self._engine.submit(exchange.command, partial(self.session.settle, exchange))

    def take(self) -> list[bytes]:
        """What is told now; ends that are told for the first time are stamped, as the socket does it."""
        frames, views = self.session.take_with_views(self._clock.now())
        for view in views:
            if view.unfetched:
                self._engine.stamp(view.id, view.rev)
        return frames


class Side:
    """An engine, the store below it and the sockets above it."""

    def __init__(self, home: Home, queue: Queue, clock: ManualClock) -> None:
        self.queue = queue
        self.clock = clock
        self.faults = Faults()
        self.lost = False
        self._home = home
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._seqs: dict[int, str] = {}
        self._heard: dict[Who, list[bytes]] = defaultdict(list)
        self.sockets: dict[Who, WorkSession] = {}
        self.met: Counter[str] = Counter()
        """The rare states that only the engine shows, as often as the last `turn` met them."""

    async def start(self) -> None:
        """Opens the store and begins."""
        self.lost = False
        self.faults.at_commit.clear()
        self.sockets.clear()
        self._store = FaultyStore(await self._home.open(self.clock), self.faults)
        self.engine = Engine(
            self.queue, self._store, self.clock, resume_grace=GRACE, ping_timeout=0, on_lost=self._on_lost
        )
        await self.engine.start()
        self.monitor = Monitor(self)
        self.rows()
        self._follow()
        self._submit("monitor", self.monitor.session, {"subscribe": list(self._names.values())})

    def reload(self) -> None:
        """Who watches all that is its own connects anew."""
        self.mine.session.close()
        self._follow()

    def _follow(self) -> None:
        self.mine = Monitor(self)
        self._submit("mine", self.mine.session, {"subscribe": {"mine": True}})

    async def stop(self) -> None:
        """A planned stop: sockets close, and keep their leases."""
        self.engine.close_claims()
        for who in list(self.sockets):
            self.drop(who)
        await self.turn()
        self._heard.clear()  # Claims that waited for space were ended; those that asked are gone.
        await self._store.close()

    async def crash(self) -> None:
        """The server is killed, with all that was said and not yet done."""
        self._home.crash()
        await self._store.close()

    async def break_off_indexing(self) -> None:
        """A start that is killed before it has indexed what the queue's `match` names."""
        self._store = FaultyStore(await self._home.open(self.clock), self.faults)
        self._home.break_off_indexing(self.queue.match)
        await self.crash()

    # ── What is said ──

    def open_socket(self, who: Who, user: str) -> None:
        """A new work socket."""
        session = self.sockets[who] = WorkSession(
            self.queue, self.engine.new_holder(), user, self.clock.chance, Allowance(Allowances(100), user)
        )
        self.engine.tell_losses(session.holder, session.lost)

    def say(self, who: Who, message: Said) -> None:
        """A message on a work socket, or on the monitor."""
        self._submit(who, self.monitor.session if who == "monitor" else self.sockets[who], message)

    def drop(self, who: Who) -> None:
        """The socket is gone."""
        self.engine.tell_losses(self.sockets[who].holder, None)
        self.engine.submit(Drop(self.sockets[who].holder))

    def request(self, user: str, verb: str, body: Said) -> None:
        """A work request over HTTP; its answers carry the request's `ref`, for whoever reads them."""
        who, ref = f"http {user}", body["ref"]
        translated = swap(body, self._ids)
        if verb == "claim":
            ask = parse_ask(translated, self.queue, HTTP, user, "")
            self.engine.submit(ask, lambda outcome: self._hear(who, self._claimed(outcome, ref)))
        else:
            reporter = Reporter(HTTP, user, lambda _item_id: None, self.clock.chance)
            change = parse_report(verb, translated, self.queue, reporter)
            self._change(who, verb, change, ref)

    def administer(self, verb: str, command: Change | Delete, ref: Json) -> None:
        """A cancel, a retry, another priority or due time, a delete; `command` has the item's name for its id."""
        self._change("admin", verb, replace(command, id=self._ids.get(command.id, command.id)), ref)

    def pause(self, on: bool, ref: Json) -> None:
        """The queue is paused, or is not any more."""

        def paused(outcome: Outcome) -> None:
            said = {"type": "error", "code": outcome.error.code} if isinstance(outcome, Failed) else {"type": "paused"}
            self._hear("admin", {**said, "on": on, "ref": ref})

        self.engine.submit(Pause(on), paused)

    def reconfigure(self, window: int, own_only: bool) -> None:
        """The queue holds keys for so long (ms) from now on, and shows posters only their own or everybody's."""
        policy = replace(self.queue.policy, dedupe_window=window)
        self.queue = replace(self.queue, policy=policy, own_only=own_only)
        self.engine.reconfigure(self.queue)

    def _submit(self, who: Who, session: Conversation, message: Said) -> None:
        for exchange in session.receive(orjson.dumps(swap(message, self._ids))):
            assert exchange.command is not None
            self.engine.submit(exchange.command, partial(session.settle, exchange))

    def _change(self, who: Who, verb: str, change: Change | Delete, ref: Json) -> None:
        self.engine.submit(change, lambda outcome: self._hear(who, self._changed(verb, change, outcome, ref)))

    def _claimed(self, outcome: Outcome, ref: Json) -> Said:
        match outcome:
            case Handed(item):
                return {**orjson.loads(encode_item(item, self.queue.policy.lease)), "ref": ref}
            case Failed(error):
                return {"type": "error", "code": error.code, "ref": ref}
        return {"type": "empty", "ref": ref}

    def _changed(self, verb: str, change: Change | Delete, outcome: Outcome, ref: Json) -> Said:
        if isinstance(outcome, Failed):
            return {"type": "error", "code": outcome.error.code, "ref": ref}
        assert isinstance(outcome, Changed)
        answer: Said = orjson.loads(orjson.dumps(ack(verb, change.id, outcome, self.queue)))
        return {**answer, "ref": ref}

    def _hear(self, who: Who, message: Said) -> None:
        self._heard[who].append(orjson.dumps(message))

    def _on_lost(self, _fault: Exception) -> None:
        self.lost = True

    # ── What comes of it ──

    async def turn(self) -> None:
        """Turns, until the engine would wait. The first one takes all that was said, as far as one turn may."""
        self.met.clear()
        await self.engine.step()
        for _ in range(REST):
            self.mine.read_on()
            if self.lost or not self._busy:
                return
            if self.engine._searching:
                self.met["search went on in another turn"] += 1
                self.met["something was said during a search"] += bool(self.engine._backlog.waiting)
            await self.engine.step()
        raise AssertionError("the engine runs in circles")

    @property
    def _busy(self) -> bool:
        engine = self.engine
        return bool(engine._backlog.waiting) or engine._searching or engine._next_deadline() <= self.clock.now()

    def heard(self) -> dict[Who, list[Said]]:
        """What everybody was told since the last time, in names."""
        self.rows()
        heard, self._heard = self._heard, defaultdict(list)
        for who, session in self.sockets.items():
            heard[who].extend(session.take())
        heard["monitor"].extend(self.monitor.take())
        heard["mine"].extend(self.mine.take())
        return {who: [self._named(frame) for frame in frames] for who, frames in heard.items() if frames}

    def rows(self) -> list[Item]:
        """All items as stored, by name; row numbers are the store's own affair and left out."""
        items = self._home.rows()
        for item in items:
            if item.id not in self._names:
                name = f"#{len(self._names)}"
                self._names[item.id], self._ids[name] = name, item.id
        self._seqs = {item.seq: self._names[item.id] for item in items}
        for item in items:
            item.id, item.seq = self._names[item.id], 0
        return items

    def leases(self) -> dict[str, tuple[int, int]]:
        """The leases in the engine's memory, by name: (holder, when the sweep looks at it)."""
        leases = self.engine._leases
        by_holder = {item_id: holder for holder, held in leases._by_holder.items() for item_id in held}
        assert by_holder == {item_id: lease.holder for item_id, lease in leases._leases.items()}
        return {self._names[item_id]: (lease.holder, lease.ends) for item_id, lease in leases._leases.items()}

    async def counts(self) -> dict[Status, int]:
        """How many items there are of each status that has any, as the engine and the store have kept it."""
        counts = {status: number for status, number in self.engine.tally.counts.items() if number}
        stored = {status: number for status, number in (await self._store.counts()).items() if number}
        assert counts == stored
        return counts

    def attempts(self) -> dict[tuple[str, int], Attempt]:
        """The attempts that are stored, by the item's name and their number."""
        return {(self._seqs.get(seq, "gone"), number): kept for (seq, number), kept in self._home.attempts().items()}

    def waiting(self) -> list[tuple[int, int]]:
        """The claims in the engine's memory: (holder, how many items each still takes)."""
        return sorted((ask.holder, waiting.left) for ask, waiting in self.engine._dispatch._by_ask.items())

    def _named(self, frame: bytes) -> Said:
        message = swap(orjson.loads(frame), self._names)
        assert isinstance(message, dict)
        return message


def swap(value: Json, table: dict[str, str]) -> Json:
    """The value with every text that the table knows replaced, also where it is a word of a longer one."""
    if isinstance(value, dict):
        return {name: swap(member, table) for name, member in value.items()}
    if isinstance(value, list):
        return [swap(member, table) for member in value]
    return " ".join(table.get(word, word) for word in value.split(" ")) if isinstance(value, str) else value
