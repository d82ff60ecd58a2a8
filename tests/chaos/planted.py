"""Faults that are planted into a journal: what a broken server, or a broken client, would have had clients write.

Each takes an honest journal and gives one with a single fault, at a place that chance chooses among those where it may
be: `IndexError` where there is none. The judge is to find each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, TypeAlias, TypeGuard

from chaos.journals import Entry, Heard, Kept, Said, Struck, Told
from chaos.promises import TERMINAL

Journal: TypeAlias = Sequence[Entry]
Fault: TypeAlias = Callable[[Journal, Random], list[Entry]]
STRANGE: Final = {"of": -1, "attempts": 1, "by": "nobody"}


def _places(journal: Journal, wanted: Callable[[Any], bool]) -> list[int]:
    return [place for place, entry in enumerate(journal) if wanted(entry)]


def _changed(
    journal: Journal, dice: Random, wanted: Callable[[Any], bool], change: Callable[[Any], Sequence[Entry]]
) -> list[Entry]:
    """One of the entries that are wanted becomes what `change` makes of it."""
    place = dice.choice(_places(journal, wanted))
    return [*journal[:place], *change(journal[place]), *journal[place + 1 :]]


def _accepted(verb: str) -> Callable[[Entry], bool]:
    return lambda entry: isinstance(entry, Heard) and entry.message["type"] == f"{verb}-ack" and _is_true(entry)


def _is_true(heard: Heard) -> bool:
    return heard.message.get("accepted") is True


def _ended(entry: Entry) -> TypeGuard[Told]:
    return isinstance(entry, Told) and entry.view["status"] in TERMINAL


def _with(message: Mapping[str, Any], **changes: object) -> dict[str, Any]:
    return {**message, **changes}


# ── What is said to workers ──


def result_accepted_twice(journal: Journal, dice: Random) -> list[Entry]:
    """Another worker's result is accepted too, later on."""
    said = {entry.ref: entry for entry in journal if isinstance(entry, Said)}

    def twice(heard: Heard) -> list[Entry]:
        question = said[heard.ref]
        body = _with(question.body, worker="thief", value=STRANGE)
        again = Said(heard.at, "thief", -1, "result", body)
        return [heard, again, replace(heard, who="thief", ref=-1)]

    return _changed(journal, dice, _accepted("result"), twice)


def attempt_handed_out_twice(journal: Journal, dice: Random) -> list[Entry]:
    """Two workers are told of one attempt."""

    def twice(heard: Heard) -> list[Entry]:
        claim = Said(heard.at, "thief", -1, "claim", {"worker": "thief"})
        return [heard, claim, replace(heard, who="thief", ref=-1)]

    return _changed(journal, dice, lambda e: isinstance(e, Heard) and e.message["type"] == "item", twice)


def lease_renewed_by_another(journal: Journal, dice: Random) -> list[Entry]:
    """Who does not hold it renews it."""

    def other(heard: Heard) -> list[Entry]:
        body = {"worker": "thief", "id": heard.message["id"], "attempts": heard.message["attempts"]}
        ack = {"type": "renew-ack", "id": heard.message["id"], "accepted": True, "status": "processing"}
        return [heard, Said(heard.at, "thief", -1, "renew", body), Heard(heard.at, "thief", -1, ack)]

    return _changed(journal, dice, lambda e: isinstance(e, Heard) and e.message["type"] == "item", other)


def fence_that_fell(journal: Journal, dice: Random) -> list[Entry]:
    """An old attempt's result is accepted after a later claim was seen."""

    def old(told: Told) -> list[Entry]:
        item_id = told.view["id"]
        body = {"worker": "late", "id": item_id, "attempts": told.view["attempts"] - 1, "value": STRANGE}
        ack = {"type": "result-ack", "id": item_id, "accepted": True, "status": "finished"}
        return [told, Said(told.at, "late", -1, "result", body), Heard(told.at, "late", -1, ack)]

    def wanted(entry: Entry) -> bool:
        return isinstance(entry, Told) and entry.view["status"] == "processing" and entry.view["attempts"] > 1

    return _changed(journal, dice, wanted, old)


