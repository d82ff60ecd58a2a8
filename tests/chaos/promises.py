"""What clients were promised, and what they saw later: a checker that knows nothing but the clients' own records.

It holds PROTOCOL.md §7 and the invariants I1 to I5 against each answer. It speaks to no server. A broken promise is
noted in `violations` and does not end the run. Facts about one item only grow, so an answer is held against what was
known when its question was sent: `known` gives that, and `Facts` are never changed, only replaced.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

TERMINAL: Final = frozenset({"finished", "failed", "dead", "cancelled", "expired"})
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known for certain of one item. `over`: the last attempt that a fail, a release or a result ended."""

    rev: int = 0
    attempts: int = 0
    failures: int = 0
    over: int = 0
    end: str = ""
    result: Any = None


NOTHING: Final = Facts()


class Promises:
    """The record of all clients of one queue, over the deaths of its server."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.posted: dict[str, int] = {}
        """Acknowledged posts, by id: the number that the producer gave its item."""
        self.open: set[str] = set()
        """Those that nobody saw end."""
        self._facts: dict[str, Facts] = {}
        self._handed: set[tuple[str, int]] = set()
        self._accepted: set[str] = set()
        self._ids: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._ended_at: dict[str, int] = {}
        self._moment = 0

    def known(self, item_id: str) -> Facts:
        """What is certain now; ask before the question is sent."""
        return self._facts.get(item_id, NOTHING)

    @property
    def moment(self) -> int:
        """How much was learned until now; ask before a claim is sent."""
        return self._moment

    # ── What was promised ──

    def post_acknowledged(self, item_id: str, number: int, duplicate: bool = False) -> None:
        """A post was answered; `duplicate`: it had been done before, and that answer was lost."""
        self.counts["posts whose first answer was lost" if duplicate else "posts"] += 1
        self._is_same(item_id, number)
        self.posted[item_id] = number
        if not self.known(item_id).end:
            self.open.add(item_id)

    def handed(self, item_id: str, attempts: int, number: int, asked_at: int) -> None:
        """An `item` message; `asked_at` is the moment when the claim was sent."""
        self.counts["handed"] += 1
        self._is_same(item_id, number)
        self._hold((item_id, attempts) not in self._handed, item_id, f"attempt {attempts} was handed out twice (I4)")
        ended_at = self._ended_at.get(item_id, asked_at)
        self._hold(ended_at >= asked_at, item_id, f"was handed out after it was {self.known(item_id).end} (I5)")
        self._handed.add((item_id, attempts))
        self._learn(item_id, attempts=attempts)

    def result_answered(self, ack: Message, attempts: int, value: Any, before: Facts) -> None:
        """The ack of a result that was sent with this number."""
        item_id = ack["id"]
        self._hold(ack["status"] is not None, item_id, "was handed out and is unknown now (I1)")
        if ack["accepted"]:
            self.counts["results"] += 1
            self._hold(not before.end, item_id, f"a result was accepted after it was {before.end} (I5)")
            self._hold(item_id not in self._accepted, item_id, "a second result was accepted (I2)")
            self._hold(
                attempts >= before.attempts, item_id, f"a result of attempt {attempts} of {before.attempts} (I3)"
            )
        elif ack.get("duplicate"):
            self.counts["results whose first answer was lost"] += 1
        else:
            self.counts["results refused"] += 1
            return
        self._accepted.add(item_id)
        self._ends(item_id, "finished")
        self._learn(item_id, attempts=attempts, over=attempts, result=value)

    def given_up(self, ack: Message, attempts: int, before: Facts) -> None:
        """The ack of a fail or a release: from now on this attempt is over."""
        item_id, failed = ack["id"], ack["type"] == "fail-ack"
        if ack["accepted"]:
            self.counts["fails" if failed else "releases"] += 1
            self._hold(not before.end, item_id, f"{ack['type']} accepted after it was {before.end} (I5)")
            self._hold(attempts > before.over, item_id, f"attempt {attempts} was given up twice (charged once)")
            charged = failed and ack["status"] != "failed"  # A permanent fail is no failure of the budget.
            self._learn(item_id, over=attempts, failures=before.failures + charged)
            if ack["status"] in TERMINAL:
                self._ends(item_id, ack["status"])
        elif ack.get("duplicate"):
            self.counts["fails whose first answer was lost"] += 1
            self._learn(item_id, over=attempts)

    def resumed(self, lease: Message, attempts: int, before: Facts) -> None:
        """One lease's part of a `resume-ack`."""
        item_id = lease["id"]
        self._hold(lease["status"] is not None, item_id, "was leased and is unknown now (I1)")
        if lease["accepted"]:
            self.counts["resumed"] += 1
            self._hold(attempts > before.over, item_id, f"attempt {attempts} was resumed after its end")
            self._hold(attempts >= before.attempts, item_id, f"attempt {attempts} was resumed, not the last (I4)")

    # ── What was seen ──

    def seen(self, view: Message, before: Facts) -> None:
        """A view, from a GET or a monitor; `before` are the facts when it was asked for."""
        self.counts["views"] += 1
        item_id, status = view["id"], view["status"]
        self._hold(view["rev"] >= before.rev, item_id, f"rev {view['rev']} came after {before.rev} (I5)")
        self._hold(view["attempts"] >= before.attempts, item_id, f"attempts fell from {before.attempts} (I4)")
        self._hold(view["failures"] >= before.failures, item_id, "an acknowledged fail was forgotten (I1)")
        self._hold(not before.end or status == before.end, item_id, f"was {before.end} and is {status} (I5)")
        self._hold(before.result is None or view["result"] == before.result, item_id, "has another result (I2)")
        given_up = status == "processing" and view["attempts"] <= before.over
        self._hold(not given_up, item_id, f"attempt {before.over} had ended and holds it again")
        self._learn(item_id, rev=view["rev"], attempts=view["attempts"], failures=view["failures"])
        if status in TERMINAL:
            self._ends(item_id, status)
        if status == "finished":
            number = self._numbers.get(item_id)
            self._hold(number in (None, view["result"]["of"]), item_id, "has a result of another item (I2)")
            self._learn(item_id, result=view["result"])

    def not_found(self, item_id: str) -> None:
        """Somebody asked for an acknowledged post, and there is none."""
        self._hold(False, item_id, "was acknowledged and is gone (I1)")

    def never_ended(self, item_id: str) -> None:
        """All work was done, and this item is still open."""
        self._hold(False, item_id, "was never handed out again (I7)")

    # ── Within ──

    def _is_same(self, item_id: str, number: int) -> None:
        first = self._ids.setdefault(number, item_id)
        self._hold(first == item_id, item_id, f"is the second item of one post, after {first}")
        self._hold(self._numbers.setdefault(item_id, number) == number, item_id, f"is another item than {number} (I1)")

    def _ends(self, item_id: str, status: str) -> None:
        end = self.known(item_id).end
        self._hold(end in ("", status), item_id, f"was {end} and is {status} (I5)")
        self._ended_at.setdefault(item_id, self._moment)
        self.open.discard(item_id)
        self._learn(item_id, end=end or status)

    def _learn(self, item_id: str, result: Any = None, end: str = "", **least: int) -> None:
        self._moment += 1
        facts = self.known(item_id)
        if facts.result is not None and result is not None:
            self._hold(facts.result == result, item_id, "has another result (I2)")
        grown = {name: max(value, getattr(facts, name)) for name, value in least.items()}
        known_result = facts.result if facts.result is not None else result
        self._facts[item_id] = replace(facts, result=known_result, end=facts.end or end, **grown)

    def _hold(self, promise: bool, item_id: str, broken: str) -> None:
        if not promise:
            self.violations.append(f"{item_id} {broken}")
