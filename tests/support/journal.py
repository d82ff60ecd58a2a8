"""What was said to a queue and what it answered, and whether that can be right: the invariants of `faults.md`, I1 to I8.

Kept from messages and stored rows alone. It knows the protocol's promises, but not how the server keeps them: nothing of
`lifecycle.py`, `dispatch.py` or `turn.py` is asked here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from leaseway_server.core.criteria import Json
from leaseway_server.core.lifecycle import Policy
from leaseway_server.core.model import Item
from support.side import GRACE, Said, Who

RARE: Final = (
    "late result counted",
    "late result discarded",
    "claim lost after commit",
    "waiting claim's socket died as its item came",
    "lease lapsed while the result was under way",
    "fail sent twice",
    "resumed after the last allowed loss",
)
SEEN: Counter[str] = Counter()
"""How often the rare states, and some others, were reached in this process."""

_TERMINAL: Final = frozenset({"finished", "failed", "dead", "cancelled", "expired"})
_SOCKETS: Final = 2
"""`Item.holder` of the first socket; below are nobody and HTTP."""


@dataclass(slots=True)
class Socket:
    """A work socket, as its worker knows it."""

    user: str
    worker: str
    holder: int
    cancels: bool = False
    """Whether it asked to be told when it loses an item."""
    fences: dict[str, int] = field(default_factory=dict)
    """The numbers it claimed or resumed items with."""


@dataclass(slots=True)
class OpenClaim:
    """A claim that was not answered to its end."""

    who: Who
    user: str
    worker: str
    criteria: dict[str, Json]
    left: int
    wait_ms: int
    until: int | None = None
    """None until a turn took it up."""


@dataclass(slots=True)
class Spoken:
    """A message that waits for its answer. `fence` is the number a report stands under, as its socket knew it."""

    who: Who
    verb: str
    value: Said
    fence: int | None = None


class Journal:
    """One program's record."""

    def __init__(self, policy: Policy, churn: int) -> None:
        self.policy = policy
        self.churn = churn
        self.sockets: dict[Who, Socket] = {}
        self.handed: list[tuple[str, int, Who]] = []
        """Every item message: (item, attempts, who got it)."""
        self.claims: dict[int, OpenClaim] = {}
        self.fresh: set[Who] = set()
        """Who was sent an item that it has not taken yet."""
        self.rows: dict[str, Item] = {}
        self._spoken: dict[int, Spoken] = {}
        self._posted: set[str] = set()
        self._claimants: dict[tuple[str, int], tuple[str, str]] = {}
        self._attempts: dict[str, int] = {}
        self._finished: dict[str, int | None] = {}
        self._permanent: set[str] = set()
        self._told: dict[str, int] = {}
        self._answered: dict[Who, int] = {}
        self._dropped: set[int] = set()
        self._unclaimed: set[Who] = set()
        self._resumed: set[str] = set()
        self._retried: set[str] = set()
        self._cancels: set[tuple[Who, str]] = set()
        self._ended: set[str] = set()
        """Items whose attempt ended by a report under its number."""
        self._blocked = False
        self._unsure: set[str] = set()
        """Items whose report's answer was on its way when the socket dropped, behind a claim that waited for space."""
        self._started_at = self._grace_until = 0
        self._epoch = 0

    # ── What is said ──

    def started(self, now: int, epoch: int, rows: Sequence[Item]) -> None:
        """The server has begun, perhaps again: no socket stands, and what it had not answered is unknown."""
        self.sockets.clear()
        self.claims.clear()
        self._spoken.clear()
        self._told.clear()
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

    def opened(self, who: Who, user: str, worker: str, holder: int) -> None:
        """A new work socket, and the name its `hello` gives."""
        self.sockets[who] = Socket(user, worker, holder)

    def said(self, who: Who, ref: int, verb: str, value: Said) -> None:
        """A message of a work socket, the monitor or HTTP."""
        socket = self.sockets.get(who)
        spoken = self._spoken[ref] = Spoken(who, verb, value)
        if verb == "claim":
            user = socket.user if socket else who.removeprefix("http ")
            worker = value.get("worker") or (socket.worker if socket else "")
            self.claims[ref] = OpenClaim(
                who, user, str(worker), _members(value.get("criteria")), _number(value, "count", 1), _number(value, "waitMs")
            )
        elif verb == "hello" and socket:
            socket.cancels = True
        elif verb == "unclaim":
            self._unclaimed.add(who)
        elif "attempts" in value:
            spoken.fence = _number(value, "attempts")
        elif socket:
            spoken.fence = socket.fences.get(str(value.get("id")))

    def dropped(self, who: Who) -> None:
        """The socket is gone; its claims end without a word."""
        socket = self.sockets.pop(who)
        self._dropped.add(socket.holder)
        if who in self.fresh:
            SEEN["claim lost after commit"] += 1
        for claim in self.claims.values():
            if claim.who == who and claim.until and self._posts_for(claim):
                SEEN["waiting claim's socket died as its item came"] += 1

    def _posts_for(self, claim: OpenClaim) -> bool:
        posts = (spoken.value for spoken in self._spoken.values() if spoken.verb == "post")
        return any("delayMs" not in post and _meets(post["item"], claim.criteria) for post in posts)

    # ── What is heard ──

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
        self._blocked = blocked
        self._retried.clear()

    def heard_at_last(self, heard: dict[Who, list[Said]], now: int) -> None:
        """Answers alone: those that came before a store was lost."""
        for claim in self.claims.values():
            if claim.until is None:
                claim.until = now + claim.wait_ms if claim.wait_ms else 0
        self.fresh.clear()
        for who, messages in heard.items():
            for message in messages:
                for each in message["messages"] if message["type"] == "batch" else [message]:  # type: ignore[union-attr]
                    self._hear(who, each, now)  # type: ignore[arg-type]

    def _hear(self, who: Who, message: Said, now: int) -> None:
        kind = str(message["type"])
        if kind == "status":
            self._hear_status(message)
            return
        if kind == "cancel":
            self._hear_cancel(who, message)
            return
        ref = _number(message, "ref")
        spoken = self._spoken.get(ref)
        assert spoken, f"an answer to nothing: {message}"
        assert spoken.who == who
        self._check_order(who, ref)
        match kind:
            case "item":
                self._hear_item(who, ref, message, now)
            case "empty":
                self._hear_empty(who, ref, now)
            case "hello":
                assert spoken.verb == kind
            case "error":
                self.claims.pop(ref, None)
            case "posted":
                self._posted.add(str(message["id"]))
            case "resume-ack":
                self._hear_resumed(who, spoken, message)
            case _:
                assert kind == f"{spoken.verb}-ack"
                self._hear_ack(spoken, message, now)
        if ref not in self.claims:
            del self._spoken[ref]

    def _hear_status(self, view: Said) -> None:
        name = str(view["id"])
        assert _number(view, "rev") > self._told.get(name, 0), "I6: an older view after a newer one"
        self._told[name] = _number(view, "rev")

    def _hear_cancel(self, who: Who, message: Said) -> None:
        assert message["reason"] in ("cancelled", "expired", "lapsed", "resumed", "finished")
        name = str(message["id"])
        assert name in self.sockets[who].fences, "told of an item that it never had"
        self._cancels.add((who, name))
        SEEN[f"told: {message['reason']}"] += 1

    def _check_order(self, who: Who, ref: int) -> None:
        """Only waiting claims are answered out of order."""
        claim = self.claims.get(ref)
        if who.startswith("s") and not (claim and claim.wait_ms):
            assert self._answered.get(who, 0) <= ref
            self._answered[who] = ref

    def _hear_item(self, who: Who, ref: int, message: Said, now: int) -> None:
        name, attempts, claim = str(message["id"]), _number(message, "attempts"), self.claims[ref]
        assert _meets(message["item"], claim.criteria), "an item that was not asked for"
        assert attempts == self._attempts.get(name, 0) + 1, "I4: attempts rise by one a claim"
        assert message["leaseUntil"] == now + self.policy.lease
        self._attempts[name] = attempts
        self._claimants[name, attempts] = (claim.user, claim.worker)
        self.handed.append((name, attempts, who))
        if who in self.sockets:
            self.sockets[who].fences[name] = attempts
            self.fresh.add(who)
        claim.left -= 1
        if not claim.left:
            del self.claims[ref]

    def _hear_empty(self, who: Who, ref: int, now: int) -> None:
        claim = self.claims.pop(ref)
        assert claim.until is not None
        assert claim.until <= now or who in self._unclaimed, "a claim that ended before its time"

    def _hear_resumed(self, who: Who, spoken: Spoken, message: Said) -> None:
        socket = self.sockets.get(who)
        for lease in message["leases"]:  # type: ignore[union-attr]
            assert isinstance(lease, dict)
            if not lease["accepted"]:
                continue
            name = str(lease["id"])
            attempts = self._attempts[name]
            user, worker = self._claimants[name, attempts]
            assert worker, "a claim without a name was resumed"
            assert spoken.value["worker"] == worker
            assert spoken.value["user"] == user, "resumed by another user"
            self._resumed.add(name)
            before = self.rows[name]
            if before.status == "processing" and before.holder == 0:
                assert before.losses + 1 == self.policy.max_losses
                SEEN["resumed after the last allowed loss"] += 1
            if socket:
                socket.fences[name] = attempts

    def _hear_ack(self, spoken: Spoken, message: Said, now: int) -> None:
        name, accepted, before = str(message["id"]), message["accepted"], self.rows.get(str(message["id"]))
        if accepted:
            assert before, "an unknown item changed"
        match spoken.verb, accepted:
            case "result", True:
                assert name not in self._finished, "I2: a second accepted result"
                self._finished[name] = spoken.fence
                if spoken.fence is not None:
                    self._ended.add(name)
                self._count_late(spoken, before, now)
            case "result", _ if message.get("reason") == "fence" and (name, spoken.fence) in self._claimants:
                SEEN["late result discarded"] += 1
            case ("fail" | "release"), True:
                self._ended.add(name)
                if spoken.verb == "fail" and not spoken.value["retryable"]:
                    self._permanent.add(name)
            case "fail", False if message.get("duplicate"):
                SEEN["fail sent twice"] += 1
            case "retry", True:
                self._retried.add(name)
        SEEN[f"{spoken.verb} {'accepted' if accepted else 'refused: ' + str(message['reason'])}"] += 1

    def _count_late(self, spoken: Spoken, before: Item | None, now: int) -> None:
        assert before
        if spoken.fence is None:
            return
        if before.status == "pending":
            SEEN["late result counted"] += 1
        elif 0 < before.lease_until <= now:
            SEEN["lease lapsed while the result was under way"] += 1

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
            assert row.failures < row.max_attempts, "I8: alive without budget"
            assert row.losses < self.policy.max_losses, "I8: alive without budget"
        if row.status != "processing":
            assert (row.holder, row.lease_until) == (0, 0)

    def _check_step(self, before: Item, row: Item) -> None:
        assert row.rev >= before.rev, "I5"
        assert row.updated_at >= before.updated_at
        assert row.attempts >= before.attempts
        assert row.body == before.body
        if before.status in _TERMINAL and row.id not in self._retried:
            assert (row.status, row.rev) == (before.status, before.rev), "I5: an end that was none"

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
                if row.status != before[row.id].status:
                    SEEN[f"became {row.status}, {'churn' if 'churn' in row.error else row.ending or 'new'}"] += 1
            assert row.holder not in self._dropped, "I7: held by a socket that is gone"
            if row.status == "processing":
                assert self.lease_ends(row) > now, "I7: a lease outlived its time"
            assert row.ready == (row.status == "pending" and row.due_at <= now)
            assert row.finished_at or not 0 < row.expires_at <= now, "an item outlived its time"
            assert self._told.get(row.id) == row.rev, "I6: the last state was not told"
        if not self._blocked:
            self._check_told_of_losses(before)
        for claim in self.claims.values():
            assert claim.until is not None
            assert claim.until > now, "a claim outlived its time"
            missed = [row.id for row in self.rows.values() if row.ready and _meets(orjson.loads(row.body), claim.criteria)]
            assert not missed, f"I7: {missed} are claimable, and a claim waits for them"
        unanswered = {spoken.verb for spoken in self._spoken.values()}
        assert unanswered <= {"claim"}, "something was not answered"

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

    def waiting(self) -> Iterable[tuple[int, int]]:
        """The open claims: (holder, how many items each still takes)."""
        return sorted((self._holder_of(claim.who), claim.left) for claim in self.claims.values())

    def _holder_of(self, who: Who) -> int:
        return self.sockets[who].holder if who in self.sockets else 1


def _meets(item: Json, criteria: dict[str, Json]) -> bool:
    """The programs ask for equal members only."""
    return isinstance(item, dict) and all(item.get(name) == value for name, value in criteria.items())


def _members(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(message: Said, name: str, default: int = 0) -> int:
    value = message.get(name, default)
    assert isinstance(value, int)
    return value
