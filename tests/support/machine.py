"""Random programs against the queue: what a program may do, step by step, and where it is led to the rare states."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from leaseway_server.core.backoff import Backoff
from leaseway_server.core.commands import Change
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import NOBODY
from leaseway_server.core.policy import Policy
from leaseway_server.core.retention import Keep
from support.asking import MATCHES, Match, criteria, zones
from support.driver import Setting
from support.faulty_store import Fault
from support.key_rules import DAY, ITEMS, WINDOW, KeyRules, index, keys, now_or_later
from support.machine_queue import QueueSteps
from support.match_rules import MatchRules
from support.rare import RARE, SEEN
from support.side import GRACE, Said

LEASE: Final = 10_000
SOCKETS: Final = 4

_BACKOFF: Final = Backoff(delays=(1_000, 4_000), jitter=0.5)
KEEP: Final = Keep(fetched=2_000, finished=20_000, failed=6_000, dead=6_000, cancelled=1_000, expired=3_000)
SETTINGS: Final = (
    Setting(Policy(LEASE, 0, max_attempts=2, max_losses=2, backoff=_BACKOFF, dedupe_window=WINDOW)),
    Setting(Policy(LEASE, 15_000, max_attempts=3, max_losses=3, backoff=_BACKOFF, dedupe_window=0)),
    Setting(
        Policy(LEASE, 0, max_attempts=9, max_losses=9, backoff=_BACKOFF, dedupe_window=WINDOW),
        slice=2,
        commands=3,
        looked_at=2,
        offers=1,
        churn=4,
        keep=KEEP,
    ),
)

users = st.sampled_from(["ann", "bob"])
workers = st.sampled_from(["w1", "w1", "w2", ""])
waits = st.sampled_from([0, 0, 2_000, 20_000, 60_000])


class QueueMachine(KeyRules, MatchRules, QueueSteps):
    """One program."""

    @initialize(setting=st.sampled_from(SETTINGS), match=st.sampled_from(MATCHES))
    def begin(self, setting: Setting, match: Match) -> None:
        """A server on an empty store, and two workers."""
        self._begin(setting, match)
        self._open("ann", "w1")
        self._open("bob", "w2", batch=True)

    # ── Posts, claims, reports ──

    @precondition(lambda self: len(self.journal.rows) < ITEMS)
    @rule(
        kind=st.sampled_from(["a", "a", "b", "b", "a", "guilty"]),
        size=st.integers(1, 3),
        at=st.one_of(st.just({}), st.fixed_dictionaries({"at": st.fixed_dictionaries({"zone": zones})})),
        more=st.integers(0, 2),
        options=st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(-1, 1),
                "delayMs": st.sampled_from([500, 5_000, LEASE]),
                "ttlMs": st.sampled_from([6_000, 20_000, DAY]),
                "maxAttempts": st.integers(1, 3),
                "key": keys,
            },
        ),
        now=now_or_later,
    )
    def post(self, kind: str, size: int, at: Said, more: int, options: Said, now: bool) -> None:
        """A post, and perhaps some more of the kind."""
        self._post({"kind": kind, "size": size, **at}, options)
        for _ in range(more):
            self._post({"kind": kind, "size": size, **at}, {})
        self._then(now)

    @precondition(lambda self: len(self.journal.sockets) < SOCKETS)
    @rule(user=users, worker=workers, batch=st.booleans())
    def open_socket(self, user: str, worker: str, batch: bool) -> None:
        """A worker connects."""
        self._open(user, worker, batch=batch)

    @precondition(lambda self: self.journal.sockets)
    @rule(
        who=index,
        wanted=criteria,
        most=st.integers(1, 3),
        wait=waits,
        worker=workers,
        posts=st.integers(0, 3),
        now=now_or_later,
    )
    def claim(self, who: int, wanted: Json, most: int, wait: int, worker: str, posts: int, now: bool) -> None:
        """A claim, waiting or not, and posts that may meet it."""
        for _ in range(posts):
            self._post({"kind": "a", "size": 1}, {})
        value: Said = {"criteria": wanted, "count": most, "waitMs": wait}
        self._say(self._socket(who), "claim", value | ({"worker": worker} if worker else {}))
        self._then(now)

    @precondition(lambda self: self.journal.sockets)
    @rule(who=index, now=now_or_later)
    def unclaim(self, who: int, now: bool) -> None:
        """A worker takes its waiting claims back."""
        self._say(self._socket(who), "unclaim", {})
        self._then(now)

    @precondition(lambda self: self.journal.handed and self.journal.sockets)
    @rule(
        verb=st.sampled_from(["progress", "result", "fail", "release", "renew"]),
        which=index,
        off=st.sampled_from([0, 0, 0, 0, -1, None, "own"]),
        extra=st.booleans(),
        who=index,
        now=now_or_later,
    )
    def report(self, verb: str, which: int, off: int | str | None, extra: bool, who: int, now: bool) -> None:
        """A report on an item that was handed out: with its number, with another, with none; mostly by who got it."""
        name, attempts, got_by = self._handed(which)
        speaker = got_by if got_by in self.journal.sockets and who < 75 else self._socket(who)
        self._say(speaker, verb, self._report(verb, name, attempts + off if isinstance(off, int) else None, extra))
        self._then(now)

    @precondition(lambda self: self.journal.sockets)
    @rule(
        verb=st.sampled_from(["progress", "progress", "result", "fail", "release", "renew"]),
        which=index,
        extra=st.booleans(),
        bare=st.booleans(),
        now=now_or_later,
    )
    def report_as_holder(self, verb: str, which: int, extra: bool, bare: bool, now: bool) -> None:
        """A report by whoever holds the item, with its number or by what the socket remembers."""
        held = {socket.holder: who for who, socket in self.journal.sockets.items()}
        found = self._pick(which, lambda row: row.holder in held)
        if found:
            self._say(held[found.holder], verb, self._report(verb, found.id, None if bare else found.attempts, extra))
            self._then(now)

    @precondition(lambda self: self.journal.rows and self.journal.sockets)
    @rule(verb=st.sampled_from(["progress", "result", "fail", "release", "renew"]), which=index, who=index)
    def report_blindly(self, verb: str, which: int, who: int) -> None:
        """A report, without a number, on any item or on none."""
        name = f"#{which % (len(self.journal.rows) + 1)}"
        self._say(self._socket(who), verb, self._report(verb, name, None, False))
        self._then(True)

    @precondition(lambda self: self.journal.handed and self.journal.sockets)
    @rule(
        verb=st.sampled_from(["progress", "result", "fail", "release", "renew"]),
        which=st.lists(index, min_size=1, max_size=4),
        extra=st.booleans(),
        who=index,
        now=now_or_later,
    )
    def report_in_an_array(self, verb: str, which: list[int], extra: bool, who: int, now: bool) -> None:
        """Several reports in one message, perhaps of one item, by one of those who got them."""
        handed = [self._handed(one) for one in which]
        speaker = handed[0][2] if handed[0][2] in self.journal.sockets else self._socket(who)
        self._say_all(speaker, verb, [self._report(verb, name, attempts, extra) for name, attempts, _ in handed])
        self._then(now)

    @rule(user=users, wait=waits, wanted=criteria, now=now_or_later)
    def claim_over_http(self, user: str, wait: int, wanted: Json, now: bool) -> None:
        """A claim whose lease has no socket."""
        self._request(user, "claim", {"criteria": wanted, "waitMs": wait})
        self._then(now)

    @precondition(lambda self: self.journal.handed)
    @rule(
        user=users,
        verb=st.sampled_from(["progress", "result", "fail", "release", "renew"]),
        which=index,
        now=now_or_later,
    )
    def report_over_http(self, user: str, verb: str, which: int, now: bool) -> None:
        """A report by a user and its number."""
        name, attempts, _ = self._handed(which)
        self._request(user, verb, self._report(verb, name, attempts, False))
        self._then(now)

    @precondition(lambda self: self.journal.rows)
    @rule(which=index, retry=st.booleans(), now=now_or_later)
    def administer(self, which: int, retry: bool, now: bool) -> None:
        """A cancel, or an administrator's retry of what has ended badly."""
        ended = [
            name for name, row in self.journal.rows.items() if row.status not in ("pending", "processing", "finished")
        ]
        names = ended if retry and ended else list(self.journal.rows)
        name = names[which % len(names)]
        self._administer(*(("retry", Change(name, Retry())) if retry else ("cancel", Change(name, Cancel()))))
        self._then(now)

    # ── Sockets and servers that go ──

    @precondition(lambda self: self.journal.sockets)
    @rule(who=index, now=now_or_later)
    def drop(self, who: int, now: bool) -> None:
        """A socket drops."""
        self._drop(self._socket(who))
        self._then(now)

    @precondition(lambda self: not self.sides[0].faults.at_commit)
    @rule()
    def reload(self) -> None:
        """A producer's page is loaded anew, and is to miss nothing of what ended meanwhile."""
        self._taken()
        self.journal.reloaded()
        for side in self.sides:
            side.reload()
        self._turn()

    @precondition(lambda self: self.gone)
    @rule(which=index, wrong=st.sampled_from(["", "", "", "", "user", "worker", "number"]), now=now_or_later)
    def resume(self, which: int, wrong: str, now: bool) -> None:
        """A worker is back on a new socket, or somebody who says so."""
        user, worker, fences = self.gone[-1 - which % min(len(self.gone), 4)]
        leases = {name: attempts + (wrong == "number") for name, attempts in fences.items()}
        user = {"ann": "bob", "bob": "ann"}[user] if wrong == "user" else user
        self._resume(user, (worker or "w1") + ("x" if wrong == "worker" else ""), leases)
        self._then(now)

    @precondition(lambda self: self.journal.sockets)
    @rule(who=index)
    def move(self, who: int) -> None:
        """A worker comes back while its old socket still stands."""
        socket = self.journal.sockets[self._socket(who)]
        if socket.worker:
            self._resume(socket.user, socket.worker, dict(socket.fences))
            self._then(True)

    @rule(clean=st.booleans(), back=st.booleans())
    def restart(self, clean: bool, back: bool) -> None:
        """A planned stop, or a kill with what was said and not done. The workers may come back at once."""
        sockets = self._end(clean=clean)
        self._start()
        if back and sockets:
            for user, worker, fences in self.gone[-sockets:]:
                self._resume(user, worker or "w1", fences)
            self._turn()

    @rule(
        fault=st.sampled_from([None, None, None, "full", "full", "odd", "lost before", "lost after"]),
        after=st.integers(0, 1),
    )
    def fault(self, fault: Fault | None, after: int) -> None:
        """The next commit, or the one after it, fails."""
        for side in self.sides:
            side.faults.at_commit = [None] * after + [fault]

    # ── Time ──

    @rule(ms=st.sampled_from([1, 100, 600, 1_000, 2_000, GRACE, LEASE, LEASE + 1, 15_000, DAY]), now=now_or_later)
    def advance(self, ms: int, now: bool) -> None:
        """Time goes by."""
        self._taken()
        self.clock.advance(ms)
        self._then(now)

    @rule(which=index, past=st.sampled_from([0, 0, 1, -1]), now=now_or_later)
    def advance_to_a_deadline(self, which: int, past: int, now: bool) -> None:
        """Time goes by until something is over, to the millisecond."""
        deadlines = [at for at in self.journal.deadlines() if at + past > self.clock.now()]
        if deadlines:
            self._taken()
            self.clock.advance(deadlines[which % len(deadlines)] + past - self.clock.now())
            self._then(now)

    @rule()
    def turn(self) -> None:
        """What was said is done."""
        self._taken()
        self._turn()

    # ── Programs that lead to the rare states ──

    @precondition(lambda self: self.journal.sockets)
    @rule(who=index, name=st.integers(1, 2))
    def vanish_with_the_item(self, who: int, name: int) -> None:
        """The socket drops between the claim's commit and its item."""
        speaker = self._socket(who)
        self._post({"kind": "a", "size": name}, {})
        self._say(speaker, "claim", {})
        self._turn()
        self._drop(speaker)
        self._turn()

    @precondition(lambda self: self.journal.sockets)
    @rule(who=index, first=st.booleans(), most=st.integers(1, 2))
    def vanish_as_it_comes(self, who: int, first: bool, most: int) -> None:
        """A socket with a waiting claim drops in the very turn that brings its item."""
        speaker = self._socket(who)
        self._say(speaker, "claim", {"criteria": {"kind": "c"}, "count": most, "waitMs": 20_000})
        self._turn()
        if first:
            self._post({"kind": "c"}, {})
        self._drop(speaker)
        if not first:
            self._post({"kind": "c"}, {})
        self._turn()

    @precondition(lambda self: self.journal.sockets)
    @rule(which=index, who=index, past=st.sampled_from([0, 1, 500]), verb=st.sampled_from(["result", "result", "fail"]))
    def report_as_the_lease_ends(self, which: int, who: int, past: int, verb: str) -> None:
        """The time is over, and the report comes before the sweep."""
        found = self._pick(which, lambda row: row.status == "processing" and row.lease_until > self.clock.now())
        if found:
            self.clock.advance(found.lease_until - self.clock.now() + past)
            self._say(self._socket(who), verb, self._report(verb, found.id, found.attempts, False))
            self._turn()

    @precondition(lambda self: self.journal.sockets)
    @rule(which=index, who=index, verb=st.sampled_from(["result", "fail", "release"]), now=now_or_later)
    def report_late(self, which: int, who: int, verb: str, now: bool) -> None:
        """The attempt has ended, and nobody has claimed since."""
        found = self._pick(which, lambda row: row.status == "pending" and row.attempts > 0)
        if found:
            self._say(self._socket(who), verb, self._report(verb, found.id, found.attempts, False))
            self._then(now)

    @precondition(lambda self: self.journal.sockets)
    @rule(which=index, who=index, verb=st.sampled_from(["result", "fail"]))
    def report_too_late(self, which: int, who: int, verb: str) -> None:
        """Somebody has claimed since."""
        found = self._pick(which, lambda row: row.status in ("pending", "processing") and row.attempts > 1)
        if found:
            self._say(self._socket(who), verb, self._report(verb, found.id, found.attempts - 1, False))
            self._turn()

    @precondition(lambda self: self.journal.sockets)
    @rule(which=index, who=index, between=st.booleans(), retryable=st.booleans())
    def fail_twice(self, which: int, who: int, between: bool, retryable: bool) -> None:
        """The worker did not get the first answer."""
        found = self._pick(which, lambda row: row.status == "processing")
        if found:
            for _ in range(2):
                self._say(self._socket(who), "fail", self._report("fail", found.id, found.attempts, not retryable))
                self._then(between)
            self._turn()

    @precondition(lambda self: self.journal.policy.max_losses < 4)
    @rule(wait=st.sampled_from([0, 1_000, LEASE]), stranger=st.booleans())
    def come_back_after_the_last_loss(self, wait: int, stranger: bool) -> None:
        """The last loss allowed leaves the item with nobody, for its worker to come back to; and for no stranger."""
        self._post({"kind": "d"}, {})
        for _ in range(self.journal.policy.max_losses):
            who = self._open("ann", "w1")
            self._say(who, "claim", {"criteria": {"kind": "d"}})
            self._turn()
            self._drop(who)
            self._turn()
        left = self._pick(0, lambda row: row.status == "processing" and row.holder == NOBODY)
        if left:
            self.clock.advance(wait)
            if stranger:
                self._resume("bob", left.worker, {left.id: left.attempts})
            self._resume(left.lease_user, left.worker, {left.id: left.attempts})
            self._turn()

    @precondition(lambda self: self.journal.sockets and self.journal.churn < 10)
    @rule(who=index, last=st.sampled_from(["release", "fail", "drop"]))
    def go_round_and_round(self, who: int, last: str) -> None:
        """An item that is claimed and given back until that is enough."""
        self._post({"kind": "e"}, {})
        name = f"#{self.journal.named}"
        for number in range(1, self.journal.churn + 1):
            self._say(self._socket(who), "claim", {"criteria": {"kind": "e"}})
            self._turn()
            if number == self.journal.churn and last == "drop":
                self._drop(self._socket(who))
            else:
                verb = last if number == self.journal.churn else "release"
                self._say(self._socket(who), verb, self._report(verb, name, number, False))
            self._turn()


def figures() -> dict[str, str]:
    """What the programs of this process did, for the end of a test run."""
    did = f"{SEEN['programs']:,} programs, {SEEN['steps']:,} steps, {SEEN['turns']:,} turns on each side"
    return {"state machine": did, "rare states": ", ".join(f"{name} {SEEN[name]}" for name in RARE)}
