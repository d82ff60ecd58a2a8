"""The checker of the kill loop catches what it is there for: faults planted into the clients' records, one each."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.promises import Promises

ITEM = "9f2c1a0b7d4e6f83"
VALUE = {"of": 1, "by": "box-1"}
OTHER = {"of": 1, "by": "box-2"}


def view(status: str, rev: int, attempts: int = 1, failures: int = 0, result: Any = None) -> dict[str, Any]:
    return {"id": ITEM, "status": status, "rev": rev, "attempts": attempts, "failures": failures, "result": result}


def ack(kind: str, status: str | None, *, accepted: bool = True, duplicate: bool = False) -> dict[str, Any]:
    return {"type": f"{kind}-ack", "id": ITEM, "accepted": accepted, "status": status, "duplicate": duplicate}


def claimed() -> Promises:
    """A post that was acknowledged, seen, and handed out."""
    promises = Promises()
    promises.post_acknowledged(ITEM, 1)
    promises.seen(view("pending", 1, 0), promises.known(ITEM))
    promises.handed(ITEM, 1, 1, promises.moment)
    return promises


def finished() -> Promises:
    promises = claimed()
    promises.result_answered(ack("result", "finished"), 1, VALUE, promises.known(ITEM))
    return promises


def released() -> Promises:
    promises = claimed()
    promises.given_up(ack("release", "pending"), 1, promises.known(ITEM))
    return promises


def failed() -> Promises:
    promises = claimed()
    promises.given_up(ack("fail", "pending"), 1, promises.known(ITEM))
    return promises


def test_an_honest_server_breaks_no_promise() -> None:
    promises = claimed()
    before = promises.known(ITEM)
    promises.given_up(ack("fail", "pending"), 1, before)
    promises.handed(ITEM, 2, 1, promises.moment)
    promises.resumed({"id": ITEM, "accepted": True, "status": "processing"}, 2, promises.known(ITEM))
    promises.result_answered(ack("result", "finished"), 2, VALUE, promises.known(ITEM))
    promises.result_answered(ack("result", "finished", accepted=False, duplicate=True), 2, VALUE, promises.known(ITEM))
    promises.seen(view("finished", 6, 2, 1, VALUE), promises.known(ITEM))
    promises.seen(view("processing", 2), before)  # It was asked for before the rest was known.
    assert promises.violations == []
    assert promises.open == set()


@pytest.mark.parametrize(
    ("history", "fault", "told"),
    [
        (claimed, lambda p: p.not_found(ITEM), "gone (I1)"),
        (claimed, lambda p: p.resumed({"id": ITEM, "accepted": False, "status": None}, 1, p.known(ITEM)), "(I1)"),
        (claimed, lambda p: p.post_acknowledged("0" * 16, 1), "second item of one post"),
        (claimed, lambda p: p.handed(ITEM, 2, 7, p.moment), "another item"),
        (claimed, lambda p: p.handed(ITEM, 1, 1, p.moment), "handed out twice (I4)"),
        (claimed, lambda p: p.seen(view("pending", 3, 0), p.known(ITEM)), "attempts fell"),
        (claimed, lambda p: p.never_ended(ITEM), "never handed out again (I7)"),
        (
            finished,
            lambda p: p.result_answered(ack("result", "finished"), 1, OTHER, p.known(ITEM)),
            "second result was accepted (I2)",
        ),
        (finished, lambda p: p.seen(view("finished", 3, result=OTHER), p.known(ITEM)), "another result (I2)"),
        (finished, lambda p: p.seen(view("finished", 3, result={"of": 2}), p.known(ITEM)), "of another item"),
        (finished, lambda p: p.seen(view("pending", 4), p.known(ITEM)), "was finished and is pending (I5)"),
        (finished, lambda p: p.handed(ITEM, 2, 1, p.moment), "handed out after it was finished (I5)"),
        (finished, lambda p: p.seen(view("finished", 0, result=VALUE), p.known(ITEM)), "rev 0 came after 1"),
        (finished, lambda p: p.given_up(ack("fail", "pending"), 1, p.known(ITEM)), "given up twice"),
        (released, lambda p: p.seen(view("processing", 4), p.known(ITEM)), "holds it again"),
        (
            released,
            lambda p: p.resumed({"id": ITEM, "accepted": True, "status": "processing"}, 1, p.known(ITEM)),
            "resumed after its end",
        ),
        (failed, lambda p: p.seen(view("pending", 4), p.known(ITEM)), "fail was forgotten"),
    ],
)
def test_a_broken_promise_is_caught(
    history: Callable[[], Promises], fault: Callable[[Promises], None], told: str
) -> None:
    promises = history()
    assert promises.violations == []
    fault(promises)
    assert [broken for broken in promises.violations if told in broken], promises.violations
