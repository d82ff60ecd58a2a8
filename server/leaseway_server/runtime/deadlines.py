"""All deadlines of one queue meet here: what is over by now, and when the engine has to look again.

Claims and leases know their own ends. Of due times, lives and keys only the earliest is kept, and re-read from the
store's index after a slice of them was swept: no timer an item, no sweeper with an interval. What is in rows is over by
the store's clock, all else by the engine's, which no step of the store's moves (`Clock.steady`). Times are ms since the
epoch; 0 is never.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.dispatch import AGAIN_MS, Dispatch
from leaseway_server.core.keys import swept_at
from leaseway_server.core.model import Changes, Item
from leaseway_server.runtime.leases import AT_ONCE, Leases
from leaseway_server.runtime.retention import LOOK_MS
from leaseway_server.runtime.turn import SLICE, Sweeps, TurnWork
from leaseway_server.store.base import Turn

LATE_MS: Final = 1_500
"""A look at the deadlines that comes so much too late means that the process itself stood still."""
LATELY_MS: Final = 5_000
"""So long after a step of the store's clock, what other servers leased may not count anew yet."""
TICK_MS: Final = 1_000
"""The engine looks up at least so often: stamps wait no longer, and a pause of the process is noticed by it."""


@dataclass(slots=True)
class Minima:
    """When the next row comes due, when the next life is over, when the item was posted whose key passes next."""

    due: int = 0
    expiry: int = 0
    key: int = 0

    def include(self, item: Item) -> None:
        """The item was saved so."""
        if item.status == "pending" and not item.ready:
            self.due = _earlier(self.due, item.due_at)
        if item.expires_at and not item.terminal:
            self.expiry = _earlier(self.expiry, item.expires_at)
        if item.held and item.terminal:
            self.key = _earlier(self.key, item.posted_at)


