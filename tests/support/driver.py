"""Two sides that are told the same, turn by turn: the queue on a store, and the queue on a dictionary.

After every turn both must have said the same and hold the same, and the journal must find that right. What is told is
the machine's.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from leaseway_server.core import effects
from leaseway_server.core.commands import Change, Delete
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from leaseway_server.core.policy import Policy
from leaseway_server.core.queue import Queue
from leaseway_server.core.retention import Keep
from leaseway_server.runtime import deadlines, followed, hand_out, offering, retention, submission, turn
from leaseway_server.store import bounds
from leaseway_server.store.sqlite import files
from support.asking import Match
from support.clock import ManualClock
from support.homes import MemoryHome, SqliteHome, Twin
from support.journal import Journal
from support.rare import SEEN
from support.side import Said, Side, Who

_MEMORY: Final = Path("/dev/shm")
"""Where there is a folder in memory, the files lie there: that they are durable is not what is tried here."""
Same = TypeVar("Same")


@dataclass(frozen=True, slots=True)
class Setting:
    """A queue's policy, and bounds of the server made so small that they are met."""

    policy: Policy
    slice: int = 500
    commands: int = 1_000
    looked_at: int = hand_out.SLICE
    offers: int = offering.OFFERS
    churn: int = effects.CHURN
    keep: Keep = field(default_factory=Keep)


