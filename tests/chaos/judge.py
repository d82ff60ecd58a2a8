"""Whether what clients heard from several servers, and what is in the database in the end, can be right.

    violations = judge(journal.entries, TERMS)

A pure function of the journal: it asks no server, knows no clock and none of the server's code. The invariants I1 to I5
are held by `promises.py`, to which the journal is told line by line; here are the rules about leases and posts that
several servers could break, in `ends.py` those about what producers learn, in `remains.py` those about the rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from chaos.ends import Ends
from chaos.journals import Entry, Heard, Message, Said, Told
from chaos.promises import NOTHING, Facts, Promises
from chaos.remains import Remains
from chaos.terms import Terms

_ABOUT_ONE: Final = frozenset({"get", "progress", "renew", "result", "fail", "release", "cancel"})
"""What is said of one item."""
_REPEATED: Final = frozenset({"post", "result", "fail"})
"""What may be said again where its answer was lost; the second answer is then that it is a duplicate."""


@dataclass(slots=True)
class _Question:
    """What was said, and what was certain then of the items that it names. `refused`: it was, so nothing is done."""

    said: Said
    moment: int
    before: dict[str, Facts] = field(default_factory=dict)
    refused: bool = False


class Judge:
    """The fold over a journal: `take` each entry, then `close`. `violations` grows meanwhile."""

    def __init__(self, terms: Terms) -> None:
        self.promises = Promises()
        self.ends = Ends(self.promises, self._hold)
        self._remains = Remains(terms, self.promises, self._hold)
        self._questions: dict[int, _Question] = {}
        self._alike: dict[str, list[_Question]] = {}
        self._holders: dict[tuple[str, int], str] = {}
        self._new: set[str] = set()

    @property
    def violations(self) -> list[str]:
        """What was broken, by item where it is about one."""
        return self.promises.violations

    def take(self, entry: Entry) -> None:
        """The next entry."""
        match entry:
            case Said():
                self._on_said(entry)
            case Heard(ref=ref, message=message):
                self._on_heard(self._questions[ref], message)
            case Told():
                self._on_told(entry)
            case _:
                self._remains.take(entry)

    def close(self) -> list[str]:
        """There is no more. Gives all violations."""
        self.ends.close()
        self._remains.close()
        return self.violations

    def _hold(self, promise: bool, subject: str, broken: str) -> None:
        if not promise:
            self.violations.append(f"{subject} {broken}")

    # ── What is said ──

    def _on_said(self, said: Said) -> None:
        question = self._questions[said.ref] = _Question(said, self.promises.moment)
        question.before = {item_id: self.promises.known(item_id) for item_id in _named(said)}
        if said.verb in _REPEATED:
            self._alike.setdefault(_subject(said), []).append(question)
        if said.verb in ("claim", "resume"):
            self._remains.works_as(said.who, said.body["worker"])
        elif said.verb == "fail":
            self._remains.failed(said.body["id"])
        self.ends.on_said(said)

    # ── What is heard ──

    def _on_heard(self, question: _Question, message: Message) -> None:
        if message["type"] == "error":
            self._on_error(question, message)
            return
        match question.said.verb:
            case "post":
                self._on_posted(question, message)
            case "get":
                self.promises.seen(message, question.before[message["id"]])
                self.ends.on_view(question.said, message)
            case "claim":
                self._on_claimed(question, message)
            case "resume":
                self._on_resumed(question, message)
            case "cancel":
                self._hold(message["status"] is not None, message["id"], "was acknowledged and is gone (I1)")
            case _:
                self._on_ack(question, message)

    def _on_error(self, question: _Question, message: Message) -> None:
        """Only what servers may say to such clients: a key is another item's, or they cannot write at the moment."""
        said, code = question.said, message["code"]
        question.refused = True
        if said.verb == "get" and code == "not-found":
            self.promises.not_found(said.body["id"])
        elif said.verb == "post" and code == "conflict":
            others = [each for each in self._alike[_subject(said)] if each.said.body["item"] != said.body["item"]]
            self._hold(bool(others), said.body["key"], "is refused as another item's, and there is none")
        else:
            self._hold(code == "unavailable", said.verb, f"was refused: {code} {message.get('errors')}")

    def _on_posted(self, question: _Question, message: Message) -> None:
        said, item_id = question.said, message["id"]
        key, duplicate = said.body["key"], message["duplicate"]
        if duplicate:
            self._hold_repeated(question, key)
        else:
            self._hold(key not in self._new, key, "names two items: both were new")
            self._new.add(key)
        self.promises.post_acknowledged(item_id, said.body["item"]["number"], duplicate)
        first = self._remains.keys.setdefault(key, item_id)
        self._hold(first == item_id, key, f"names two items: {first} and {item_id}")
        self.ends.on_posted(said, item_id)

    def _hold_repeated(self, question: _Question, subject: str) -> None:
        """A duplicate is one of something: of what was said before, and not refused as not done.

        A library that says by itself again what had no answer is heard only once, and `repeats`.
        """
        said = question.said
        others = [each for each in self._alike[_subject(said)] if each is not question and not each.refused]
        self._hold(bool(others) or said.body.get("repeats", False), subject, f"{said.verb} is a duplicate of nothing")

    def _on_told(self, told: Told) -> None:
        question = self._questions[told.ref]
        self.promises.seen(told.view, question.before.get(told.view["id"], NOTHING))
        self.ends.on_told(told)

    # ── Leases ──

    def _on_claimed(self, question: _Question, message: Message) -> None:
        if message["type"] == "item":
            item_id, attempts = message["id"], message["attempts"]
            self.promises.handed(item_id, attempts, message["item"]["number"], question.moment)
            self._holds(question.said, item_id, attempts)
            self._remains.holds((item_id, attempts), question.said.at)

    def _on_resumed(self, question: _Question, message: Message) -> None:
        for asked, lease in zip(question.said.body["leases"], message["leases"], strict=True):
            item_id, attempts = lease["id"], asked["attempts"]
            self.promises.resumed(lease, attempts, question.before[item_id])
            if lease["accepted"]:
                self._holds(question.said, item_id, attempts)
                self._remains.holds((item_id, attempts), question.said.at)

    def _holds(self, said: Said, item_id: str, attempts: int) -> None:
        """For all that it was told, this worker has the lease of this attempt."""
        worker = said.body["worker"]
        holder = self._holders.setdefault((item_id, attempts), worker)
        self._hold(holder == worker, item_id, f"attempt {attempts} is held by {worker} and by {holder} (I4)")

    def _on_ack(self, question: _Question, ack: Message) -> None:
        said, item_id, attempts = question.said, ack["id"], question.said.body["attempts"]
        question.refused = not ack["accepted"]
        if ack["accepted"]:
            self._holds(said, item_id, attempts)
        elif ack.get("duplicate"):
            self._hold_repeated(question, item_id)
        before = question.before[item_id]
        if said.verb == "result":
            self.promises.result_answered(ack, attempts, said.body["value"], before)
        elif said.verb in ("fail", "release"):
            self.promises.given_up(ack, attempts, before)
        elif ack["accepted"]:
            self._on_renewed(said, item_id, attempts, before)

    def _on_renewed(self, said: Said, item_id: str, attempts: int, before: Facts) -> None:
        """Only the holder renews, and only while nobody else holds it, and nothing has ended it."""
        self._hold(not before.end, item_id, f"a lease was renewed after it was {before.end} (I5)")
        self._hold(attempts >= before.attempts, item_id, f"a lease of attempt {attempts} of {before.attempts} (I4)")
        self._hold(attempts > before.over, item_id, f"a lease of attempt {attempts} was renewed after its end")
        self._remains.renewed((item_id, attempts), said.at)


def _named(said: Said) -> Iterable[str]:
    """The items that a question is about."""
    if said.verb in _ABOUT_ONE:
        return (str(said.body["id"]),)
    if said.verb == "resume":
        return [lease["id"] for lease in said.body["leases"]]
    return list(said.body["ids"]) if said.verb == "subscribe" else ()


def _subject(said: Said) -> str:
    """What is equal where the same is said again."""
    if said.verb == "post":
        return f"post {said.body['key']}"
    return f"{said.verb} {said.body['id']}/{said.body['attempts']}"


def judge(entries: Iterable[Entry], terms: Terms) -> list[str]:
    """All that is broken in this journal; none where it is an honest one."""
    judging = Judge(terms)
    for entry in entries:
        judging.take(entry)
    return judging.close()