class Deadlines:
    """What one queue's engine has to do by itself, and when. `ping_timeout`: so long (ms) a live socket may be mute;
    `stepped`: by how much the store's clock was set before now."""

    def __init__(
        self, dispatch: Dispatch, leases: Leases, now: int, stepped: int, ping_timeout: int, dedupe_window: int
    ) -> None:
        self.minima = Minima()
        self.dedupe_window = dedupe_window
        """So long (ms) an ended item's key is held after its post; it may change at any time."""
        self.stamps: dict[str, int] = {}
        """Ends that producers were told, and that is not noted yet: id to `rev`."""
        self._dispatch = dispatch
        self._leases = leases
        self._ping_timeout = ping_timeout
        self._stamps_due = 0
        self._prune_at = now + stepped
        self._looked_at = now
        self._patient_until = 0
        self._rest_until = 0
        """No rows are swept before, since other servers have those in hand that are over."""
        self.stepped = stepped
        """By how much (ms) the store's clock was set, as far as it was taken in here."""
        self._stepped_at: int | None = None
        self._ahead = 0
        """So much (ms) the engine's clock is ahead of the store's, besides, by which rows are over."""

    def agree(self, looked_at: int, store_now: int) -> None:
        """A turn that began at `looked_at` was told by the store that it was `store_now`, later on."""
        self._ahead = max(0, looked_at + self.stepped - store_now)

    def stepped_lately(self, now: int) -> bool:
        """Whether it was set so lately that other servers may not have taken it in yet."""
        return self._stepped_at is not None and now < self._stepped_at + LATELY_MS

    def stamp(self, item_id: str, rev: int, now: int) -> None:
        """A producer was told the item's end, by the view `rev`."""
        if not self.stamps:
            self._stamps_due = now + TICK_MS
        self.stamps[item_id] = rev

    def look(self, now: int, stepped: int) -> None:
        """A step begins. Where the process itself stood still, live sockets are asked before their leases are swept
        (§7.3); where the store's clock was set, by `stepped` in all, leases count anew (§7.6)."""
        if stepped != self.stepped:
            self._step(stepped, now)
        if now - self._looked_at > TICK_MS + LATE_MS:
            self.be_patient(now)
        self._looked_at = now
        self._dispatch.come_back(self._rows_now(now))

    def _step(self, stepped: int, now: int) -> None:
        by = stepped - self.stepped
        self.stepped, self._stepped_at = stepped, now
        self._ahead, self._rest_until, self._prune_at = 0, 0, now + stepped
        self._dispatch.shift(by, now + stepped)
        self._leases.shift(by)

    def be_patient(self, now: int) -> None:
        """Nobody could renew until now: no lease is swept before live sockets had the time to."""
        self._patient_until = now + self._ping_timeout

    def next(self, blocked_until: int, ended: int) -> int:
        """When to look again. Before `blocked_until` only claims end; `ended`: how many items there are to prune."""
        ends = [self._looked_at + TICK_MS, blocked_until]
        row_ends = self._row_ends(ended, blocked=blocked_until > 0)
        ends += [end - self.stepped + self._ahead for end in row_ends if end]
        return min(end for end in ends if end)

    def _rows_now(self, now: int) -> int:
        """What the store's clock says, as far as is known."""
        return now + self.stepped - self._ahead

    def _row_ends(self, ended: int, *, blocked: bool) -> Iterator[int]:
        """The ends by the store's clock: of claims, and unless `blocked` of what is in rows; 0 is none."""
        yield self._dispatch.next_end()
        if not blocked:
            yield self._dispatch.next_back
            for end in (self.minima.due, self.minima.expiry, self._key_end):
                yield max(end, self._rest_until) if end else 0
            yield self._prune_at if ended else 0
            yield max(self._leases.next_end(), self._rows_now(self._patient_until)) if len(self._leases) else 0

    def over(self, now: int, ended: int, *, synced: bool) -> Sweeps:
        """What is over. `ended` as in `next`; `synced`: stamps are noted, though they might wait a little longer."""
        rows_now = self._rows_now(now)
        rested = rows_now >= self._rest_until
        return Sweeps(
            claims=self._claims_over(rows_now),
            leases=self._leases.over(rows_now if now >= self._patient_until else AT_ONCE, SLICE),
            due=rested and 0 < self.minima.due <= rows_now,
            expiry=rested and 0 < self.minima.expiry <= rows_now,
            keys=rested and 0 < self._key_end <= rows_now,
            told=tuple(self.stamps.items()) if synced or now >= self._stamps_due else (),
            prune=self._prune_at <= rows_now and ended > 0,
        )

    def over_while_blocked(self, now: int) -> Sweeps:
        """What is over of that which needs no writing."""
        return Sweeps(claims=self._claims_over(self._rows_now(now)))

    @property
    def _key_end(self) -> int:
        return swept_at(self.minima.key, self.dedupe_window) if self.minima.key else 0

    def _claims_over(self, now: int) -> bool:
        return 0 < self._dispatch.next_end() <= now

    async def reread(self, turn: Turn, sweeps: Sweeps) -> Minima:
        """The minima once these sweeps are done; they are taken in by `swept`, when that is committed."""
        return Minima(
            await turn.next_due() if sweeps.due else self.minima.due,
            await turn.next_expiry() if sweeps.expiry else self.minima.expiry,
            await turn.oldest_passing_key() if sweeps.keys else self.minima.key,
        )

    def swept(self, sweeps: Sweeps, minima: Minima, work: TurnWork) -> None:
        """These sweeps were committed, in this turn."""
        self.minima, now = minima, work.rows.now
        ends = ((sweeps.due, minima.due), (sweeps.expiry, minima.expiry), (sweeps.keys, self._key_end))
        if work.all_free and any(swept and 0 < end <= now for swept, end in ends):
            self._rest_until = now + AGAIN_MS
        if sweeps.prune:
            self._prune_at = now + (0 if work.pruned else LOOK_MS)
        if sweeps.keys:
            self._prune_at = now  # What held a key until now may have outstayed its time long ago.
        for item_id, rev in sweeps.told:
            if self.stamps[item_id] == rev:
                del self.stamps[item_id]

    def include(self, changes: Changes) -> None:
        """These changes were committed."""
        for _, after in changes:
            self.minima.include(after)


def _earlier(one: int, other: int) -> int:
    """The earlier of two times."""
    return min(one, other) if one and other else one or other
