"""The engine of one queue: it gathers what is said while the last commit runs, and does it in one turn after another.

Its task is the only one that runs turns, and nobody cancels it. An answer is given after the commit that it speaks of,
never before. Here is when a turn runs, and what happens when it fails; what a turn does is in `turn.py`, what is over
in `deadlines.py`, who is told of it in `teller.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import Final

from leaseway_server.core.commands import (
    Answer,
    Ask,
    Command,
    Done,
    Drop,
    Empty,
    Failed,
    Found,
    Outcome,
    Read,
    Withdraw,
)
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import StoreAway, StoreBusy, StoreError, StoreFull, StoreLost, Unavailable
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.deadlines import Deadlines
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.hub import Hub
from leaseway_server.runtime.leases import Lease, Leases
from leaseway_server.runtime.looking import Looking, index_members
from leaseway_server.runtime.neighbours import Neighbours, News
from leaseway_server.runtime.observer import Gauges, Nobody, Observer
from leaseway_server.runtime.outage import Doubt, Outage
from leaseway_server.runtime.submission import Submission, fitting, nobody
from leaseway_server.runtime.tally import Tally
from leaseway_server.runtime.teller import OnLoss, Teller
from leaseway_server.runtime.turn import Sweeps, TurnWork
from leaseway_server.store.base import Store

RETRY_MS: Final = 500
"""So long after a turn that found no space, what nobody waits for is tried again."""
BUSY_TRIES: Final = 6
"""So often a turn is run again that others were in the way of: at once, then after a moment that doubles, by chance."""
BUSY_SECONDS: Final = 0.002
NOT_THERE: Final = "the server cannot reach its database at the moment; nothing of this was done"
ROWS_AT_ONCE: Final = 250
"""So many rows that others changed are read at a time."""
PASSES: Final = 5
"""So often the event loop goes round between two slices of a search or a sweep: a request comes in, and its answer goes
out, over several rounds, and is not to wait for a slice in each."""

_log = logging.getLogger(__name__)


class Engine:
    """One queue at work. `on_lost` is told when the store's last commit is in doubt and the process must end."""

    def __init__(
        self,
        queue: Queue,
        store: Store,
        clock: Clock,
        *,
        resume_grace: int = 30_000,
        ping_timeout: int = 10_000,
        on_lost: Callable[[StoreLost], None] = lambda _error: None,
        observer: Observer | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.queue = queue
        self.hub = Hub()
        self._teller = Teller(queue.name, self.hub)
        self.clock = clock
        self._store = store
        self._on_lost = on_lost
        self._observer = observer or Nobody()
        now = clock.now()
        self.epochs = Epochs(store.epoch, now, now + resume_grace)
        self._leases = Leases(queue.policy, self.epochs)
        self._dispatch = Dispatch()
        self.looking = Looking(store, clock, self._dispatch, self._leases, self._lose)
        self._deadlines = Deadlines(self._dispatch, self._leases, now, ping_timeout, queue.policy.dedupe_window)
        self.tally = Tally({})
        self.paused = False
        """Whether claims find nothing, as it was committed."""
        self._holders = count(1)
        self._waiting: list[Submission] = []
        self._kept: list[Submission] = []
        self._event = asyncio.Event()
        self._blocked_until = 0
        self._outage = Outage()
        self._suspected = False
        self._neighbours = neighbours
        self._met: tuple[frozenset[int], int] | None = None
        self._patience = resume_grace
        self._claims_open = True
        self._stopping = False
        self._lost: StoreLost | None = None

    # ── What the web asks ──

    def new_holder(self) -> int:
        """A number for a new socket, never given out before."""
        return self.epochs.holder(next(self._holders))

    def tell_losses(self, holder: int, on_loss: OnLoss | None) -> None:
        """From now on `on_loss(id, reason)` is told when this socket loses an item that it holds; None ends it."""
        self._teller.tell_losses(holder, on_loss)

    def submit(self, command: Command, answer: Answer = nobody) -> None:
        """Has the command done in the next turn. `answer` is told each outcome, after the commit."""
        if isinstance(command, Drop) and not self._claims_open:
            command = Withdraw(command.holder)  # On a planned stop nothing is requeued (§6).
        if not self._waiting:
            self._event.set()
        self._waiting.append(Submission(command, answer))

    def stamp(self, item_id: str, rev: int) -> None:
        """A producer was told the item's end, by the view `rev`.

        It is noted with a turn that is synced anyway, or after a second: nobody is to wait for a sync of it alone.
        """
        self._deadlines.stamp(item_id, rev, self.clock.now())

    @property
    def workers(self) -> int:
        """How many sockets of workers are open, on other servers too: those that can be told of losses."""
        return self._teller.sockets + (self._neighbours.workers if self._neighbours else 0)

    def waiting(self, holder: int) -> list[tuple[Ask, int]]:
        """A socket's waiting claims, oldest first, and how many items each still takes."""
        return self._dispatch.waiting(holder)

    def held(self, holder: int, most: int) -> list[tuple[str, Lease]]:
        """What a socket holds as of the last commit, by id; at most so many."""
        return self._leases.held(holder, most)

    async def ask(self, command: Command) -> Outcome:
        """As `submit`, for a command with one outcome. A caller that is cancelled cancels nothing but its waiting."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.submit(command, answer)
        return await future

    @property
    def writable(self) -> bool:
        """Whether the last turns could be written, as far as is known."""
        return self._lost is None and not self._blocked_until

    @property
    def gauges(self) -> Gauges:
        """How much there is of what is measured."""
        return Gauges(self.tally.counts, len(self._dispatch), len(self._leases))

    def reconfigure(self, queue: Queue) -> None:
        """From the next turn on the queue is configured so."""
        self.queue = queue
        self._leases.reconfigure(queue.policy)
        self._deadlines.dedupe_window = queue.policy.dedupe_window

    @property
    def away(self) -> bool:
        """Whether its database cannot be reached, as far as is known."""
        return self._outage.down

    @property
    def deserted(self) -> bool:
        """Whether its database is away for so long that clients had better find another server."""
        return self._outage.lasts(self.clock.now()) > self._patience

    def suspect(self) -> None:
        """The store may be away: the next step sees."""
        self._suspected = True
        self._event.set()

    def meet(self, alive: frozenset[int], newest: int) -> None:
        """These are the other servers that are alive, and the latest epoch that ever began."""
        self._met = alive, newest
        self._event.set()

    def hint(self, server: int, what: str) -> None:
        """Another server hints at something of this queue."""
        if self._neighbours is not None:
            self._neighbours.hint(server, what)
            self._event.set()

    def suspect_hints(self) -> None:
        """Hints may have been missed."""
        if self._neighbours is not None:
            self._neighbours.suspect()
            self._event.set()

    def check_store(self) -> None:
        """Looks whether the store is still where it was; call it each second."""
        if self._lost is not None or self._outage.down:
            return
        try:
            self._store.check()
        except StoreAway:
            self.suspect()  # A turn may be under way, which will see it.
        except StoreLost as lost:
            self._lose(lost)

    def close_claims(self) -> None:
        """A planned stop begins: no item is handed out any more, and dropped sockets keep their leases (§6)."""
        self._claims_open = False

    # ── The loop ──

    async def start(self) -> None:
        """Reads the leases; call it once before `run` or `step`."""
        await index_members(self._store, self.queue.match, self.queue.name)
        if self._neighbours is not None and self._met is not None:
            self.epochs.begin_among(*self._met)
            self._neighbours.meet(self._met[0], self.clock.now())
            now = self.clock.now()
            self.tally.hear(await self._neighbours.begin(now), now)
            self._met = None
        await self._read_all()

    async def _read_all(self) -> None:
        """Takes into memory what is kept there of the store."""
        leases = await self._store.leases()
        counts, paused = await self._store.counts(), await self._store.paused()
        async with self._store.turn(durable=True) as turn:
            minima = await self._deadlines.reread(turn, Sweeps(due=True, expiry=True, keys=True))
        self._inquire(self._leases.restore(leases))
        self.tally.recount(counts)
        self.paused, self._deadlines.minima = paused, minima

    async def run(self) -> None:
        """Runs turns until `stop`, or until the store is lost."""
        while not (self._stopping and not self._waiting) and self._lost is None:
            await self._wait()
            await self.step()

    def stop(self) -> None:
        """`run` ends after the turn that does what is waiting now."""
        self._stopping = True
        self._event.set()

    async def step(self) -> None:
        """One turn with all that waits and all that is over. Does nothing where there is nothing."""
        now = self.clock.now()
        self._deadlines.look(now)
        self._event.clear()
        self._regroup(now)
        if self._outage.down or self._suspected:
            await self._ask_for_it(now)
        if self._outage.down:
            if self._lost is None:
                self._wait_for_it(now)
            return
        if self._blocked_until and now >= self._blocked_until:
            self._unblock()
        await self._look_around(now)
        submissions = self._take()
        sweeps = self._sweeps(now, submissions)
        if submissions or sweeps != Sweeps() or self._searching:
            await self._attempt(submissions, sweeps, dispatching=self._claims_open and not self._blocked_until)
            await self._maintain()

    async def _wait(self) -> None:
        if self._waiting:
            await asyncio.sleep(0)
        elif self._searching or (deadline := self._next_deadline()) <= self.clock.now():
            await self._let_others_speak()
        else:
            await self.clock.wait(self._event, deadline)

    async def _let_others_speak(self) -> None:
        """Between two turns of what nobody said just now, such as a search: whoever is about to say something may."""
        for _ in range(PASSES):
            await asyncio.sleep(0)
            if self._waiting:
                break

    @property
    def _searching(self) -> bool:
        return self._claims_open and not self.paused and not self._blocked_until and self._dispatch.searching

    def _next_deadline(self) -> int:
        now = self.clock.now()
        if not self._outage.down and self._neighbours and self._neighbours.is_due(now, watched=self._watched):
            return now
        return self._deadlines.next(self._blocked_until, self.tally.ended)

    def _take(self) -> list[Submission]:
        taken = fitting(self._waiting)
        submissions, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return submissions

    def _sweeps(self, now: int, submissions: Sequence[Submission]) -> Sweeps:
        if self._blocked_until:
            return self._deadlines.over_while_blocked(now)
        # Stamps go with a turn that is synced anyway; one that stops waits for no other.
        synced = bool(self._deadlines.stamps) and (self._stopping or any(each.writes for each in submissions))
        return self._deadlines.over(now, self.tally.ended, synced=synced)

    # ── One attempt, and what happens when it fails ──

    async def _attempt(self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool) -> None:
        if self._lost is not None:
            return  # Nothing that comes after the doubtful commit may be done or answered.
        if self._outage.down:
            self._refuse(submissions, Failed(Unavailable(NOT_THERE)))
            return
        try:
            work = await self._undisturbed(submissions, sweeps, dispatching=dispatching)
        except (StoreFull, StoreBusy) as fault:
            self._dispatch.rollback()
            await self._without_space(submissions, fault)
        except StoreAway as away:
            self._leave(submissions, away)
        except StoreLost as lost:
            self._lose(lost)
        except Exception:  # noqa: BLE001  A fault of the data or of ours: find whose, and let the others through.
            self._dispatch.rollback()
            _log.exception("a turn failed", extra=self._said("turn.failed", commands=len(submissions)))
            await self._bisect(submissions)
        else:
            self._after_commit(work)

    async def _turn(self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool) -> TurnWork:
        durable = self._searching or sweeps.pressing or not all(each.light for each in submissions)
        looked_at = self.clock.now()
        self._observer.began()
        async with self._store.turn(durable=durable) as turn:
            pending = self.tally.counts["pending"]
            work = TurnWork(turn, self.queue, self._dispatch, self._leases, self.epochs, pending, paused=self.paused)
            await work.run(submissions, sweeps, dispatching=dispatching, claims_open=self._claims_open)
            minima = await self._deadlines.reread(turn, sweeps)
            self._observer.committing()
            try:
                await turn.commit()
            except StoreAway as away:
                self._outage.doubt = Doubt(work, submissions, sweeps, minima) if away.unknown else None
                raise
        self._teller.tell(self._observer.committed, len(submissions), durable)  # It is committed, whatever comes of it.
        self._deadlines.swept(sweeps, minima, work.rows.now, pruned=work.pruned)
        self._deadlines.agree(looked_at, work.rows.now)
        return work

    async def _undisturbed(self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool) -> TurnWork:
        """The turn, run again while others were in its way. Raises `StoreBusy` where they are too often."""
        for tried in range(BUSY_TRIES):
            try:
                return await self._turn(submissions, sweeps, dispatching=dispatching)
            except StoreBusy:
                self._dispatch.rollback()
                await asyncio.sleep(self.clock.chance() * BUSY_SECONDS * (2**tried - 1))
        return await self._turn(submissions, sweeps, dispatching=dispatching)

    def _after_commit(self, work: TurnWork) -> None:
        self._outage.over()
        self._dispatch.commit()
        changes = work.rows.changes
        self._leases.update(after for _, after in changes)
        for item_id in work.presumed:
            self._leases.correct(item_id, work.rows.get(item_id))
        self.tally.take(work.rows.more, changes, work.rows.now)
        self.paused = work.paused
        self._deadlines.include(changes)
        for each in work.unfinished:
            self.submit(each.command, each.answer)
        if self._neighbours is not None and (changes or work.rows.gone()):
            self._neighbours.turned()
        self._teller.committed(work, changes)
        self._teller.tell(self._observer.changed, changes)

    def _said(self, event: str, **more: object) -> dict[str, object]:
        """What a line of the log says beside its text."""
        return {"event": event, "queue": self.queue.name, **more}

    async def _without_space(self, submissions: Sequence[Submission], fault: StoreFull | StoreBusy) -> None:
        """Refuses what cannot be written, answers what only reads, and keeps what must be done until there is space."""
        full = isinstance(fault, StoreFull)
        said = self._said("store.full" if full else "store.busy", fault=str(fault))
        _log.error("a turn could not be written", extra=said)
        self._block()
        why = "no space?" if full else "other servers are in the way"
        refused = Failed(Unavailable(f"the server cannot write at the moment ({why}); nothing of this was done"))
        reads = [submission for submission in submissions if submission.reads]
        self._refuse([submission for submission in submissions if not submission.reads], refused)
        self._end_brief_claims(refused)
        if reads:
            await self._attempt(reads, Sweeps(), dispatching=False)

    def _end_brief_claims(self, refused: Failed) -> None:
        """Claims that do not wait are refused; those that wait stay, and time out."""
        for ask in self._dispatch.unanswered(searched=False):
            self._teller.tell(self._dispatch.remove(ask), refused)
        self._dispatch.commit()

    async def _bisect(self, submissions: Sequence[Submission]) -> None:
        """Does the halves apart, without sweeps and claims, until the guilty command is alone; that one is refused."""
        if len(submissions) > 1:
            middle = len(submissions) // 2
            await self._attempt(submissions[:middle], Sweeps(), dispatching=False)
            await self._attempt(submissions[middle:], Sweeps(), dispatching=False)
        elif submissions:
            refused = Failed(Unavailable("the server failed at this request; nothing of it was done"))
            self._refuse(submissions, refused)
        else:
            self._block()  # A sweep or a claim is at fault: what clients say goes on meanwhile.

    def _block(self) -> None:
        """For a while nothing is swept, handed out or tried again by itself."""
        self._blocked_until = self.clock.now() + RETRY_MS

    def _refuse(self, submissions: Sequence[Submission], refused: Failed) -> None:
        """Answers them so; what nobody waits for, but must be done, is kept and tried again."""
        for submission in submissions:
            if submission.must_be_done:
                self._kept.append(submission)
                self._block()
            else:
                self._teller.tell(submission.answer, refused)

    def _unblock(self) -> None:
        self._blocked_until = 0
        self._waiting[:0], self._kept = self._kept, []

    # ── Among other servers ──

    @property
    def _watched(self) -> bool:
        """Whether anybody here would hear at once of what others do."""
        return bool(len(self.hub) or len(self._dispatch))

    def _regroup(self, now: int) -> None:
        """Servers went or came."""
        if self._met is None or self._neighbours is None:
            return
        (alive, newest), self._met = self._met, None
        self._neighbours.meet(alive, now)
        if self.epochs.look(alive, newest, now, self._patience):
            self._leases.regroup()
            self._suspected = True  # What those held that went is read, and looked after from now on.

    async def _look_around(self, now: int) -> None:
        """Takes in what others did, and shows them how it is here."""
        if self._neighbours is None or not self._neighbours.is_due(now, watched=self._watched):
            return
        try:
            await self._neighbours.show(self._teller.sockets, watched=self._watched, now=now)
            news = await self._neighbours.look(now)
            await self._take_in(news, self._neighbours)
        except (StoreAway, StoreBusy, StoreFull):
            self._suspected = True

    async def _take_in(self, news: News, neighbours: Neighbours) -> None:
        await self._show_changed([*self.hub.wanted(news.changed), *self._leases.among(news.changed)], neighbours)
        neighbours.took(news)
        if news.counts:
            self.tally.recount(news.counts)
            self.tally.hear(news.rates, self.clock.now())
            await neighbours.tell(self.tally.own(self.clock.now()))
        if news.paused is not None and news.paused != self.paused:
            self.paused = news.paused
            self._dispatch.look_anew()
        if news.gap:
            self._dispatch.look_anew()
            self.hub.lose_track()
            self._suspected = True
        if news.ready:
            self._dispatch.hear_of(news.ready)
        elif neighbours.any and news.counts:  # Each second.
            self._dispatch.look_again()

    async def _show_changed(self, ids: Sequence[str], neighbours: Neighbours) -> None:
        """Reads these rows, and tells of them as of a turn of this server."""
        left = iter(dict.fromkeys(ids))
        while some := list(islice(left, ROWS_AT_ONCE)):
            rows = await neighbours.shared.rows(some)
            for item_id in some:
                if (lease := self._leases.get(item_id)) is not None:
                    self._teller.tell_of_loss(item_id, lease, rows.get(item_id))
                    self._leases.correct(item_id, rows.get(item_id))
            self._teller.show(rows.values(), [item_id for item_id in some if item_id not in rows], self.clock.now())

    # ── While the database is away ──

    def _leave(self, submissions: Sequence[Submission], away: StoreAway) -> None:
        """The connection broke in a turn. The first time nobody is told yet: it may have been no more than that."""
        if self._outage.doubt is None:
            self._dispatch.rollback()
        if not self._outage.broke(self.clock.now(), self.clock.chance()):
            self._refuse(submissions, Failed(Unavailable(NOT_THERE)))
        elif self._outage.doubt is None:
            self._waiting[:0] = submissions
        self._blocked_until = self._outage.next_at
        self._tell_of_outage(away)

    def _tell_of_outage(self, fault: StoreError) -> None:
        """Once that the connection broke, and once that it cannot be made anew."""
        if self._outage.tries == 1:
            _log.warning("the connection to the database broke", extra=self._said("store.cut", fault=str(fault)))
        elif self._outage.tries == 2:
            _log.error("the database is away", extra=self._said("store.away", fault=str(fault)))

    async def _ask_for_it(self, now: int) -> None:
        """Whether the database is there again, and what became of the turn that is in doubt."""
        self._suspected = False
        if self._outage.down and now < self._outage.next_at:
            return
        try:
            if self._outage.doubt is not None:
                self._settle(self._outage.doubt, committed=await self._store.committed())
            await self._read_all()
        except (StoreAway, StoreBusy, StoreFull) as fault:
            self._outage.broke(now, self.clock.chance())
            self._blocked_until = self._outage.next_at
            self._tell_of_outage(fault)
        except StoreLost as lost:
            self._lose(lost)
        else:
            _log.info("the database is back", extra=self._said("store.back", ms=self._outage.lasts(now)))
            self._outage.back()
            self._unblock()

    def _settle(self, doubt: Doubt, *, committed: bool) -> None:
        """The turn was committed, and all that follows follows now; or nothing was, and it is run again."""
        self._outage.doubt = None
        if committed:
            self._deadlines.swept(doubt.sweeps, doubt.minima, doubt.work.rows.now, pruned=doubt.work.pruned)
            self._after_commit(doubt.work)
        else:
            self._dispatch.rollback()
            self._waiting[:0] = doubt.submissions

    def _inquire(self, ended: Mapping[str, Lease]) -> None:
        """What became of leases that ended without a turn of this engine: the next one tells their sockets."""
        asked = {item_id: lease for item_id, lease in ended.items() if self._teller.hears(lease.holder)}
        if asked:
            self.submit(Read(tuple(asked)), partial(self._tell_of_losses, asked))

    def _tell_of_losses(self, asked: Mapping[str, Lease], outcome: Outcome) -> None:
        found = outcome if isinstance(outcome, Found) else Found()
        for item_id in asked.keys() - set(found.left):
            self._teller.tell_of_loss(item_id, asked[item_id], found.items.get(item_id))
        self._inquire({item_id: asked[item_id] for item_id in found.left})

    def _wait_for_it(self, now: int) -> None:
        """What needs no database goes on. While a turn is in doubt, that is nothing: claims may be in it."""
        refused, in_doubt = Failed(Unavailable(NOT_THERE)), self._outage.doubt is not None
        said, self._waiting = self._waiting, []
        for each in said:
            if isinstance(each.command, Withdraw) and not in_doubt:
                self._end_claims(self._dispatch.withdraw(each.command.holder, each.command.ask))
                self._teller.tell(each.answer, Done())
            else:
                self._refuse([each], refused)
        self._blocked_until = self._outage.next_at
        if not in_doubt:
            self._end_claims(self._dispatch.end(now))
            self._end_brief_claims(refused)

    def _end_claims(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._teller.tell(answer, Empty())

    async def _maintain(self) -> None:
        try:
            await self._store.maintain()
        except StoreFull as full:
            _log.warning("the log was not written back", extra=self._said("store.behind", fault=str(full)))
        except StoreAway:
            self._suspected = True
        except StoreLost as lost:
            self._lose(lost)

    def _lose(self, lost: StoreLost) -> None:
        _log.critical("the store is lost", extra=self._said("store.lost", fault=str(lost)))
        self._lost = lost
        self._on_lost(lost)
