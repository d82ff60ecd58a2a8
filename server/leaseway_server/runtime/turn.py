"""One turn: what is done with everything that gathered while the last commit ran (architecture: `The heart`).

It loads the rows that are named, applies the events purely, sweeps what is over, has ready items given to waiting
claims (`hand_out.py`), reads what is asked for, and saves what changed, once. It commits nothing and answers nobody:
`outcomes` and what its `rows` say are the engine's to use after the commit.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.commands import (
    Answer,
    Ask,
    Change,
    Changed,
    Delete,
    Done,
    Drop,
    Empty,
    Failed,
    Found,
    Oldest,
    Outcome,
    Pause,
    Paused,
    Post,
    PostAll,
    Read,
    ReadFollowed,
    Resumed,
    ResumeLeases,
    WaitsSince,
    Withdraw,
)
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import Conflict, Refused
from leaseway_server.core.events import Due, Event, Expire, Resume, Retry, SocketLost
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.followed import FollowedPages
from leaseway_server.runtime.hand_out import HandOut
from leaseway_server.runtime.keys import Keys
from leaseway_server.runtime.leases import Leases
from leaseway_server.runtime.posts import Posts, news_of
from leaseway_server.runtime.retention import prune
from leaseway_server.runtime.rows import Rows
from leaseway_server.runtime.submission import Submission
from leaseway_server.store.base import Turn

READ_CHARACTERS: Final = 8 * 1024 * 1024
READ_AT_ONCE: Final = 1024 * 1024
"""Views are read up to about so many characters a turn, and a command; the rest is left for the next. What one command
reads is in memory until its client took it."""
READ_TOGETHER: Final = 16
"""So many items' bodies and results are asked for at once, at most: each question is a way to the database and back."""
SLICE: Final = 500
"""So many rows are swept in one turn; the next turn goes on."""
DROPPED: Final = 250
"""So many items of lost sockets are requeued in one turn; the next turn goes on."""
DELETED: Final = 25
"""So many items are deleted in one turn, as are pruned: to free large ones takes time by the page."""


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What the engine saw to be over before the turn: leases by id, the others by a look at their minimum.

    `told` are ends that producers were told, (id, rev) each.
    """

    claims: bool = False
    leases: tuple[str, ...] = ()
    due: bool = False
    expiry: bool = False
    keys: bool = False
    told: tuple[tuple[str, int], ...] = ()
    prune: bool = False

    @property
    def pressing(self) -> bool:
        """Whether loss of power may not cost all of it. It may cost stamps, what is pruned, and keys that passed."""
        return self.claims or bool(self.leases) or self.due or self.expiry


class TurnWork:
    """The work of one turn, over an open transaction."""

    def __init__(
        self,
        turn: Turn,
        queue: Queue,
        dispatch: Dispatch,
        leases: Leases,
        epochs: Epochs,
        pending: int,
        *,
        paused: bool,
    ) -> None:
        self.outcomes: list[tuple[Answer, Outcome]] = []
        self.rows = Rows(turn, queue.policy)
        self.paused = paused
        """Whether claims find nothing, as of the end of the turn."""
        self.pruned = False
        """Whether items were pruned, and there may be more of them."""
        self.all_free = True
        """Whether all rows were swept that are over and that no other server has in hand."""
        self.unfinished: list[Submission] = []
        """What was more than one turn does, of lost sockets and of deletes: to be said again."""
        self.presumed: set[str] = set()
        """Ids of what was taken to be leased: what of it is not is news to who remembers leases."""
        self.put_off: list[str] = []
        """Ids of leases that were to be swept, and that another server has in hand."""
        self._was_paused = paused
        self._turn = turn
        self._queue = queue
        self._keys = Keys(turn, self.rows, queue)
        self._posts = Posts(turn, self.rows, self._keys, queue, pending)
        self._dispatch = dispatch
        self._hand_out = HandOut(turn, self.rows, dispatch, self.outcomes, queue.match)
        self._leases = leases
        self._epochs = epochs
        self._resumed: dict[int, list[str]] = {}
        self._dropped: dict[int, list[str]] = {}
        self._reads: list[tuple[Read, Found]] = []
        self._read_ids: set[str] = set()
        self._followed = FollowedPages(turn, self.rows)
        self._waits_since: list[WaitsSince] = []

    async def run(
        self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool, claims_open: bool = True
    ) -> None:
        """Does all of it but the commit. An exception leaves nothing done, once the transaction is rolled back."""
        owed = self._dispatch.take_owed() if dispatching and not self.paused else []
        await self._load(submissions, sweeps, owed)
        self._hear_of_pause()
        for submission in submissions:
            self._do(submission)
        await self._sweep(sweeps)
        if dispatching and not self.paused:
            await self._hand_out.run(owed)
        else:
            self._dispatch.owe(owed)
        if self.paused or not claims_open:  # Claims that do not wait must not hold up what was said behind them.
            for ask in self._dispatch.unanswered(searched=False):
                self._hand_out.end(ask)
        await self.rows.save_attempts()
        await self._read()
        if self.paused != self._was_paused:
            await self._turn.pause(self.paused)
        self._posts.settle()
        await self._followed.read()
        await self.rows.save()
        await self._look_for_oldest()

    # ── 1. Load ──

    async def _load(self, submissions: Sequence[Submission], sweeps: Sweeps, owed: Sequence[str]) -> None:
        named: set[str] = set()
        posts: list[NewItem] = []
        retried: list[str] = []  # Whether another item holds their key has to be known.
        for submission in submissions:
            command = submission.command
            match command:
                case Change():
                    named.add(command.id)
                    if type(command.event) is Retry:
                        retried.append(command.id)
                case Delete():
                    named.add(command.id)
                case Post() | PostAll():
                    posts.extend(news_of(command))
                case Read():
                    self._read_ids.update(command.ids)
                case ResumeLeases():
                    named.update(item_id for item_id, _ in command.leases)
                case Drop():
                    named.update(self._part_of(command.holder))
        if sweeps.told:
            await self._turn.stamp(sweeps.told)
        await self._posts.number(len(posts))
        await self._keys.lock(posts, retried)
        await self._load_rows(named, sweeps.leases, owed)
        await self._keys.load(posts, retried)

    async def _load_rows(self, named: set[str], swept: Sequence[str], owed: Sequence[str]) -> None:
        """What is named is waited for. What is not is passed by where another server has it, which may stand still."""
        passed = set(await self.rows.load(named, {*swept, *owed} - named))
        self.presumed.update(set(swept) - passed)
        self.put_off = [item_id for item_id in swept if item_id in passed]
        self._dispatch.pass_by([item_id for item_id in owed if item_id in passed], self.rows.now)

    def _part_of(self, holder: int) -> list[str]:
        """What this turn requeues of a lost socket's items."""
        room = DROPPED - sum(map(len, self._dropped.values()))
        self._dropped[holder] = self._leases.of_holder(holder, room)
        self.presumed.update(self._dropped[holder])
        return self._dropped[holder]

    def _hear_of_pause(self) -> None:
        """Another server may have paused the queue, or ended the pause."""
        paused = self._turn.paused
        if paused is None or paused == self.paused:
            return
        if not paused:
            self._dispatch.look_anew()
        self.paused = self._was_paused = paused

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
                return self._guarded(command) or self._change(command)
            case Post() | PostAll():
                return self._posts.post(command)
            case Delete():
                return self._guarded(command) or self._delete(command, submission)
            case Ask():
                self._ask(command, submission.answer)
                return None
            case Read() | ReadFollowed() | Oldest():
                return self._begin_reading(command)
            case ResumeLeases():
                return Resumed(tuple(self._resume(command, *lease) for lease in command.leases))
            case Withdraw():
                self.outcomes += [(each, Empty()) for each in self._dispatch.withdraw(command.holder, command.ask)]
                return Done()
            case Drop():
                return self._drop(command.holder, submission)
            case Pause():
                return self._pause(command.on)

    def _begin_reading(self, command: Read | ReadFollowed | Oldest) -> Outcome:
        """What is given back is filled in when no item changes any more."""
        if isinstance(command, ReadFollowed):
            return self._followed.add(command)
        if isinstance(command, Oldest):
            self._waits_since.append(WaitsSince(now=self.rows.now))
            return self._waits_since[-1]
        found = Found(now=self.rows.now)
        self._reads.append((command, found))
        return found

    def _guarded(self, command: Change | Delete) -> Changed | None:
        """The refusal, where the command's guard has something against it."""
        item = self.rows.get(command.id) if command.guard else None
        if item is None or command.guard is None or not (reason := command.guard(item)):
            return None
        return Changed(accepted=False, item=None if reason == "unknown" else item, reason=reason)

    def _change(self, command: Change) -> Changed:
        if isinstance(command.event, Retry):
            return self._retry(command.id, command.event)
        return self.rows.change(command.id, command.event)

    def _delete(self, command: Delete, submission: Submission) -> Changed | None:
        if len(self.rows.deleted) == DELETED:
            self.unfinished.append(submission)
            return None
        return self.rows.delete(command.id)

    def _retry(self, item_id: str, event: Retry) -> Changed:
        """With its key, which it holds anew. Raises `Conflict` where another item has that by now."""
        item = self.rows.get(item_id)
        holder = self._keys.holder(item) if item is not None and item.key and item.terminal else None
        if holder is not None and holder.id != item_id:
            raise Conflict("another item holds its key by now")
        changed = self.rows.change(item_id, event)
        if changed.accepted and changed.item is not None and changed.item.key:
            self._keys.take(changed.item)
        return changed

    def _ask(self, ask: Ask, answer: Answer) -> None:
        ask.until = self.rows.now + ask.wait_ms if ask.wait_ms else 0
        self._dispatch.add(ask, answer)

    def _resume(self, command: ResumeLeases, item_id: str, fence: int) -> Changed:
        item = self.rows.get(item_id)
        progress_from = self._epochs.progress_from(item) if item else 0
        event = Resume(command.holder, command.user, command.worker, fence, progress_from)
        changed = self.rows.change(item_id, event)
        if changed.accepted:
            self._resumed.setdefault(command.holder, []).append(item_id)
        return changed

    def _drop(self, holder: int, submission: Submission) -> Done | None:
        for ask in self._dispatch.of_holder(holder):
            self._dispatch.remove(ask)
        # Besides what it held when the turn began, it may have resumed leases within the turn.
        for item_id in {*self._dropped[holder], *self._resumed.get(holder, ())}:
            self.rows.change(item_id, SocketLost(holder))
        if self._leases.number(holder) > len(self._dropped[holder]):
            self.unfinished.append(submission)
            return None
        return Done()

    def _pause(self, on: bool) -> Paused:
        changed, self.paused = on != self.paused, on
        if changed and not on:
            self._dispatch.look_anew()  # Nobody offered the claims that wait what became ready meanwhile.
        return Paused(changed)

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
        if sweeps.prune:
            self.pruned = await prune(self._turn, self.rows, self._queue.keep, self._read_ids)
        if sweeps.keys:
            self.all_free &= await self._keys.sweep(SLICE) < SLICE
        if sweeps.claims:
            self.outcomes += [(answer, Empty()) for answer in self._dispatch.end(self.rows.now)]

    def _sweep_rows(self, found: Collection[Item], event: Event) -> None:
        self.all_free &= len(found) < SLICE
        for item in found:
            self.rows.found(item)
            self.rows.change(item.id, event)

    # ── 4. Read ──

    async def _read(self) -> None:
        budget = READ_CHARACTERS
        await self.rows.look(self._read_ids)
        for read, found in self._reads:
            budget -= await self._read_some(read, found, min(budget, READ_AT_ONCE))

    async def _read_some(self, read: Read, found: Found, room: int) -> int:
        """Reads as much as there is room for, and one item more. Gives how many characters that was."""
        shown = {item_id: item for item_id in read.ids if (item := self.rows.shown(item_id))}
        ids = list(shown)
        used = had = 0
        together = 1
        for place, item_id in enumerate(ids):
            if used >= room:
                found.left = tuple(ids[place:])
                break
            if place == had:
                had += together
                await self._read_parts(read, found, [shown[each] for each in ids[place:had]])
                together = min(2 * together, READ_TOGETHER)
            item = found.items[item_id] = shown[item_id]
            used += len(item.result) + len(item.body)
        return used

    async def _read_parts(self, read: Read, found: Found, items: Sequence[Item]) -> None:
        """What of these items is not in their rows."""
        if ended := [item for item in items if item.status == "finished" and not item.result]:
            await self._turn.read_results(ended)
        if read.bodies:
            await self.rows.with_bodies(items)
        if read.attempts:
            found.attempts.update(await self._turn.read_attempts(items))

    async def _look_for_oldest(self) -> None:
        """Once what changed is saved, since the store's index is asked."""
        if self._waits_since:
            at = await self._turn.oldest_ready()
            for each in self._waits_since:
                each.at = at