class Driver(RuleBasedStateMachine):
    """One program's two sides and its journal."""

    def __init__(self) -> None:
        super().__init__()
        self._leave = ExitStack()
        self._loop = asyncio.new_event_loop()
        self._leave.callback(self._loop.close)
        self._folder = Path(self._leave.enter_context(TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)))
        self._refs = count(1)
        self._names = count(1)
        self.gone: list[tuple[str, str, dict[str, int]]] = []
        """The workers whose socket is gone: user, worker, and the numbers of what they had."""
        SEEN["programs"] += 1

    def _begin(self, setting: Setting, match: Match) -> None:
        patch = pytest.MonkeyPatch()
        self._leave.callback(patch.undo)
        patch.setattr(turn, "SLICE", setting.slice)
        patch.setattr(deadlines, "SLICE", setting.slice)
        patch.setattr(retention, "SLICE", setting.slice)
        patch.setattr(bounds, "REMATCH_ROWS", setting.slice)
        patch.setattr(hand_out, "SLICE", setting.looked_at)
        patch.setattr(offering, "OFFERS", setting.offers)
        patch.setattr(submission, "TURN_COMMANDS", setting.commands)
        patch.setattr(effects, "CHURN", setting.churn)
        patch.setattr(followed, "PAGE", setting.slice)
        patch.setattr(files, "WAL_BYTES", 0)
        self._leave.callback(logging.disable, logging.NOTSET)
        logging.disable(logging.CRITICAL)  # Faults that are asked for need no tracebacks.
        self.clock = ManualClock()
        queue = Queue("queue", setting.policy, keep=setting.keep, match=match)
        home = self._home()
        self._leave.callback(lambda: self._loop.run_until_complete(home.close()))
        self.sides = [Side(each, queue, self.clock) for each in (home, MemoryHome(home))]
        self.journal = Journal(setting.policy, setting.churn, setting.keep)
        self.journal.claim_book.match = match
        self._start()

    def _home(self) -> Twin:
        """Where the queue lives that is held against the dictionary."""
        return SqliteHome(self._folder)

    def teardown(self) -> None:
        """Lets go of everything."""
        for side in getattr(self, "sides", ()):
            self._loop.run_until_complete(side.crash())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._leave.close()

    def _start(self) -> None:
        for side in self.sides:
            self._loop.run_until_complete(side.start())
        rows = self._same([side.rows() for side in self.sides])
        paused = self._same([side.engine.paused for side in self.sides])
        self.journal.started(self.clock.now(), self.sides[0].engine.epochs.own, rows, paused=paused)
        self._turn()

    def _end(self, *, clean: bool) -> int:
        """A planned stop, or a kill with what was said and not done. Gives how many sockets there were."""
        self._taken()
        if clean:
            self._turn()
        sockets = len(self.journal.sockets)
        self._all_gone()
        for side in self.sides:
            self._loop.run_until_complete(side.stop() if clean else side.crash())
        return sockets

    def _rematch(self, match: Match) -> None:
        """The next start finds these members in the configuration."""
        self.journal.claim_book.match = match
        for side in self.sides:
            side.queue = replace(side.queue, match=match)

    def _turn(self) -> None:
        SEEN["turns"] += 1
        for side in self.sides:
            self._loop.run_until_complete(side.turn())
        SEEN.update(self._same([side.met for side in self.sides]))
        heard = self._same([side.heard() for side in self.sides])
        rows = self._same([side.rows() for side in self.sides])
        if self._same([side.lost for side in self.sides]):
            SEEN["store lost"] += 1
            self.journal.heard_at_last(heard, self.clock.now())
            self._all_gone()
            for side in self.sides:
                self._loop.run_until_complete(side.crash())
            self._start()
            return
        blocked = self._same([bool(side.engine._backlog.blocked_until) for side in self.sides])
        paused = self._same([side.engine.paused for side in self.sides])
        self.journal.heard(heard, rows, self.clock.now(), blocked=blocked, paused=paused)
        leases = self._same([side.leases() for side in self.sides])
        held = [row for row in rows if row.status == "processing"]
        assert leases == {row.id: (row.holder, self.journal.lease_ends(row)) for row in held}, (
            "memory and rows disagree"
        )
        counts = self._same([self._loop.run_until_complete(side.counts()) for side in self.sides])
        assert counts == Counter(row.status for row in rows), "they have lost count"
        if not blocked:
            self.journal.check_attempts(self._same([side.attempts() for side in self.sides]))
        waiting = self._same([side.waiting() for side in self.sides])
        if not blocked:
            assert waiting == self.journal.waiting()

    def _same(self, both: list[Same]) -> Same:
        stored, memory = both
        assert stored == memory
        return memory

    def _then(self, now: bool) -> None:
        if now:
            self._turn()

    def _taken(self) -> None:
        """Something else is said or done, and by now the workers have read what they were sent."""
        SEEN["steps"] += 1
        self.journal.fresh.clear()

    def _say(self, who: Who, verb: str, value: Said) -> None:
        self._taken()
        ref = next(self._refs)
        self.journal.said(who, ref, verb, value)
        for side in self.sides:
            side.say(who, {verb: value, "ref": ref})

    def _say_all(self, who: Who, verb: str, values: list[Said]) -> None:
        """An array of reports. For the journal each has a ref of its own: the message's, and those behind it."""
        self._taken()
        refs = [next(self._refs) for _ in values]
        for ref, value in zip(refs, values, strict=True):
            self.journal.said(who, ref, verb, value)
        members: list[Json] = list(values)
        for side in self.sides:
            side.say(who, {verb: members, "ref": refs[0]})

    def _post(self, item: Json, options: Said) -> None:
        self._say("monitor", "post", {"item": item, "subscribe": True, **options})

    def _post_all(self, posts: list[Said]) -> None:
        self._taken()
        ref = next(self._refs)
        array: list[Json] = [{"subscribe": True, **post} for post in posts]
        self.journal.said("monitor", ref, "post", {"array": array})
        for side in self.sides:
            side.say("monitor", {"post": array, "ref": ref})

    def _request(self, user: str, verb: str, body: Said) -> None:
        self._taken()
        ref = next(self._refs)
        self.journal.said(f"http {user}", ref, verb, body)
        for side in self.sides:
            side.request(user, verb, {**body, "ref": ref})

    def _administer(self, verb: str, command: Change | Delete) -> None:
        self._taken()
        ref = next(self._refs)
        self.journal.said("admin", ref, verb, {"id": command.id})
        for side in self.sides:
            side.administer(verb, command, ref)

    def _pause(self, on: bool) -> None:
        self._taken()
        ref = next(self._refs)
        self.journal.said("admin", ref, "pause" if on else "unpause", {})
        for side in self.sides:
            side.pause(on, ref)

    def _reconfigure(self, window: int, own_only: bool) -> None:
        self._taken()
        self.journal.reconfigured(window)
        for side in self.sides:
            side.reconfigure(window, own_only)

    def _open(self, user: str, worker: str, *, batch: bool = False) -> Who:
        who = f"s{next(self._names)}"
        for side in self.sides:
            side.open_socket(who, user)
        self.journal.opened(who, user, worker, self.sides[0].sockets[who].holder)
        if worker or batch:
            hello: Said = {"batch": batch, "cancel": True}
            self._say(who, "hello", hello | {"worker": worker} if worker else hello)
        return who

    def _resume(self, user: str, worker: str, leases: dict[str, int]) -> None:
        who = self._open(user, worker)
        asked: list[Json] = [{"id": name, "attempts": attempts} for name, attempts in leases.items()]
        self._say(who, "resume", {"worker": worker, "user": user, "leases": asked})  # The user is for the journal.

    def _drop(self, who: Who) -> None:
        if who in self.journal.sockets:  # A store that was lost in between has taken it along.
            SEEN["steps"] += 1
            self._gone(who)
            self.journal.dropped(who)
            for side in self.sides:
                side.drop(who)

    def _gone(self, who: Who) -> None:
        socket = self.journal.sockets[who]
        self.gone.append((socket.user, socket.worker, dict(socket.fences)))

    def _all_gone(self) -> None:
        for who in self.journal.sockets:
            self._gone(who)

    def _socket(self, which: int) -> Who:
        sockets = list(self.journal.sockets) or [self._open("ann", "w1")]
        return sockets[which % len(sockets)]

    def _newest(self) -> str:
        """The name that the next item gets."""
        return f"#{len(self.sides[0]._names)}"

    def _handed(self, which: int) -> tuple[str, int, Who]:
        """One of the last that were handed out."""
        return self.journal.handed[-1 - which % min(len(self.journal.handed), 8)]

    def _pick(self, which: int, wanted: Callable[[Item], bool]) -> Item | None:
        found = [row for row in self.journal.rows.values() if wanted(row)]
        return found[which % len(found)] if found else None

    def _report(self, verb: str, name: str, attempts: int | None, extra: bool) -> Said:
        """A report; `extra` makes a fail permanent, and a release or a retry late."""
        report: Said = {"id": name}
        if attempts is not None:
            report["attempts"] = max(attempts, 0)
        if verb in ("progress", "result"):
            report["value"] = {"step": next(self._refs)}
        elif verb == "fail":
            report["error"] = {"message": "no luck"}
            report["retryable"] = not extra
        elif verb == "release" and extra:
            report["delayMs"] = 700
        return report
