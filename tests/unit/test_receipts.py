"""What a peer has proved to have: whatever was written before a ping that it answered."""

from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.web.receipts import Receipts


def test_only_a_ping_after_the_write_proves_it() -> None:
    receipts, told = Receipts(), list[str]()
    receipts.want(lambda: told.append("one"))
    receipts.asked(b"1")
    receipts.want(lambda: told.append("two"))
    for each in receipts.answered(b"1"):
        each()
    assert told == ["one"]
    assert receipts.due, "two was written since"
    assert receipts.answered(b"1") == [], "the same pong again proves nothing"


def test_a_pong_that_answers_no_ping_proves_nothing() -> None:
    receipts = Receipts()
    receipts.want(lambda: None)
    assert receipts.answered(b"") == []
    receipts.asked(b"1")
    assert receipts.answered(b"2") == receipts.answered(b"") == []


def test_a_pong_counts_for_the_pings_before_it() -> None:
    receipts = Receipts()
    receipts.want(lambda: None)
    receipts.asked(b"1")
    receipts.asked(b"2")
    assert len(receipts.answered(b"2")) == 1
    assert receipts.answered(b"1") == []


def test_a_ping_is_due_where_something_waits_and_none_is_under_way() -> None:
    receipts, due = Receipts(), list[bool]()
    for step in (
        lambda: receipts.asked(b"0"),
        lambda: receipts.want(lambda: None),
        lambda: receipts.asked(b"1"),
        lambda: receipts.want(lambda: None),
        lambda: receipts.answered(b"1"),
        receipts.clear,
    ):
        step()
        due.append(receipts.due)
    assert due == [False, True, False, False, True, False]


@given(st.lists(st.sampled_from(["write", "ping", "pong", "last pong", "stray pong"])))
def test_whoever_is_told_was_written_before_an_answered_ping_and_all_of_those_are(steps: list[str]) -> None:
    receipts, told = Receipts(), list[int]()
    written, pings, proved = 0, list[tuple[bytes, int]](), 0
    for number, step in enumerate(steps):
        if step == "write":
            receipts.want(lambda index=written: told.append(index))  # type: ignore[misc]
            written += 1
        elif step == "ping":
            pings.append((str(number).encode(), written))
            receipts.asked(pings[-1][0])
        else:
            payload = b"stray"
            if pings and step != "stray pong":
                at = 0 if step == "pong" else len(pings) - 1
                payload, before = pings[at]
                proved = max(proved, before)
                del pings[: at + 1]
            for each in receipts.answered(payload):
                each()
        assert told == list(range(proved))
