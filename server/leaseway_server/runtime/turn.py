"""One turn: what is done with everything that gathered while the last commit ran (architecture: `The heart`).

It loads the rows that are named, applies the events purely, sweeps what is over, gives ready items to waiting claims,
and saves what changed, once. It commits nothing and answers nobody: `outcomes` and `changes` are the engine's to use
after the commit.
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
    Handed,
    Outcome,
    Post,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.dispatch import END, Dispatch, Lane
from leaseway_server.core.errors import LimitReached, Refused
from leaseway_server.core.events import Claim, Due, Event, Expire, Resume, SocketLost
from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.lifecycle import Refusal, apply, create
from leaseway_server.core.model import Item, Position
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.leases import Leases, Start
from leaseway_server.store.base import Turn

READ_CHARACTERS: Final = 8 * 1024 * 1024
READ_ITEMS: Final = 8
"""Views are read by so many at a time, up to about so many characters a turn; the rest is left for the next."""
ROW_CHARACTERS: Final = 8 * 1024
"""A row that is searched counts as one for each so many characters of its body."""
SLICE: Final = 500
"""So many rows are swept, or looked at for criteria, in one turn; the next turn goes on."""


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
        self.now = 0
        self.outcomes: list[tuple[Answer, Outcome]] = []
        self._turn = turn
        self._queue = queue
        self._policy = queue.policy
        self._pending = pending
        self._dispatch = dispatch
        self._leases = leases
        self._start = start
        self._before: dict[str, Item] = {}
        self._items: dict[str, Item] = {}
        self._new: dict[str, Posted] = {}
        self._posts: dict[Submission, tuple[int, str]] = {}
        self._resumed: dict[int, list[str]] = {}
        self._reads: list[tuple[Read, Found]] = []

    async def run(
        self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool, claims_open: bool = True
    ) -> None:
        """Does all of it but the commit. An exception leaves nothing done, once the transaction is rolled back."""
        await self._load(submissions, sweeps)
        for submission in submissions:
            self._do(submission)
        await self._sweep(sweeps)
        if dispatching:
            await self._hand_out()
        elif not claims_open:  # A planned stop: claims that do not wait must not hold up what was said behind them.
            for ask in self._dispatch.unanswered(searched=False):
                self._end(ask)
        await self._read()
        await self._save()

    def changes(self) -> list[tuple[Item | None, Item]]:
        """What changed, as (before, after); before is None for a new item."""
        changed: list[tuple[Item | None, Item]] = [(None, posted.item) for posted in self._new.values()]
        changed.extend(self._changed())
        return changed

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
        if named:
            self._before = await self._turn.load(named)
            self._items = dict(self._before)
        if posts:
            ids = await self._turn.new_ids(len(posts))
            self._posts = dict(zip(posts, ids, strict=True))
        self.now = await self._turn.time()

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
                return self._change(command.id, command.event)
            case Post():
                return self._post(command, *self._posts[submission])
            case Ask():
                self._ask(command, submission.answer)
                return None
            case Read():
                found = Found(now=self.now)
                self._reads.append((command, found))
                return found
            case ResumeLeases():
                return Resumed(tuple(self._resume(command, *lease) for lease in command.leases))
            case Withdraw():
                self._withdraw(command)
                return Done()
            case Drop():
                self._drop(command.holder)
                return Done()

    def _change(self, item_id: str, event: Event) -> Changed:
        item = self._items.get(item_id)
        if item is None:
            return Changed(accepted=False, item=None, reason="unknown")
        after = apply(item, event, self.now, self._policy)
        if isinstance(after, Refusal):
            return Changed(accepted=False, item=item, reason=after.reason, duplicate=after.duplicate)
        self._put(after)
        return Changed(accepted=True, item=after)

    def _put(self, item: Item) -> None:
        self._items[item.id] = item
        if self._new and (posted := self._new.get(item.id)):
            posted.item = item

    def _post(self, command: Post, seq: int, item_id: str) -> Posted:
        if self._pending + len(self._new) >= self._queue.max_pending:
            raise LimitReached(f"{self._queue.max_pending} items wait already, which is all that the queue takes")
        item = create(command.new, item_id, seq, self.now, self._policy)
        self._items[item_id] = item
        posted = self._new[item_id] = Posted(item)
        return posted

    def _ask(self, ask: Ask, answer: Answer) -> None:
        ask.until = self.now + ask.wait_ms if ask.wait_ms else 0
        self._dispatch.add(ask, answer)

    def _resume(self, command: ResumeLeases, item_id: str, fence: int) -> Changed:
        item = self._items.get(item_id)
        progress_from = self._start.progress_from(item) if item else 0
        event = Resume(command.holder, command.user, command.worker, fence, progress_from)
        changed = self._change(item_id, event)
        if changed.accepted:
            self._resumed.setdefault(command.holder, []).append(item_id)
        return changed

    def _withdraw(self, command: Withdraw) -> None:
        for ask in self._dispatch.of_holder(command.holder) if command.ask is None else [command.ask]:
            if ask in self._dispatch:
                self._end(ask)

    def _end(self, ask: Ask) -> None:
        self.outcomes.append((self._dispatch.remove(ask), Empty()))

    def _drop(self, holder: int) -> None:
        for ask in self._dispatch.of_holder(holder):
            self._dispatch.remove(ask)
        # Besides what it held when the turn began, it may have resumed leases within the turn.
        for item_id in {*self._leases.of_holder(holder), *self._resumed.get(holder, ())}:
            self._change(item_id, SocketLost(holder))

    # ── 3. Sweep ──

    async def _sweep(self, sweeps: Sweeps) -> None:
        for item_id in sweeps.leases:
            item = self._items.get(item_id)
            if item is not None:
                self._change(item_id, self._leases.sweep_event(item))
        if sweeps.due:
            self._sweep_rows(await self._turn.come_due(self.now, SLICE), Due())
        if sweeps.expiry:
            self._sweep_rows(await self._turn.outlived(self.now, SLICE), Expire())
        for answer in self._dispatch.end(self.now):
            self.outcomes.append((answer, Empty()))

    def _sweep_rows(self, rows: Iterable[Item], event: Event) -> None:
        for item in rows:
            if item.id not in self._items:
                self._before[item.id] = self._items[item.id] = item
            self._change(item.id, event)

    # ── 4. Hand out ──

    async def _hand_out(self) -> None:
        ready = sorted(self._ready(), key=lambda item: item.position)
        if ready and len(self._dispatch):
            await self._with_bodies(ready)
            ready = [item for item in ready if not self._offer(item)]
        budget = SLICE
        for lane in self._dispatch.to_search():
            budget = await self._search(lane, ready, budget)
            ready = [item for item in ready if self._items[item.id].status == "pending"]
            if budget <= 0:
                break
        for item in ready:
            self._dispatch.stays_ready(item.position)
        for ask in self._dispatch.unanswered():
            self._end(ask)

    def _ready(self) -> list[Item]:
        """What became claimable in this turn: the store's index does not know it yet."""
        return [item for item in self._items.values() if item.ready and item.claimable(self.now)]

    async def _with_bodies(self, items: Sequence[Item]) -> None:
        missing = [item for item in items if not item.body]
        if missing:
            await self._turn.read_bodies(missing)

    def _offer(self, item: Item) -> bool:
        value: list[Json] = []

        def read() -> Json:
            if not value:
                value.append(parse(item.body))
            return value[0]

        ask = self._dispatch.oldest_for(item.position, read)
        if ask is not None:
            self._hand(item, ask)
        return ask is not None

    async def _search(self, lane: Lane, ready: Sequence[Item], budget: int) -> int:
        """Looks through the store's ready items, and those of this turn that stand among them.

        It ends where the lane has all that it wants or has seen everything. Gives what is left of the budget of rows.
        """
        everything = lane.criteria.matches_everything
        while budget > 0 and lane.searching:
            limit = min(budget, lane.wanted()) if everything else budget
            found = await self._turn.pick(lane.cursor, limit, {item.seq for item in self._items.values()})
            budget -= max(1, len(found), sum(len(item.body) for item in found) // ROW_CHARACTERS)
            last = found[-1].position if found else END
            among = [item for item in ready if lane.cursor < item.position <= last]
            await self._with_bodies(among)
            self._give_out(lane, sorted([*found, *among], key=lambda item: item.position), last)
        return budget

    def _give_out(self, lane: Lane, candidates: Sequence[Item], last: Position) -> None:
        """Gives the candidates, in the order of claims, to the lane's claims, and moves its cursor over them."""
        for item in candidates:
            lane.cursor = item.position
            if item.claimable(self.now) and self._meets(lane, item):
                if item.id not in self._items:
                    self._before[item.id] = item
                self._hand(item, lane.oldest().ask)
                if not lane.claims:
                    return
        lane.cursor = last

    def _meets(self, lane: Lane, item: Item) -> bool:
        return lane.criteria.matches_everything or lane.criteria.matches(parse(item.body))

    def _hand(self, item: Item, ask: Ask) -> None:
        after = apply(item, Claim(ask.holder, ask.user, ask.worker), self.now, self._policy)
        assert isinstance(after, Item), f"{item.id} was claimable and is not"
        self._put(after)
        self.outcomes.append((self._dispatch.take(ask, len(after.body)), Handed(after)))
        if self._dispatch.has_enough(ask):
            self._end(ask)

    # ── 5. Read and save ──

    async def _read(self) -> None:
        budget = READ_CHARACTERS
        for read, found in self._reads:
            ids = [item_id for item_id in read.ids if item_id in self._items]
            while ids and budget > 0:
                some, ids = [self._items[item_id] for item_id in ids[:READ_ITEMS]], ids[READ_ITEMS:]
                await self._turn.read_results([each for each in some if each.status == "finished" and not each.result])
                if read.bodies:
                    await self._with_bodies(some)
                budget -= sum(len(each.result) + len(each.body) for each in some)
                found.items.update((each.id, each) for each in some)
            found.left = tuple(ids)

    def _changed(self) -> list[tuple[Item, Item]]:
        return [(old, self._items[old.id]) for old in self._before.values() if self._items[old.id] is not old]

    async def _save(self) -> None:
        if self._new:
            await self._turn.insert([posted.item for posted in self._new.values()])
        changed = self._changed()
        if changed:
            await self._turn.save(changed)
