"""Whether what a queue said and what it stored can be right: the invariants I1 to I8, after every turn.

Judged from the record and the rows alone; nothing of `lifecycle.py`, `dispatch.py` or `turn.py` is asked here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import orjson

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.model import Item
from leaseway_server.core.policy import Policy
from leaseway_server.core.retention import Keep
from support.rare import SEEN
from support.record import Record
from support.side import GRACE, Said, Who

_TERMINAL: Final = frozenset({"finished", "failed", "dead", "cancelled", "expired"})
_SHOWN: Final = (
    *("status", "attempts", "failures", "losses", "progress", "result", "error", "worker"),
    *("rank", "due_at", "started_at", "finished_at", "expires_at", "meta", "max_attempts"),
)
"""What a view shows, apart from what never changes, and from the times and numbers of the change itself."""
PRUNED_WITHIN: Final = 10_000
"""§7.3, in ms."""
FULL_SECOND: Final = 1_000
"""Keys are swept at full seconds."""
_SOCKETS: Final = 2
"""`Item.holder` of the first socket; below are nobody and HTTP."""


class Journal(Record):
    """One program's record, and its judge. `churn` is how often an item may go round."""

    def __init__(self, policy: Policy, churn: int, keep: Keep) -> None:
        super().__init__(policy)
        self.churn = churn
        self._keep = keep
        self._paused = False
        self._blocked = False
        self._unsure: set[str] = set()
        """Items whose report's answer was on its way when the socket dropped, behind a claim that waited for space."""
        self._let_go: set[str] = set()
        """Ended items whose key had passed before the window last changed; no other window gives it back."""
        self._started_at = self._grace_until = 0
        self._epoch = 0

    def started(self, now: int, epoch: int, rows: Sequence[Item], *, paused: bool) -> None:
        """The server has begun, perhaps again: no socket stands, and what it had not answered is unknown."""
        if not any(spoken.verb in ("pause", "unpause") for spoken in self._spoken.values()):
            assert paused == self._pausing, "a pause is forgotten, or one that ended is not"
        self._paused = self._pausing = paused
        self.sockets.clear()
        self.claims.clear()
        unsure = {str(spoken.value["id"]) for spoken in self._spoken.values() if spoken.verb == "delete"}
        self._spoken.clear()
        self._keyed.clear()
        self.claim_book.forget()
        self._told.clear()
        self._told_as_mine.clear()
        self._answered.clear()
        self._forget_turns()
        before = self.rows
        self._take_rows(rows)
        self._check_gone(before, now, unsure | self._deleted)  # Some answers came before the store was lost.
        assert self._posted - unsure <= self.rows.keys(), "I1: a post that was acknowledged is gone"
        self._posted &= self.rows.keys()
        for name, row in self.rows.items():
            assert row.attempts - self._attempts.get(name, 0) in (0, 1), "I4"
            self._attempts[name] = row.attempts
            assert row.status == "finished" or name not in self._finished, "an accepted result is gone"
            self._learn(row)
            self._book.doubt(name, row.attempts)
        if self._epoch:
            self._grace_until = now + GRACE
        self._started_at, self._epoch = now, epoch

    def _learn(self, row: Item) -> None:
        """The row says what an answer did not."""
        if row.status == "finished":
            self._finished.setdefault(row.id, None)
        elif row.status == "failed":
            self._permanent.add(row.id)

    def heard(
        self, heard: dict[Who, list[Said]], rows: Sequence[Item], now: int, *, blocked: bool, paused: bool
    ) -> None:
        """The answers of the turns that were just run, and the rows after them. `blocked`: there was no space."""
        handed = len(self.handed)
        said = {spoken.verb for spoken in self._spoken.values()}
        stays_paused = self._paused and "unpause" not in said
        self.heard_at_last(heard, now)
        assert paused == self._pausing
        assert len(self.handed) == handed or not stays_paused, "something was handed out in a pause"
        before = self.rows
        self._take_rows(rows)
        if not (blocked or self._blocked or paused or self._paused or "pause" in said):
            self.claim_book.check(before, self.rows)
        self.claim_book.forget()
        self._paused = paused
        self._check_gone(before, now, self._deleted)
        for name in before.keys() & self.rows.keys():
            assert name not in self._deleted, "it was deleted, and is there"
            self._check_step(before[name], self.rows[name])
        self._check_keyed(before, now)
        if not blocked:  # Else a claim that waits for space may hold up the answers of its socket.
            self._check_rest(before, now)
            self._forget_turns()
        self._blocked = blocked
        self._retried.clear()

    def _forget_turns(self) -> None:
        """What was heard of the turns that are judged; also of those after which the store was lost."""
        for heard in (self._dropped, self._unclaimed, self._resumed, self._cancels, self._ended, self._touched):
            heard.clear()
        self._by_holder.clear()

    def _take_rows(self, rows: Sequence[Item]) -> None:
        self.rows = {row.id: row for row in rows}
        self.claim_book.take_rows(self.rows)
        self.named = max(self.named, *(int(name[1:]) + 1 for name in self.rows), 0)

    # ── What must hold ──

    def _check_keyed(self, before: dict[str, Item], now: int) -> None:
        """What was said of a key is so, before these turns or after them."""
        all_rows = [*before.values(), *self.rows.values()]
        for kind, key, item, name in self._keyed:
            holders = [row for row in all_rows if row.key == key and self._may_hold(row, now)]
            match kind:
                case "new":
                    assert name not in before, "an old item is called new"
                    assert name in self.rows
                    if any(row.key == key for row in before.values()):
                        SEEN["key freed and taken by another"] += 1
                case "duplicate":
                    assert any(row.id == name and orjson.loads(row.body) == item for row in holders), "no duplicate"
                case "conflict":
                    assert any(orjson.loads(row.body) != item for row in holders), "a conflict with nobody"
                case "retry":
                    own = (self.rows.get(name) or before[name]).key
                    holders = [row for row in all_rows if row.key == own and self._may_hold(row, now)]
                    assert own
                    assert any(row.id != name for row in holders), "refused for nobody"
            SEEN[f"key: {kind}"] += 1
        self._keyed.clear()

    def _may_hold(self, row: Item, now: int) -> bool:
        return bool(row.held) and (row.status not in _TERMINAL or now < self._held_until(row))

    def reconfigured(self, window: int) -> None:
        """Keys are held for so long (ms) from now on, those that are held already too."""
        self.policy = replace(self.policy, dedupe_window=window)
        self._let_go = {row.id for row in self.rows.values() if row.finished_at and not row.held}

    def _held_until(self, row: Item) -> int:
        if row.id in self._let_go and not row.held:
            return row.finished_at
        return max(row.posted_at + self.policy.dedupe_window, row.finished_at)

    def _check_keys(self, now: int) -> None:
        """An open item holds its key, an ended one for the window, and no key is held by two."""
        held = [row.key for row in self.rows.values() if row.held]
        assert len(held) == len(set(held)), "two hold one key"
        for row in self.rows.values():
            until = self._held_until(row)
            if not row.key:
                assert not row.held
            elif row.status not in _TERMINAL or now < until:
                assert row.held, "a key was let go before its time"
            else:
                assert not row.held or now < until + FULL_SECOND, "a key is held past its time"

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

    def _check_gone(self, before: dict[str, Item], now: int, deleted: set[str]) -> None:
        """What is gone was deleted, or had ended and its time was over."""
        ends = self._outstay(before)
        for name in before.keys() - self.rows.keys() - deleted:
            assert name in ends, "an item is gone that had not ended"
            assert ends[name] <= now, "an item is gone before its time"
            self._posted.discard(name)
            self._finished.pop(name, None)
            SEEN["pruned"] += 1

    def outstay(self) -> dict[str, int]:
        """When the time of each ended item is over."""
        return self._outstay(self.rows)

    def _outstay(self, rows: dict[str, Item]) -> dict[str, int]:
        ends = {}
        for row in rows.values():
            if not row.finished_at:
                continue
            if row.status == "finished" and row.fetched_at:
                ends[row.id] = row.fetched_at + self._keep.fetched
            else:
                ends[row.id] = row.finished_at + int(getattr(self._keep, row.status))
            if row.key:  # It is let go not before that, and at the next full second.
                ends[row.id] = max(ends[row.id], self._held_until(row))
        return ends

    def check_attempts(self, table: dict[tuple[str, int], Attempt]) -> None:
        """The attempts that are remembered are those that must be (PROTOCOL.md §5)."""
        workers = {key: worker for key, (_, worker) in self._claimants.items()}
        self._book.check(self.rows, workers, table)

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
        self._check_keys(now)
        self._forget_answerless()
        for row in self.rows.values():
            self._check_row(row)
            if row.id in before:
                self._check_taken_away(before[row.id], row, now)
                self._check_cause(before[row.id], row)
                if row.status != before[row.id].status:
                    SEEN[f"became {row.status}, {'churn' if 'churn' in row.error else row.ending or 'new'}"] += 1
            assert self.outstay().get(row.id, now) + PRUNED_WITHIN + FULL_SECOND > now, (
                "an ended item outstayed its time"
            )
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
            missed = [row.id for row in self.rows.values() if row.ready and claim.takes_row(row)]
            assert self._paused or not missed, f"I7: {missed} are claimable, and a claim waits for them"
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
                name not in self.rows
                or before[name].holder == holder
                or name in self._resumed
                or self.rows[name].attempts > before[name].attempts
            )

    def _check_told_of_losses(self, before: dict[str, Item]) -> None:
        """Who asked for it is told that it lost an item, unless a report under its number ended the attempt."""
        holders = {socket.holder: who for who, socket in self.sockets.items() if socket.cancels}
        for name, row in before.items():
            lost = row.holder in holders and name in self.rows and self.rows[name].holder != row.holder
            if lost and name not in self._ended:
                assert (holders[row.holder], name) in self._cancels, "an item was lost without a word"

    def _forget_answerless(self) -> None:
        """The answer of an `unclaim` is the `empty` of each claim. A socket that is gone may have left without one."""
        self.claims = {ref: claim for ref, claim in self.claims.items() if not self._gone(claim.who)}
        for ref, spoken in list(self._spoken.items()):
            gone = self._gone(spoken.who)
            if gone and spoken.verb in ("result", "fail"):
                self._unsure.add(str(spoken.value["id"]))
            if gone and "id" in spoken.value:
                self._book.doubt(str(spoken.value["id"]), self._attempts.get(str(spoken.value["id"]), 0))
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
