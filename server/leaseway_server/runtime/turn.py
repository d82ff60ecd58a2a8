"""One turn: what is done with everything that gathered while the last commit ran (architecture: `The heart`).

It loads the rows that are named, applies the events purely, sweeps what is over, has ready items given to waiting
claims (`hand_out.py`), and saves what changed, once. It commits nothing and answers nobody: `outcomes` and `changes`
are the engine's to use after the commit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.commands import (
    Answer,
    Ask,
    Change,
    Changed,
    Command,
    Done,
    Drop,
    Empty,
    Failed,
    Found,
    Oldest,
    Outcome,
    Post,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
    WaitsSince,
    Withdraw,
)
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import LimitReached, Refused
from leaseway_server.core.events import Due, Event, Expire, Resume, SocketLost
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import Item
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.hand_out import HandOut
from leaseway_server.runtime.leases import Leases, Start
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn

READ_CHARACTERS: Final = 8 * 1024 * 1024
READ_ITEMS: Final = 8
"""Views are read by so many at a time, up to about so many characters a turn; the rest is left for the next."""
SLICE: Final = 500
"""So many rows are swept in one turn; the next turn goes on."""


@dataclass(slots=True, eq=False)
class Submission:
    """A command and who waits for its outcomes."""

    command: Command
    answer: Answer


def nobody(_outcome: Outcome) -> None:
    """The answer of commands that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What the engine saw to be over before the turn: leases by id, the others by a look at their minimum.

    `told` are ends that producers were told, (id, rev) each.
    """

    claims: bool = False
    leases: tuple[str, ...] = ()
    due: bool = False
    expiry: bool = False
    told: tuple[tuple[str, int], ...] = ()

    @property
    def pressing(self) -> bool:
        """Whether there is more than ends that were told, which loss of power may cost."""
        return self.claims or bool(self.leases) or self.due or self.expiry


class TurnWork:
    """The work of one turn, over an open transaction."""

    def __init__(
        self, turn: Turn, queue: Queue, dispatch: Dispatch, leases: Leases, start: Start, pending: int
    ) -> None:
        self.outcomes: list[tuple[Answer, Outcome]] = []
        self.rows = Rows(turn, queue.policy)
        self._turn = turn
        self._queue = queue
        self._pending = pending
        self._dispatch = dispatch
        self._hand_out = HandOut(turn, self.rows, dispatch, self.outcomes)
        self._leases = leases
        self._start = start
        self._posts: dict[Submission, tuple[int, str]] = {}
        self._resumed: dict[int, list[str]] = {}
        self._reads: list[tuple[Read, Found]] = []
        self._waits_since: list[WaitsSince] = []

    async def run(
        self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool, claims_open: bool = True
    ) -> None:
        """Does all of it but the commit. An exception leaves nothing done, once the transaction is rolled back."""
        await self._load(submissions, sweeps)
        for submission in submissions:
            self._do(submission)
        await self._sweep(sweeps)
        if dispatching:
            await self._hand_out.run()
        elif not claims_open:  # A planned stop: claims that do not wait must not hold up what was said behind them.
            for ask in self._dispatch.unanswered(searched=False):
                self._hand_out.end(ask)
        await self._read()
        await self.rows.save()
        await self._look_for_oldest()

    # ── 1. Load ──

    async def _load(self, submissions: Sequence[Submission], sweeps: Sweeps) -> None:
        named: set[str] = set(sweeps.leases)
        posts = []
        for submission in submissions:
            command = submission.command
            match command:
                case Change():
                    named.add(command.id)
                case Post():
                    posts.append(submission)
                case Read():
                    named.update(command.ids)
                case ResumeLeases():
                    named.update(item_id for item_id, _ in command.leases)
                case Drop():
                    named.update(self._leases.of_holder(command.holder))
        if sweeps.told:
            await self._turn.stamp(sweeps.told)
        if posts:
            ids = await self._turn.new_ids(len(posts))
            self._posts = dict(zip(posts, ids, strict=True))
        await self.rows.load(named)

    # ── 2. Apply ──

    def _do(self, submission: Submission) -> None:
        try:
            outcome = self._carry_out(submission)
        except Refused as refused:
            outcome = Failed(refused)
        if outcome is not None:
            self.outcomes.append((submission.answer, outcome))

    def _carry_out(self, submission: Submission) -> Outcome | None:
        command = submission.command
        match command:
            case Change():
                return self.rows.change(command.id, command.event)
            case Post():
                return self._post(command, *self._posts[submission])
            case Ask():
                self._ask(command, submission.answer)
                return None
            case Read():
                found = Found(now=self.rows.now)
                self._reads.append((command, found))
                return found
            case Oldest():
                self._waits_since.append(WaitsSince(now=self.rows.now))
                return self._waits_since[-1]
            case ResumeLeases():
                return Resumed(tuple(self._resume(command, *lease) for lease in command.leases))
            case Withdraw():
                self._withdraw(command)
                return Done()
            case Drop():
                self._drop(command.holder)
                return Done()

    def _post(self, command: Post, seq: int, item_id: str) -> Posted:
        if self._pending + len(self.rows.new) >= self._queue.max_pending:
            raise LimitReached(f"{self._queue.max_pending} items wait already, which is all that the queue takes")
        return self.rows.post(create(command.new, item_id, seq, self.rows.now, self._queue.policy))

    def _ask(self, ask: Ask, answer: Answer) -> None:
        ask.until = self.rows.now + ask.wait_ms if ask.wait_ms else 0
        self._dispatch.add(ask, answer)

    def _resume(self, command: ResumeLeases, item_id: str, fence: int) -> Changed:
        item = self.rows.get(item_id)
        progress_from = self._start.progress_from(item) if item else 0
        event = Resume(command.holder, command.user, command.worker, fence, progress_from)
        changed = self.rows.change(item_id, event)
        if changed.accepted:
            self._resumed.setdefault(command.holder, []).append(item_id)
        return changed

    def _withdraw(self, command: Withdraw) -> None:
        for ask in self._dispatch.of_holder(command.holder) if command.ask is None else [command.ask]:
            if ask in self._dispatch:
                self._hand_out.end(ask)

    def _drop(self, holder: int) -> None:
        for ask in self._dispatch.of_holder(holder):
            self._dispatch.remove(ask)
        # Besides what it held when the turn began, it may have resumed leases within the turn.
        for item_id in {*self._leases.of_holder(holder), *self._resumed.get(holder, ())}:
            self.rows.change(item_id, SocketLost(holder))

    # ── 3. Sweep ──

    async def _sweep(self, sweeps: Sweeps) -> None:
        for item_id in sweeps.leases:
            item = self.rows.get(item_id)
            if item is not None:
                self.rows.change(item_id, self._leases.sweep_event(item))
        if sweeps.due:
            self._sweep_rows(await self._turn.come_due(self.rows.now, SLICE), Due())
        if sweeps.expiry:
            self._sweep_rows(await self._turn.outlived(self.rows.now, SLICE), Expire())
        for answer in self._dispatch.end(self.rows.now):
            self.outcomes.append((answer, Empty()))

    def _sweep_rows(self, found: Iterable[Item], event: Event) -> None:
        for item in found:
            self.rows.found(item)
            self.rows.change(item.id, event)

    # ── 4. Read ──

    async def _read(self) -> None:
        budget = READ_CHARACTERS
        for read, found in self._reads:
            ids = [item_id for item_id in read.ids if item_id in self.rows]
            while ids and budget > 0:
                some, ids = [self.rows[item_id] for item_id in ids[:READ_ITEMS]], ids[READ_ITEMS:]
                await self._turn.read_results([each for each in some if each.status == "finished" and not each.result])
                if read.bodies:
                    await self.rows.with_bodies(some)
                budget -= sum(len(each.result) + len(each.body) for each in some)
                found.items.update((each.id, each) for each in some)
            found.left = tuple(ids)

    async def _look_for_oldest(self) -> None:
        """Once what changed is saved, since the store's index is asked."""
        if self._waits_since:
            at = await self._turn.oldest_ready()
            for each in self._waits_since:
                each.at = at
