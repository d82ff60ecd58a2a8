"""What was said to a queue and what it answered: the record of one program, message by message.

Owns what an answer may say to the message that it answers. What must hold of the rows is the journal's.
Nothing of `lifecycle.py`, `dispatch.py` or `turn.py` is asked here: it knows what the protocol promises, not how.
"""

from dataclasses import dataclass, field

from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from leaseway_server.core.policy import Policy
from support.attempts import AttemptBook
from support.claims import ClaimBook, OpenClaim
from support.rare import SEEN
from support.side import Said, Who


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
class Spoken:
    """A message that waits for its answer. `fence` is the number a report stands under, as its socket knew it.

    `holder` is the number of the socket that said it; 1 where it came otherwise.
    """

    who: Who
    verb: str
    value: Said
    holder: int = 1
    fence: int | None = None


class Record:
    """One program's messages. A journal adds to it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
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
        self._told_as_mine: dict[str, int] = {}
        self._shown: dict[str, Said] = {}
        self._answered: dict[Who, int] = {}
        self._dropped: set[int] = set()
        self._unclaimed: set[Who] = set()
        self._resumed: set[str] = set()
        self._retried: set[str] = set()
        self._cancels: set[tuple[Who, str]] = set()
        self._by_holder: list[tuple[str, int]] = []
        """Accepted reports that only a holder may make: (item, number of the socket)."""
        self._touched: set[str] = set()
        """Items of which something was accepted, or which were handed out."""
        self._book = AttemptBook()
        self.claim_book = ClaimBook()
        self._pausing = False
        """Whether the queue was last said to be paused."""
        self.named = 0
        """So many items have had a name; the next one is called by that number."""
        self._deleted: set[str] = set()
        self._keyed: list[tuple[str, str, Json, str]] = []
        """What was said of keys: ("new", "duplicate" or "conflict", key, item, name), since the rows were last seen."""
        self._ended: set[str] = set()
        """Items whose attempt ended by a report under its number."""

    # ── What is said ──

    def opened(self, who: Who, user: str, worker: str, holder: int) -> None:
        """A new work socket, and the name its `hello` gives."""
        self.sockets[who] = Socket(user, worker, holder)

    def said(self, who: Who, ref: int, verb: str, value: Said) -> None:
        """A message of a work socket, the monitor or HTTP."""
        socket = self.sockets.get(who)
        spoken = self._spoken[ref] = Spoken(who, verb, value, socket.holder if socket else 1)
        if verb == "claim":
            user = socket.user if socket else who.removeprefix("http ")
            worker = value.get("worker") or (socket.worker if socket else "")
            self.claims[ref] = OpenClaim(
                who,
                user,
                str(worker),
                _members(value.get("criteria")),
                number(value, "count", 1),
                number(value, "waitMs"),
            )
        elif verb == "hello" and socket:
            socket.cancels = True
        elif verb == "unclaim":
            self._unclaimed.add(who)
        elif "attempts" in value:
            spoken.fence = number(value, "attempts")
        elif socket:
            spoken.fence = socket.fences.get(str(value.get("id")))

    def reloaded(self) -> None:
        """Who watches all that is its own has connected anew, and knows nothing."""
        self._told_as_mine.clear()

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
        posts = (post for spoken in self._spoken.values() if spoken.verb == "post" for post in _posts(spoken.value))
        return any("delayMs" not in post and claim.takes(post["item"]) for post in posts)

    # ── What is heard ──

    def heard_at_last(self, heard: dict[Who, list[Said]], now: int) -> None:
        """Answers alone: those that came before a store was lost."""
        for claim in self.claims.values():
            claim.waited = claim.until is not None
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
            self._hear_status(who, message)
            return
        if kind == "cancel":
            self._hear_cancel(who, message)
            return
        self._hear_answer(who, kind, message, now)

    def _hear_answer(self, who: Who, kind: str, message: Said, now: int) -> None:
        ref = number(message, "ref") + number(message, "index")  # Members of an array have refs in a row.
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
                self._hear_error(ref, spoken, message)
            case "paused":
                self._pausing = bool(message["on"])
                SEEN[spoken.verb] += 1
            case "posted":
                self._hear_posted(spoken, message)
            case "resume-ack":
                self._hear_resumed(who, spoken, message)
            case _:
                assert kind == f"{spoken.verb}-ack"
                self._hear_ack(spoken, message, now)
        if ref not in self.claims:
            del self._spoken[ref]

    def _hear_status(self, who: Who, view: Said) -> None:
        name = str(view["id"])
        if who == "mine":
            assert number(view, "rev") > self._told_as_mine.get(name, 0), "I6: an older view after a newer one"
            self._told_as_mine[name] = number(view, "rev")
            return
        assert number(view, "rev") > self._told.get(name, 0), "I6: an older view after a newer one"
        self._told[name] = number(view, "rev")
        self._shown[name] = view

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
        name, attempts, claim = str(message["id"]), number(message, "attempts"), self.claims[ref]
        assert claim.takes(message["item"]), "an item that was not asked for"
        assert attempts == self._attempts.get(name, 0) + 1, "I4: attempts rise by one a claim"
        assert message["leaseUntil"] == now + self.policy.lease
        self._attempts[name] = attempts
        self._touched.add(name)
        self.claim_book.handed(claim, name, self.rows)
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
        if who not in self._unclaimed:
            self.claim_book.ended_empty(claim)

    def _hear_posted(self, spoken: Spoken, message: Said) -> None:
        answers = message.get("items", [message])
        assert isinstance(answers, list)
        for post, answer in zip(_posts(spoken.value), answers, strict=True):
            assert isinstance(answer, dict)
            name = str(answer["id"])
            if "key" in post:
                kind = "duplicate" if answer["duplicate"] else "new"
                self._keyed.append((kind, str(post["key"]), post["item"], name))
            else:
                assert not answer["duplicate"]
            assert answer["duplicate"] or name not in self._posted, "two posts, one item"
            self._posted.add(name)

    def _hear_error(self, ref: int, spoken: Spoken, message: Said) -> None:
        self.claims.pop(ref, None)
        if message["code"] != "conflict":
            return
        if spoken.verb == "retry":
            self._keyed.append(("retry", "", None, str(spoken.value["id"])))
            SEEN["retry refused since another holds the key"] += 1
        else:
            assert spoken.verb == "post"
            posts = [post for post in _posts(spoken.value) if "key" in post]
            assert posts, "a conflict of nothing"
            if len(_posts(spoken.value)) == 1:
                self._keyed.append(("conflict", str(posts[0]["key"]), posts[0]["item"], ""))

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
            self._touched.add(name)
            before = self.rows[name]
            if before.status == "processing" and before.holder == 0:
                assert before.losses + 1 == self.policy.max_losses
                SEEN["resumed after the last allowed loss"] += 1
            if socket:
                socket.fences[name] = attempts

    def _hear_steered(self, verb: str, name: str) -> None:
        if verb == "retry":
            self._retried.add(name)
            self._book.doubt(name, self._attempts.get(name, 0))
        else:
            self._deleted.add(name)
            self._posted.discard(name)

    def _hear_ack(self, spoken: Spoken, message: Said, now: int) -> None:
        name, accepted, before = str(message["id"]), message["accepted"], self.rows.get(str(message["id"]))
        if accepted:
            assert before, "an unknown item changed"
            self._touched.add(name)
            self._book.reported(name, spoken.verb, spoken.fence)
            if spoken.verb in ("renew", "release") or (spoken.verb == "progress" and spoken.fence is not None):
                self._by_holder.append((name, spoken.holder))
        match spoken.verb, accepted:
            case "result", True:
                assert name not in self._finished, "I2: a second accepted result"
                self._finished[name] = spoken.fence
                if spoken.fence is not None:
                    self._ended.add(name)
                self._count_late(spoken, before, now)
            case "result", _ if message.get("reason") == "fence" and (name, spoken.fence) in self._claimants:
                SEEN["late result discarded"] += 1
            case (("fail" | "release"), True):
                self._ended.add(name)
                if spoken.verb == "fail" and not spoken.value["retryable"]:
                    self._permanent.add(name)
            case "fail", False if message.get("duplicate"):
                SEEN["fail sent twice"] += 1
            case (("retry" | "delete"), True):
                self._hear_steered(spoken.verb, name)
        SEEN[f"{spoken.verb} {'accepted' if accepted else 'refused: ' + str(message['reason'])}"] += 1

    def _count_late(self, spoken: Spoken, before: Item | None, now: int) -> None:
        assert before
        if spoken.fence is None:
            return
        if before.status == "pending":
            SEEN["late result counted"] += 1
        elif 0 < before.lease_until <= now:
            SEEN["lease lapsed while the result was under way"] += 1


def _posts(value: Said) -> list[Said]:
    """The posts of a message: of an array all, else the one that it is."""
    array = value.get("array", [value])
    assert isinstance(array, list)
    return [post for post in array if isinstance(post, dict)]


def _members(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def number(message: Said, name: str, default: int = 0) -> int:
    value = message.get(name, default)
    assert isinstance(value, int)
    return value