# ── What is said to producers ──


def post_lost(journal: Journal, dice: Random) -> list[Entry]:
    """What was acknowledged is not in the database."""
    posted = {e.message["id"] for e in journal if isinstance(e, Heard) and e.message["type"] == "posted"}
    return _changed(journal, dice, lambda e: _item_row(e) and e.row["id"] in posted, lambda _row: [])


def post_gone(journal: Journal, dice: Random) -> list[Entry]:
    """A look at it finds nothing."""
    gone = {"type": "error", "code": "not-found"}
    asked = {entry.ref for entry in journal if isinstance(entry, Said) and entry.verb == "get"}

    def wanted(entry: Entry) -> bool:
        return isinstance(entry, Heard) and entry.ref in asked and entry.message["type"] == "status"

    return _changed(journal, dice, wanted, lambda heard: [replace(heard, message=gone)])


def key_with_two_items(journal: Journal, dice: Random) -> list[Entry]:
    """A post is done a second time under its key."""
    said = {entry.ref: entry for entry in journal if isinstance(entry, Said)}

    def second(heard: Heard) -> list[Entry]:
        again = Said(heard.at, "twin", -1, "post", said[heard.ref].body)
        message = _with(heard.message, id="f" * 16)
        return [heard, again, Heard(heard.at, "twin", -1, message)]

    return _changed(journal, dice, _new, second)


def _new(entry: Entry) -> bool:
    return isinstance(entry, Heard) and entry.message["type"] == "posted" and not entry.message["duplicate"]


def duplicate_of_nothing(journal: Journal, dice: Random) -> list[Entry]:
    """A post that was said once, by one who says nothing twice, is called a duplicate."""
    keys = [entry.body["key"] for entry in journal if isinstance(entry, Said) and entry.verb == "post"]
    once = {
        entry.ref
        for entry in journal
        if isinstance(entry, Said) and entry.verb == "post" and keys.count(entry.body["key"]) == 1
        if "repeats" not in entry.body
    }

    def duplicate(heard: Heard) -> list[Entry]:
        return [replace(heard, message=_with(heard.message, duplicate=True))]

    return _changed(journal, dice, lambda e: _new(e) and e.ref in once, duplicate)


def end_missing(journal: Journal, dice: Random) -> list[Entry]:
    """A producer never learns an end."""
    told = dice.choice([entry for entry in journal if _ended(entry)])
    learned = told.who, told.view["id"]
    return [entry for entry in journal if not (_ended(entry) and (entry.who, entry.view["id"]) == learned)]


def end_told_twice(journal: Journal, dice: Random) -> list[Entry]:
    """A producer is told an end again, on the subscription that told it."""
    mine = {entry.ref for entry in journal if isinstance(entry, Said) and entry.body.get("mine")}
    return _changed(journal, dice, lambda e: _ended(e) and e.ref not in mine, lambda told: [told, told])


def end_told_early(journal: Journal, dice: Random) -> list[Entry]:
    """An end is told before anybody said what makes it so."""
    begun: dict[int, int] = {}
    causes: dict[str, int] = {}
    for place, entry in enumerate(journal):
        if isinstance(entry, Said):
            begun[entry.ref] = place
            if entry.verb == "result":
                causes.setdefault(str(entry.body["value"]), place)

    def told(entry: Entry) -> tuple[int, int]:
        """Where it was said what made it end so, and where the subscription began that told of it."""
        return (causes.get(str(entry.view["result"]), 0), begun[entry.ref]) if isinstance(entry, Told) else (0, 0)

    place = dice.choice([place for place, (said, watched) in enumerate(map(told, journal)) if watched < said])
    said, _ = told(journal[place])
    return [*journal[:said], journal[place], *journal[said:place], *journal[place + 1 :]]


def rev_backwards(journal: Journal, dice: Random) -> list[Entry]:
    """An older view comes after a newer one."""
    older = {"status": "pending", "rev": 1, "attempts": 0, "failures": 0, "result": None}

    def back(told: Told) -> list[Entry]:
        return [told, replace(told, view=_with(told.view, **older))]

    return _changed(journal, dice, lambda e: isinstance(e, Told) and e.view["rev"] > 1, back)


