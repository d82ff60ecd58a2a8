"""The engine of one queue: it gathers what is said while the last commit runs, and does it in one turn after another.

Its task is the only one that runs turns, and nobody cancels it. An answer is given after the commit that it speaks of,
never before. Here is when a turn runs, and what happens when it fails; what a turn does is in `turn.py`, what is over
in `deadlines.py`, who is told of it in `teller.py`. While its store cannot write, `shortage.py` says what follows, and
`outage.py` while it cannot be reached; where other servers share it, `surroundings.py` takes in what they did.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from leaseway_server.core.commands import Answer, Command, Drop, Failed, Outcome, Withdraw
from leaseway_server.core.dispatch import AGAIN_MS, Dispatch
from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost, Unavailable
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.backlog import Backlog
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.deadlines import TICK_MS, Deadlines
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.hub import Hub
from leaseway_server.runtime.leases import Leases
from leaseway_server.runtime.looking import Looking, index_members
from leaseway_server.runtime.losses import Losses
from leaseway_server.runtime.neighbours import Neighbours
from leaseway_server.runtime.observer import Gauges, Nobody, Observer
from leaseway_server.runtime.outage import REFUSED, Doubt, Outage
from leaseway_server.runtime.shortage import Shortage
from leaseway_server.runtime.submission import Submission, nobody
from leaseway_server.runtime.surroundings import Surroundings
from leaseway_server.runtime.tally import Tally
from leaseway_server.runtime.teller import OnLoss, Teller
from leaseway_server.runtime.turn import Sweeps, TurnWork
from leaseway_server.store.base import Store

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
        times = (clock.steady(), clock.stepped, ping_timeout, queue.policy.dedupe_window)
        self._deadlines = Deadlines(self._dispatch, self._leases, *times)
        self.tally = Tally({})
        self.paused = False
        """Whether claims find nothing, as it was committed."""
        self._holders = count(1)
        self._backlog = Backlog(self._teller)
        self._outage = Outage(queue.name, clock, self._backlog, self._dispatch, self._teller)
        self._shortage = Shortage(queue.name, clock, self._backlog, self._dispatch, self._teller)
        self._losses = Losses(self._leases, self._teller, self.submit)
        self.surroundings = self._among(neighbours) if neighbours else None
        """What it knows of other servers; None where nobody can share its store."""
        self._grace = resume_grace
        self._claims_open = True
        self._stopping = False
        self._lost: StoreLost | None = None

    def _among(self, neighbours: Neighbours) -> Surroundings:
        memory = (self.epochs, self._leases, self._losses, self._dispatch, self.hub, self._teller, self.tally)
        return Surroundings(neighbours, self._backlog.event.set, self.clock, *memory)

    # ── What the web asks ──

    def new_holder(self) -> int:
        """A number for a new socket, never given out before."""
        return self.epochs.holder(next(self._holders))

    def tell_losses(self, holder: int, on_loss: OnLoss | None) -> None:
        """From now on `on_loss(id, reason)` is told when this socket loses an item that it holds; None ends it."""
        self._teller.tell_losses(holder, on_loss)

    def submit(self, command: Command, answer: Answer = nobody) -> None:
        """Has the command done in the next turn. `answer` is told each outcome, after the commit."""
        if isinstance(command, Drop) and self.deserted:
            self.epochs.send_away(command.holder)
            command = Withdraw(command.holder)  # It is this server that sends its workers away: that is no loss.
        elif isinstance(command, Drop) and not self._claims_open:
            command = Withdraw(command.holder)  # On a planned stop nothing is requeued (§6).
        self._backlog.put(Submission(command, answer))

    def stamp(self, item_id: str, rev: int) -> None:
        """A producer was told the item's end, by the view `rev`.

        It is noted with a turn that is synced anyway, or after a second: nobody is to wait for a sync of it alone.
        """
        self._deadlines.stamp(item_id, rev, self.clock.steady())

    @property
    def workers(self) -> int:
        """How many sockets of workers are open, on all servers: those that can be told of losses."""
        return self._teller.sockets + self.workers_elsewhere

    @property
    def workers_elsewhere(self) -> int:
        """How many of them are open on other servers."""
        return self.surroundings.neighbours.workers if self.surroundings else 0

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
        return self._lost is None and not self._backlog.blocked_until

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
        return self._outage.lasts > self._grace

    def suspect(self) -> None:
        """The store may be away: the next step sees."""
        self._outage.suspected = True
        self._backlog.event.set()

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
        if self.surroundings is not None:
            await self.surroundings.begin()
        await self._read_all()

    async def _read_all(self) -> None:
        """Takes into memory what is kept there of the store."""
        leases = await self._store.leases()
        counts, paused = await self._store.counts(), await self._store.paused()
        async with self._store.turn(durable=True) as turn:
            minima = await self._deadlines.reread(turn, Sweeps(due=True, expiry=True, keys=True))
        anew = self._deadlines.stepped_lately(self.clock.steady())
        self._losses.inquire(self._leases.restore(leases, anew=anew))
        self.tally.recount(counts)
        self.paused, self._deadlines.minima = paused, minima

    async def run(self) -> None:
        """Runs turns until `stop`, or until the store is lost."""
        while not (self._stopping and not self._backlog.waiting) and self._lost is None:
            await self._wait()
            await self.step()

    def stop(self) -> None:
        """`run` ends after the turn that does what is waiting now."""
        self._stopping = True
        self._backlog.event.set()

    async def step(self) -> None:
        """One turn with all that waits and all that is over. Does nothing where there is nothing."""
        now = self.clock.steady()
        self._deadlines.look(now, self.clock.stepped)
        self._backlog.event.clear()
        if self.surroundings is not None:
            self._outage.suspected |= self.surroundings.regroup(self._grace)
        if self._outage.down or self._outage.suspected:
            await self._find_back()
        if self._outage.down:
            return
        if self._backlog.blocked_until and now >= self._backlog.blocked_until:
            self._backlog.unblock()
        if self.surroundings is not None:
            await self._look_around(self.surroundings)
        submissions = self._backlog.take()
        sweeps = self._sweeps(now, submissions)
        if submissions or sweeps != Sweeps() or self._searching:
            await self._attempt(submissions, sweeps, dispatching=self._claims_open and not self._backlog.blocked_until)
            await self._maintain()

    async def _look_around(self, surroundings: Surroundings) -> None:
        try:
            news = await surroundings.look_around()
        except (StoreAway, StoreBusy, StoreFull):
            self._outage.suspected = True
            return
        except StoreLost as lost:
            self._lose(lost)
            return
        if news is None:
            return
        self._outage.suspected |= news.gap or news.adrift
        if news.paused is not None and news.paused != self.paused:
            self.paused = news.paused
            self._dispatch.look_anew()

    async def _find_back(self) -> None:
        """Where the database is away: asks for it, and else has everybody wait."""
        lasted = self._outage.lasts
        try:
            await self._outage.end(self._store.committed, self._settle, self._read_all)
        except StoreLost as lost:
            self._lose(lost)
            return
        if self._outage.down:
            self._outage.wait()
        elif lasted > TICK_MS:
            self._forgive(self.clock.steady())

    def _forgive(self, now: int) -> None:
        """The database was away: what nobody could say meanwhile may be said now, before it counts as not said."""
        self.epochs.store_back(now + self._deadlines.stepped + self._grace)
        self._leases.regroup()
        self._deadlines.be_patient(now)

    def _settle(self, doubt: Doubt) -> None:
        """The turn that was in doubt is committed."""
        self._deadlines.swept(doubt.sweeps, doubt.minima, doubt.work)
        self._after_commit(doubt.work)

    async def _wait(self) -> None:
        if self._backlog.waiting:
            await asyncio.sleep(0)
        elif self._searching or (deadline := self._next_deadline()) <= self.clock.steady():
            await self._let_others_speak()
        else:
            await self.clock.wait(self._backlog.event, deadline)

    async def _let_others_speak(self) -> None:
        """Between two turns of what nobody said just now, such as a search: whoever is about to say something may."""
        for _ in range(PASSES):
            await asyncio.sleep(0)
            if self._backlog.waiting:
                break

    @property
    def _searching(self) -> bool:
        return self._claims_open and not self.paused and not self._backlog.blocked_until and self._dispatch.searching

    def _next_deadline(self) -> int:
        if self.surroundings is not None and not self._outage.down and self.surroundings.due:
            return self.clock.steady()
        return self._deadlines.next(self._backlog.blocked_until, self.tally.ended)

    def _sweeps(self, now: int, submissions: Sequence[Submission]) -> Sweeps:
        if self._backlog.blocked_until:
            return self._deadlines.over_while_blocked(now)
        # Stamps go with a turn that is synced anyway; one that stops waits for no other.
        synced = bool(self._deadlines.stamps) and (self._stopping or any(each.writes for each in submissions))
        return self._deadlines.over(now, self.tally.ended, synced=synced)

    # ── One attempt, and what happens when it fails ──

    async def _attempt(self, submissions: Sequence[Submission], sweeps: Sweeps, *, dispatching: bool) -> None:
        if self._lost is not None:
            return  # Nothing that comes after the doubtful commit may be done or answered.
        if self._outage.down:
            self._backlog.refuse(submissions, REFUSED, for_now=True)
            return
        try:
            work = await self._shortage.undisturbed(lambda: self._turn(submissions, sweeps, dispatching=dispatching))
        except (StoreFull, StoreBusy) as fault:
            self._dispatch.rollback()
            wrote = dispatching or sweeps != Sweeps() or not all(each.reads for each in submissions)
            if reads := self._shortage.begin(submissions, fault, wrote=wrote):
                await self._attempt(reads, Sweeps(), dispatching=False)
        except StoreAway as away:
            self._outage.begin(submissions, away)
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
        looked_at = self.clock.steady()
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
        self._deadlines.swept(sweeps, minima, work)
        self._deadlines.agree(looked_at, work.rows.now)
        return work

    def _after_commit(self, work: TurnWork) -> None:
        self._outage.over()
        self._dispatch.commit()
        changes = work.rows.changes
        self._leases.update(after for _, after in changes)
        for item_id in work.presumed:
            self._leases.correct(item_id, work.rows.get(item_id))
        self._leases.put_off(work.put_off, work.rows.now + AGAIN_MS)
        self.tally.take(work.rows.more, changes, work.rows.now)
        self.paused = work.paused
        self._deadlines.include(changes)
        for each in work.unfinished:
            self.submit(each.command, each.answer)
        if self.surroundings is not None and (changes or work.rows.gone()):
            self.surroundings.neighbours.turned()
        self._teller.committed(work, changes)
        self._teller.tell(self._observer.changed, changes)

    def _said(self, event: str, **more: object) -> dict[str, object]:
        """What a line of the log says beside its text."""
        return {"event": event, "queue": self.queue.name, **more}

    async def _bisect(self, submissions: Sequence[Submission]) -> None:
        """Does the halves apart, without sweeps and claims, until the guilty command is alone; that one is refused."""
        if len(submissions) > 1:
            middle = len(submissions) // 2
            await self._attempt(submissions[:middle], Sweeps(), dispatching=False)
            await self._attempt(submissions[middle:], Sweeps(), dispatching=False)
        elif submissions:
            refused = Failed(Unavailable("the server failed at this request; nothing of it was done"))
            self._shortage.refuse(submissions, refused)
        else:
            self._shortage.block()  # A sweep or a claim is at fault: what clients say goes on meanwhile.

    async def _maintain(self) -> None:
        try:
            await self._store.maintain()
        except StoreFull as full:
            _log.warning("the log was not written back", extra=self._said("store.behind", fault=str(full)))
        except (StoreAway, StoreBusy):
            self._outage.suspected = True
        except StoreLost as lost:
            self._lose(lost)

    def _lose(self, lost: StoreLost) -> None:
        _log.critical("the store is lost", extra=self._said("store.lost", fault=str(lost)))
        self._lost = lost
        self._on_lost(lost)
