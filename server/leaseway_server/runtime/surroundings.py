"""What other servers did to a queue, taken in as a turn of this one: told to who watches, offered to who waits.

It happens between the turns, by the engine's own task, so that what is read is never older than what was told.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import StoreBusy, StoreFull
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.epochs import Epochs
from leaseway_server.runtime.hub import Hub
from leaseway_server.runtime.leases import Leases
from leaseway_server.runtime.losses import Losses
from leaseway_server.runtime.neighbours import Neighbours, News
from leaseway_server.runtime.tally import Tally
from leaseway_server.runtime.teller import Teller

ROWS_AT_ONCE: Final = 250
"""So many rows that others changed are read at a time."""


class Surroundings:
    """One engine among those of other servers. `wake` has it look up."""

    def __init__(
        self,
        neighbours: Neighbours,
        wake: Callable[[], None],
        clock: Clock,
        epochs: Epochs,
        leases: Leases,
        losses: Losses,
        dispatch: Dispatch,
        hub: Hub,
        teller: Teller,
        tally: Tally,
    ) -> None:
        self.neighbours = neighbours
        self._wake = wake
        self._clock = clock
        self._epochs = epochs
        self._leases = leases
        self._losses = losses
        self._dispatch = dispatch
        self._hub = hub
        self._teller = teller
        self._tally = tally
        self._met: tuple[frozenset[int], int] | None = None

    @property
    def due(self) -> bool:
        """Whether there is something to look at, or to show."""
        return self.neighbours.is_due(self._clock.now(), watched=self._watched)

    @property
    def _watched(self) -> bool:
        """Whether anybody here would hear at once of what others do."""
        return bool(len(self._hub) or len(self._dispatch))

    def meet(self, alive: frozenset[int], newest: int) -> None:
        """These are the other servers that are alive, and the latest epoch that ever began."""
        self._met = alive, newest
        self._wake()

    def hint(self, server: int, what: str) -> None:
        """Another server hints at something of this queue."""
        self.neighbours.hint(server, what)
        self._wake()

    def suspect(self) -> None:
        """Hints may have been missed."""
        self.neighbours.suspect()
        self._wake()

    async def begin(self) -> None:
        """Before the first turn."""
        now = self._clock.now()
        if self._met is not None:
            self._epochs.begin_among(*self._met)
            self.neighbours.meet(self._met[0], now)
            self._met = None
        self._tally.hear(await self.neighbours.begin(now), now)

    def regroup(self, grace: int) -> bool:
        """Servers went or came. Gives whether leases are to be read: those that went left theirs to this one, too."""
        if self._met is None:
            return False
        (alive, newest), self._met = self._met, None
        now = self._clock.now()
        self.neighbours.meet(alive, now)
        if not self._epochs.look(alive, newest, now, grace):
            return False
        self._leases.regroup()
        return True

    async def look_around(self) -> News | None:
        """Takes in what others did, and shows them how it is here; nothing where nothing is due."""
        if not self.due:
            return None
        try:
            return await self._look()
        except (StoreBusy, StoreFull):
            self.neighbours.rest(self._clock.now())
            raise

    async def _look(self) -> News:
        await self.neighbours.show(self._teller.sockets, watched=self._watched, now=self._clock.now())
        news = await self.neighbours.look(self._clock.now())
        await self._tell_of([*self._hub.wanted(news.changed), *self._leases.among(news.changed)], news.ended)
        if news.gap:
            self._dispatch.look_anew()
            self._hub.lose_track()
        if news.ready:
            self._dispatch.hear_of(news.ready)
        self.neighbours.took(news)
        if news.counts:
            await self._count(news)
        return news

    async def _count(self, news: News) -> None:
        """Each second."""
        now = self._clock.now()
        self._tally.recount(news.counts)
        self._tally.hear(news.rates, now)
        await self.neighbours.tell(self._tally.own(now))
        if self.neighbours.around(now):
            self._dispatch.look_again()

    async def _tell_of(self, ids: Sequence[str], ended: Mapping[str, str]) -> None:
        """Reads these rows, and tells of them. `ended`: those that ended, and by whom they were posted."""
        left = iter(dict.fromkeys(ids))
        while some := list(islice(left, ROWS_AT_ONCE)):
            rows = await self.neighbours.shared.rows(some)
            for item_id in some:
                self._losses.see(item_id, rows.get(item_id))
            gone = [item_id for item_id in some if item_id not in rows]
            missed = {ended[item_id] for item_id in gone if item_id in ended}
            self._teller.show(rows.values(), gone, missed, self._clock.now())