def end_that_was_none(journal: Journal, dice: Random) -> list[Entry]:
    """What had ended is handed out again."""

    def again(told: Told) -> list[Entry]:
        claim = Said(told.at, "late", -1, "claim", {"worker": "late"})
        item = {"type": "item", "id": told.view["id"], "attempts": told.view["attempts"] + 1, "item": {"number": -1}}
        return [told, claim, Heard(told.at, "late", -1, item)]

    return _changed(journal, dice, _ended, again)


def result_replaced(journal: Journal, dice: Random) -> list[Entry]:
    """Another result is in the database than the one that was accepted."""

    def wanted(entry: Entry) -> bool:
        return isinstance(entry, Kept) and entry.kind == "item" and entry.row["status"] == "finished"

    return _changed(journal, dice, wanted, lambda kept: [replace(kept, row=_with(kept.row, result=STRANGE))])


# ── What is left ──


def lease_left(journal: Journal, dice: Random) -> list[Entry]:
    """An item is held for ever."""
    held = {"status": "processing", "holder": 1, "result": None}
    return _changed(journal, dice, _item_row, lambda kept: [replace(kept, row=_with(kept.row, **held))])


def _item_row(entry: Entry) -> TypeGuard[Kept]:
    return isinstance(entry, Kept) and entry.kind == "item"


def counts_apart(journal: Journal, dice: Random) -> list[Entry]:
    """The counts are not those of the rows."""

    def more(kept: Kept) -> list[Entry]:
        return [replace(kept, row=_with(kept.row, pending=1))]

    return _changed(journal, dice, lambda e: isinstance(e, Kept) and e.kind == "counts", more)


def loss_for_nothing(journal: Journal, dice: Random) -> list[Entry]:
    """A planned restart is charged as a loss."""

    def charged(kept: Kept) -> list[Entry]:
        row = _with(kept.row, losses=kept.row["losses"] + 1)
        attempt = {"id": row["id"], "attempts": row["attempts"], "worker": "nobody", "ending": "lost"}
        times = {"from": kept.at, "to": kept.at + 1}
        return [replace(kept, row=row), Kept(kept.at, "attempt", {**attempt, **times})]

    return _changed(journal, dice, _item_row, charged)


def parted_too_soon(journal: Journal, dice: Random) -> list[Entry]:
    """What a worker held on a server that went is given to others at once."""

    def soon(struck: Struck) -> list[Entry]:
        times = {"from": struck.at - 1, "to": struck.at + 1}
        row = {"id": "e" * 16, "attempts": 1, "worker": "nobody", "ending": "parted", **times}
        return [struck, Kept(struck.at, "attempt", row)]

    return _changed(journal, dice, lambda e: isinstance(e, Struck) and e.sockets, soon)


def failure_that_nobody_said(journal: Journal, dice: Random) -> list[Entry]:
    """An item is charged a failure more than workers said."""

    def charged(kept: Kept) -> list[Entry]:
        return [replace(kept, row=_with(kept.row, failures=kept.row["failures"] + 9))]

    return _changed(journal, dice, _item_row, charged)


FAULTS: Final[dict[Fault, str]] = {
    result_accepted_twice: "(I2)",
    attempt_handed_out_twice: "was handed out twice (I4)",
    lease_renewed_by_another: "is held by thief",
    fence_that_fell: "(I3)",
    post_lost: "is not in the database (I1)",
    post_gone: "is gone (I1)",
    key_with_two_items: "names two items",
    duplicate_of_nothing: "post is a duplicate of nothing",
    end_missing: "never learned",
    end_told_twice: "to have ended, twice",
    end_told_early: "too early",
    rev_backwards: "(I6)",
    end_that_was_none: "was handed out after it was",
    result_replaced: "has another result (I2)",
    lease_left: "in the end (I7)",
    counts_apart: "the counts are",
    loss_for_nothing: "was charged as lost for nothing",
    parted_too_soon: "before its grace was over",
    failure_that_nobody_said: "a failure that nobody said (I8)",
}
"""Each, and what is told of it."""
