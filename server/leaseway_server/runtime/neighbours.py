"""What other servers do to one queue, and what they are told of this one. Hints say when to look, the store what is so.

Each server's turns are numbered, and are read in their order: nothing is missed, however late a hint comes. Where turns
are missing (this server stood still for so long that they were removed) that is told as a `gap`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leaseway_server.core.model import Status
from leaseway_server.runtime.tally import MINUTE_MS, MINUTES, Minute
from leaseway_server.store.shared import SharedQueue

LOOK_MS: Final = 1_000
"""Without a hint, others are looked at so often."""
WATCHED_MS: Final = 10_000
"""So long after the last claim or watcher left, others still hint at what they do: the next ones come soon."""
ANNOUNCED_MS: Final = 60_000
"""So long after the last other server was seen, turns still say what they changed: it may only have stood still."""
NOTHING: Final = (0, False)
"""What is shown of a server at first: no workers, and nobody who watches."""
TURNED: Final = "turned"
WATCHES: Final = "watches"

Send = Callable[[str], None]
"""Has a hint of this queue sent to all servers: `TURNED` or `WATCHES`."""


@dataclass(slots=True)
class News:
    """What is new of a queue. `gap`: and more than that, which cannot be told any more."""

    changed: dict[str, None] = field(default_factory=dict)
    ready: dict[str, None] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    """What ended meanwhile, and who had posted it."""
    counts: dict[Status, int] = field(default_factory=dict)
    """How many items there are on all servers; empty where that was not looked at."""
    paused: bool | None = None
    """Whether the queue is paused; None where that was not looked at."""
    rates: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """What happened in the newest minutes elsewhere."""
    gap: bool = False
    adrift: bool = False
    """Whether any of it was done by a server that is not alive: what it leaves is for the others to look after."""
    seen: dict[int, int] = field(default_factory=dict)
    """The last turn of each server, once all of this is taken in."""


class Neighbours:
    """The other servers of one queue."""

    def __init__(self, shared: SharedQueue, epoch: int, send: Send) -> None:
        self.shared = shared
        self.workers = 0
        """How many are connected to the others."""
        self._epoch = epoch
        self._send = send
        self._seen: dict[int, int] = {}
        self._alive: frozenset[int] = frozenset()
        self._watching: set[int] = set()
        self._announced_until = 0
        self._watched_until = 0
        self._shown = NOTHING
        self._told: dict[int, tuple[int, ...]] = {}
        self._look_at = 0
        self._rest_until = 0
        self._hinted = False

    # ── Who is there ──

    def around(self, now: int) -> bool:
        """Whether there are others, or were of late: one that stands still has its hand on rows for a while."""
        return now < self._announced_until

    def meet(self, alive: frozenset[int], now: int) -> None:
        """These others are alive."""
        self._alive = alive
        if alive:
            self._announced_until = now + ANNOUNCED_MS
        self.shared.announce(self.around(now))

    async def begin(self, now: int) -> dict[int, Sequence[int]]:
        """Before the first turn: what was done until here is no news. Gives what happened in the last hour."""
        _, shares = await self.shared.look()
        self._seen = {share.server: share.turn for share in shares}
        return await self.shared.rates(now - MINUTES * MINUTE_MS)

    # ── Hints ──

    def hint(self, server: int, what: str) -> None:
        """Another server said so."""
        if what == WATCHES:
            self._watching.add(server)
        self._hinted = True

    def suspect(self) -> None:
        """Hints may have been missed."""
        self._hinted = True

    def turned(self) -> None:
        """A turn was committed: who watches elsewhere is told."""
        if not self._watching.isdisjoint(self._alive):
            self._send(TURNED)

    # ── To look, and to be seen ──

    def is_due(self, now: int, *, watched: bool) -> bool:
        """Whether to look now. `watched`: somebody here watches or waits."""
        due = self._hinted or _is_time(self._look_at, now) or (watched and not self._shown[1])
        return due and _is_time(self._rest_until, now)

    def rest(self, now: int) -> None:
        """The store could not do what was asked, though it is there: nothing is due for a while."""
        self._rest_until = now + LOOK_MS

    async def look(self, now: int) -> News:
        """What is new since the last time: after a hint only what was done, each second also how it stands."""
        hinted, self._hinted = self._hinted, False
        news = News()
        if _is_time(self._look_at, now):
            self._look_at = now + LOOK_MS
            await self._read(await self._read_shares(news), news)
            news.rates = await self.shared.rates(now - 2 * MINUTE_MS)
        elif hinted:
            await self._read({server: self._seen.get(server, 0) for server in self._alive}, news)
        return news

    async def _read_shares(self, news: News) -> dict[int, int]:
        """How it stands. Gives the last turn of each other server."""
        news.paused, shares = await self.shared.look()
        for share in shares:
            for status, number in share.counts.items():
                news.counts[status] = news.counts.get(status, 0) + number
        # Whoever said nothing for long was forgotten by the others, with what it had shown: it is shown anew.
        self._shown = next(((each.workers, each.watched) for each in shares if each.server == self._epoch), NOTHING)
        others = [share for share in shares if share.server in self._alive]
        self.workers = sum(share.workers for share in others)
        self._watching = {share.server for share in others if share.watched}
        return {share.server: share.turn for share in shares if share.server not in (0, self._epoch)}

    def took(self, news: News) -> None:
        """All of it was taken in."""
        self._seen |= news.seen

    async def _read(self, last: dict[int, int], news: News) -> None:
        """Reads the turns up to the `last` of each server, and sees whether any is missing between."""
        known = {server: self._seen.get(server, 0) for server in last}
        behind = {server: seen for server, seen in known.items() if seen < last[server] or server in self._alive}
        for each in await self.shared.changes(behind) if behind else ():
            news.gap |= each.turn != news.seen.get(each.server, behind[each.server]) + 1
            news.seen[each.server] = each.turn
            news.adrift |= each.server not in self._alive
            news.changed.update(dict.fromkeys(each.changed))
            news.ready.update(dict.fromkeys(each.ready))
            news.ended.update(each.ended)
        for server, seen in behind.items():
            read = news.seen.get(server, seen)
            news.gap |= read < last[server]
            news.seen[server] = max(read, last[server])

    async def show(self, workers: int, *, watched: bool, now: int) -> None:
        """Shows others how it is here, where that is news; that somebody waits, at once."""
        if watched:
            self._watched_until = now + WATCHED_MS
        shown = (workers, now < self._watched_until)
        if shown == self._shown:
            return
        await self.shared.show(workers, watched=shown[1])
        if shown[1] and not self._shown[1]:
            self._send(WATCHES)
        self._shown = shown

    async def tell(self, minutes: Sequence[Minute]) -> None:
        """So much happened here: told where that is news. Of quiet minutes there is nothing to tell."""
        told = {each.at: each.figures() for each in minutes if any(each.figures())}
        if told and told != self._told:
            await self.shared.count(told)
            self._told = told


def _is_time(at: int, now: int) -> bool:
    """Whether what is less than `LOOK_MS` ahead has come; also where the clock was set back meanwhile."""
    return not at - LOOK_MS <= now < at
