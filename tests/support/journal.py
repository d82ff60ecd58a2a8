"""Whether what a queue said and what it stored can be right: the invariants I1 to I8, after every turn.

Judged from the record and the rows alone; nothing of `lifecycle.py`, `dispatch.py` or `turn.py` is asked here.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from leaseway_server.core.lifecycle import Policy
from leaseway_server.core.model import Item
from support.record import SEEN, Record, meets
from support.side import GRACE, Said, Who

_TERMINAL: Final = frozenset({"finished", "failed", "dead", "cancelled", "expired"})
_SHOWN: Final = (
    *("status", "attempts", "failures", "losses", "progress", "result", "error", "worker"),
    *("rank", "due_at", "started_at", "finished_at", "expires_at", "meta", "max_attempts"),
)
"""What a view shows, apart from what never changes, and from the times and numbers of the change itself."""
_SOCKETS: Final = 2
"""`Item.holder` of the first socket; below are nobody and HTTP."""


class Journal(Record):
    """One program's record, and its judge. `churn` is how often an item may go round."""

    def __init__(self, policy: Policy, churn: int) -> None:
        super().__init__(policy)
        self.churn = churn
        self._blocked = False
        self._unsure: set[str] = set()
        """Items whose report's answer was on its way when the socket dropped, behind a claim that waited for space."""
        self._started_at = self._grace_until = 0
        self._epoch = 0

    def started(self, now: int, epoch: int, rows: Sequence[Item]) -> None:
        """The server has begun, perhaps again: no socket stands, and what it had not answered is unknown."""
        self.sockets.clear()
        self.claims.clear()
        self._spoken.clear()
        self._told.clear()
        self._told_as_mine.clear()
        self._answered.clear()
        self._dropped.clear()
        self.rows = {row.id: row for row in rows}
        assert self._posted <= self.rows.keys(), "I1: a post that was acknowledged is gone"
        for name, row in self.rows.items():
            assert row.attempts - self._attempts.get(name, 0) in (0, 1), "I4"
            self._attempts[name] = row.attempts
            assert row.status == "finished" or name not in self._finished, "an accepted result is gone"
            self._learn(row)
        if self._epoch:
            self._grace_until = now + GRACE
        self._started_at, self._epoch = now, epoch

    def _learn(self, row: Item) -> None:
        """The row says what an answer did not."""
        if row.status == "finished":
            self._finished.setdefault(row.id, None)
        elif row.status == "failed":
            self._permanent.add(row.id)

    def heard(self, heard: dict[Who, list[Said]], rows: Sequence[Item], now: int, *, blocked: bool) -> None:
        """The answers of the turns that were just run, and the rows after them. `blocked`: there was no space."""
        self.heard_at_last(heard, now)
        before, self.rows = self.rows, {row.id: row for row in rows}
        for name in before:
            self._check_step(before[name], self.rows[name])
        if not blocked:  # Else a claim that waits for space may hold up the answers of its socket.
            self._check_rest(before, now)
            for forget in (self._dropped, self._unclaimed, self._resumed, self._cancels, self._ended):
                forget.clear()
            self._by_holder.clear()
            self._touched.clear()
        self._blocked = blocked
        self._retried.clear()

    # ── What must hold ──

    def _check_results(self) -> None:
        for name, fence in self._finished.items():
            assert fence in (None, self._attempts.get(name, 0)), "I3: a result past its fence was accepted"

    def _check_row(self, row: Item) -> None:
        name = row.id
        assert row.attempts == self._attempts.get(name, 0), "I4: a claim that nobody was told of"
        assert (row.status == "finished") == bool(row.result)
        if name in self._unsure:
            self._learn(row)
        assert (row.status == "finished") == (name in self._finished)
        assert (row.status in _TERMINAL) == (row.finished_at > 0)
        assert row.failures <= row.max_attempts, "I8"
        assert row.losses <= self.policy.max_losses, "I8"
        claims = row.attempts - row.attempts_base
        assert row.failures + row.losses <= claims - (row.ending == "open"), "an attempt was charged twice"
        if row.status == "failed":
            assert name in self._permanent, "I8: failed without a permanent fail"
        elif row.status == "dead":
            spent = row.failures == row.max_attempts or row.losses == self.policy.max_losses
            assert spent or claims >= self.churn, "I8: dead with budget left"
        elif row.status not in _TERMINAL:
            assert claims < self.churn or (claims == self.churn and row.status == "processing"), "it goes round"
            assert row.failures < row.max_attempts, "I8: alive without budget"
            assert row.losses < self.policy.max_losses, "I8: alive without budget"
        if row.status != "processing":
            assert (row.holder, row.lease_until) == (0, 0)

    def _check_step(self, before: Item, row: Item) -> None:
        assert row.rev >= before.rev, "I5"
        assert row.updated_at >= before.updated_at
        assert row.attempts >= before.attempts
        assert row.body == before.body
        if any(getattr(before, name) != getattr(row, name) for name in _SHOWN):
            assert row.rev > before.rev, "I6: it changed, and nobody could see that"
        if before.status in _TERMINAL and row.id not in self._retried:
            assert (row.status, row.rev) == (before.status, before.rev), "I5: an end that was none"

    def _check_cause(self, before: Item, row: Item) -> None:
        """A refused message changes nothing, and nothing changes by itself but with the time and with sockets."""
        if row.rev != before.rev and row.id not in self._touched:
            by_itself = row.ending in ("lost", "parted") or row.status == "expired"
            assert by_itself or row.id in self._unsure, "it changed, and nothing was accepted"

    def _check_taken_away(self, before: Item, row: Item, now: int) -> None:
        """No live lease ends before its time."""
        if before.status != "processing" or row.attempts != before.attempts or row.id in self._resumed:
            return
        orphan = self._orphaned(before)
        if row.ending == "parted":
            assert orphan
            assert now >= self._grace_until, "parted before the end of the grace"
        elif row.ending == "lost":
            assert not orphan, "a lease from before the start was charged"
            gone = before.holder in self._dropped
            assert gone or before.lease_until <= now or self._silent(before, now), "a lease was taken from the living"

    def _orphaned(self, row: Item) -> bool:
        return row.holder >= _SOCKETS and row.holder >> 32 != self._epoch

    def _silent(self, row: Item, now: int) -> bool:
        return 0 < self.lease_ends(row, clock_of_the_worker=False) <= now

    def lease_ends(self, row: Item, *, clock_of_the_worker: bool = True) -> int:
        """When the lease is to be taken away, as the protocol says it."""
        if self._orphaned(row):
            return self._grace_until
        progress_from = self._grace_until if row.started_at < self._started_at else 0
        silent = max(row.progress_at, progress_from) + self.policy.progress_by if self.policy.progress_by else 0
        ends = [row.lease_until] if clock_of_the_worker else []
        return min([*ends, silent] if silent else ends, default=0)

    def _check_rest(self, before: dict[str, Item], now: int) -> None:
        """What holds whenever the engine would wait for something new."""
        self._check_results()
        self._forget_answerless()
        for row in self.rows.values():
            self._check_row(row)
            if row.id in before:
                self._check_taken_away(before[row.id], row, now)
                self._check_cause(before[row.id], row)
                if row.status != before[row.id].status:
                    SEEN[f"became {row.status}, {'churn' if 'churn' in row.error else row.ending or 'new'}"] += 1
            assert row.holder not in self._dropped, "I7: held by a socket that is gone"
            if row.status == "processing":
                assert self.lease_ends(row) > now, "I7: a lease outlived its time"
            assert row.ready == (row.status == "pending" and row.due_at <= now)
            assert row.finished_at or not 0 < row.expires_at <= now, "an item outlived its time"
            self._check_shown(row)
        if not self._blocked:
            self._check_told_of_losses(before)
            self._check_holders(before)
        for claim in self.claims.values():
            assert claim.until is not None
            assert claim.until > now, "a claim outlived its time"
            missed = [
                row.id for row in self.rows.values() if row.ready and meets(orjson.loads(row.body), claim.criteria)
            ]
            assert not missed, f"I7: {missed} are claimable, and a claim waits for them"
        unanswered = {spoken.verb for spoken in self._spoken.values()}
        assert unanswered <= {"claim"}, "something was not answered"

    def _check_shown(self, row: Item) -> None:
        if row.fetched_at == 0 or row.id in self._told_as_mine:
            assert self._told_as_mine.get(row.id) == row.rev, "I6: the last state was not told as `mine`"
        assert self._told.get(row.id) == row.rev, "I6: the last state was not told"
        shown = self._shown[row.id]
        assert (shown["status"], shown["attempts"], shown["losses"]) == (row.status, row.attempts, row.losses)

    def _check_holders(self, before: dict[str, Item]) -> None:
        """Only the holder renews and releases. Who came to hold the item in these very turns may have done it too."""
        for name, holder in self._by_holder:
            assert (
                before[name].holder == holder
                or name in self._resumed
                or self.rows[name].attempts > before[name].attempts
            )

    def _check_told_of_losses(self, before: dict[str, Item]) -> None:
        """Who asked for it is told that it lost an item, unless a report under its number ended the attempt."""
        holders = {socket.holder: who for who, socket in self.sockets.items() if socket.cancels}
        for name, row in before.items():
            lost = row.holder in holders and self.rows[name].holder != row.holder
            if lost and name not in self._ended:
                assert (holders[row.holder], name) in self._cancels, "an item was lost without a word"

    def _forget_answerless(self) -> None:
        """The answer of an `unclaim` is the `empty` of each claim. A socket that is gone may have left without one."""
        self.claims = {ref: claim for ref, claim in self.claims.items() if not self._gone(claim.who)}
        for ref, spoken in list(self._spoken.items()):
            gone = self._gone(spoken.who)
            if gone and spoken.verb in ("result", "fail"):
                self._unsure.add(str(spoken.value["id"]))
            if gone or spoken.verb == "unclaim":
                del self._spoken[ref]

    def _gone(self, who: Who) -> bool:
        return who.startswith("s") and who not in self.sockets

    def deadlines(self) -> list[int]:
        """The times at which something is over or comes due, the next one first."""
        rows = [(row.due_at, row.expires_at, self.lease_ends(row)) for row in self.rows.values()]
        claims = [claim.until or 0 for claim in self.claims.values()]
        return sorted({at for row in rows for at in row} | set(claims) | {self._grace_until})

    def waiting(self) -> Iterable[tuple[int, int]]:
        """The open claims: (holder, how many items each still takes)."""
        return sorted((self._holder_of(claim.who), claim.left) for claim in self.claims.values())

    def _holder_of(self, who: Who) -> int:
        return self.sockets[who].holder if who in self.sockets else 1
