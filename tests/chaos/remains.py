"""What is left in the database when all is over, held against the journal: nothing is lost, held, charged for nothing.

An attempt is charged as lost where its worker's connection was cut, or its lease lapsed, and for nothing that befalls a
server: that parts it, after the grace and not before (PROTOCOL.md §1, §6).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from chaos.ends import Hold
from chaos.journals import Came, Cut, Kept, Message, Stood, Struck
from chaos.promises import TERMINAL, Promises
from chaos.terms import Terms

Attempt: TypeAlias = tuple[str, int]
"""An item's id, and the number of its claim."""
NOT_TO_BE_FOUND: Final = "was acknowledged and is not in the database (I1)"


@dataclass(slots=True)
class _Rows:
    """What was kept."""

    items: list[Message] = field(default_factory=list)
    attempts: list[Message] = field(default_factory=list)
    counts: list[Message] = field(default_factory=list)


class Remains:
    """Collects what may cost an attempt, and judges the rows once they are all there."""

    def __init__(self, terms: Terms, promises: Promises, hold: Hold) -> None:
        self._terms = terms
        self._promises = promises
        self._hold = hold
        self.keys: dict[str, str] = {}
        """The ids of the items that were acknowledged, by key."""
        self._workers: dict[str, str] = {}
        self._came: dict[str, list[int]] = {}
        self._cuts: dict[str, list[int]] = {}
        self._pauses: list[Stood] = []
        self._strikes: list[int] = []
        self._held_at: dict[Attempt, int] = {}
        self._renewed_at: dict[Attempt, int] = {}
        self._fails: Counter[str] = Counter()
        self._rows = _Rows()

    # ── What happens ──

    def works_as(self, who: str, worker: str) -> None:
        """A client works under this name."""
        self._workers[worker] = who

    def holds(self, attempt: Attempt, said_at: int) -> None:
        """A claim or a resume that was said at this time gave the lease."""
        self._held_at[attempt] = self._renewed_at[attempt] = said_at

    def renewed(self, attempt: Attempt, said_at: int) -> None:
        """What was said at this time renewed the lease."""
        self._renewed_at[attempt] = said_at

    def failed(self, item_id: str) -> None:
        """A worker is about to say a retryable fault."""
        self._fails[item_id] += 1

    def take(self, entry: Came | Cut | Stood | Struck | Kept) -> None:
        """What was done, and what is left."""
        match entry:
            case Came(at, who):
                self._came.setdefault(who, []).append(at)
            case Cut(at, who):
                self._cuts.setdefault(who, []).append(at)
            case Stood():
                self._pauses.append(entry)
            case Struck(at, _, True):
                self._strikes.append(at)
            case Kept(_, "item", row):
                self._rows.items.append(row)
            case Kept(_, "attempt", row):
                self._rows.attempts.append(row)
            case Kept(_, "counts", row):
                self._rows.counts.append(row)

    # ── The judgement ──

    def close(self) -> None:
        """All that is left was told; where nothing was, there is nothing to judge."""
        rows = self._rows
        if not rows.counts:
            return
        losses = Counter(row["id"] for row in rows.attempts if row["ending"] == "lost")
        recorded = {(row["id"], row["attempts"]) for row in rows.attempts}
        for row in rows.items:
            self._judge_item(row, losses[row["id"]], recorded)
        for row in rows.attempts:
            self._judge_attempt(row)
        ids = {row["id"] for row in rows.items}
        for item_id in self._promises.posted.keys() - ids:
            self._hold(False, item_id, NOT_TO_BE_FOUND)
        for key, times in Counter(row["key"] for row in rows.items).items():
            self._hold(times == 1, key, f"is the key of {times} items")
        kept = Counter(row["status"] for row in rows.items)
        for counts in rows.counts:
            self._hold({**counts} == kept, "the counts", f"are {dict(counts)}, of rows that are {dict(kept)}")

    def _judge_item(self, row: Message, losses: int, recorded: set[Attempt]) -> None:
        item_id, known = row["id"], self._promises.known(row["id"])
        self._hold(row["status"] in TERMINAL, item_id, f"is {row['status']} in the end (I7)")
        self._hold(row["holder"] == 0, item_id, "is held in the end")
        self._hold(known.end in ("", row["status"]), item_id, f"was {known.end} and is {row['status']} (I5)")
        self._hold(known.result in (None, row["result"]), item_id, "has another result (I2)")
        self._hold(row["attempts"] >= known.attempts, item_id, f"attempts fell from {known.attempts} (I4)")
        self._hold(row["rev"] >= known.rev, item_id, f"rev fell from {known.rev} (I5)")
        self._hold(self.keys.get(row["key"], item_id) == item_id, item_id, f"has the key {row['key']} of another")
        self._hold(row["failures"] <= self._fails[item_id], item_id, "was charged a failure that nobody said (I8)")
        self._hold(row["losses"] <= losses, item_id, f"was charged {row['losses']} losses, and has {losses} (I8)")
        for number in range(1, row["attempts"]):
            self._hold((item_id, number) in recorded, item_id, f"attempt {number} has no record")

    def _judge_attempt(self, row: Message) -> None:
        item_id, number = row["id"], row["attempts"]
        held_at = max(row["from"], self._held_at.get((item_id, number), 0))
        if row["ending"] == "lost":
            stood = any(pause.at <= row["to"] <= pause.until + self._terms.slack for pause in self._pauses)
            due = stood or self._was_cut(row, held_at) or self._lapsed(row)
            self._hold(due, item_id, f"attempt {number} was charged as lost for nothing")
        elif row["ending"] == "parted":
            latest = row["to"] - self._terms.grace + self._terms.slack
            due = any(held_at - self._terms.slack <= at <= latest for at in self._strikes)
            self._hold(due, item_id, f"attempt {number} was parted before its grace was over")

    def _was_cut(self, row: Message, held_at: int) -> bool:
        """Whether the connection that it was held on was cut, perhaps before: what swallows all ends later."""
        who = self._workers.get(row["worker"], "")
        came_at = max((at for at in self._came.get(who, ()) if at <= held_at), default=0)
        return any(came_at <= at <= row["to"] for at in self._cuts.get(who, ()))

    def _lapsed(self, row: Message) -> bool:
        renewed_at = max(row["from"], self._renewed_at.get((row["id"], row["attempts"]), 0))
        return bool(row["to"] + self._terms.slack >= renewed_at + self._terms.lease)
