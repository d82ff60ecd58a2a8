"""A worker that stops loses nothing: what it says, and when it is quiet, at every stage; without a socket."""

from client.bare_worker import Worker, busy
from client.scripted_peer import A, B, ack, error, item
from leaseway.claims import PAUSE
from leaseway.leases import Drained, Quiet
from leaseway.outcome import Outcome


def test_the_claims_that_wait_are_withdrawn_and_each_is_waited_for() -> None:
    worker = Worker(slots=2)
    (first,) = worker.connect()
    lease = worker.start(first)
    result, second = worker.settle(lease)
    worker.state.drain()
    assert worker.one()["unclaim"] is True
    assert worker.tell({"type": "empty", "ref": first["ref"]}) == []
    assert not worker.state.quiet
    assert worker.tell({"type": "empty", "ref": second["ref"]}) == []
    assert not worker.state.quiet
    assert worker.tell(ack(result, status="finished")) == [Quiet()]
    assert worker.said() == []


def test_an_item_that_was_on_its_way_is_given_back_before_it_is_quiet() -> None:
    worker = Worker(slots=2)
    (claim,) = worker.connect()
    lease = worker.start(claim, A)
    worker.state.drain()
    assert "unclaim" in worker.one()
    assert worker.tell(item(claim, B)) == []
    release = worker.one()
    assert release["release"] == {"id": B, "attempts": 1}
    (result,) = worker.settle(lease)
    worker.tell(ack(result, status="finished"))
    assert not worker.state.quiet
    worker.tell(ack(release, status="pending"))
    assert worker.state.quiet


def test_nothing_is_withdrawn_where_no_claim_waits() -> None:
    worker, lease = busy()
    worker.state.drain()
    assert worker.said() == []
    (result,) = worker.settle(lease)
    worker.tell(ack(result, status="finished"))
    assert worker.state.quiet


def test_a_withdrawal_refused_for_the_moment_is_said_again() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.state.drain()
    worker.tell(error(worker.one(), "unavailable"))
    assert worker.later(PAUSE / 2) == []
    assert worker.later(PAUSE / 2)[0]["unclaim"] is True
    worker.tell({"type": "empty", "ref": claim["ref"]})
    assert worker.later(PAUSE) == []
    assert worker.state.quiet


def test_a_refusal_of_something_else_withdraws_nothing() -> None:
    worker = Worker()
    worker.connect()
    worker.tell({"type": "error", "id": None, "code": "limit", "errors": []})
    assert worker.later(PAUSE) == []


def test_a_claim_refused_while_it_is_withdrawn_is_over_too() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.state.drain()
    worker.tell(error(claim, "unavailable"))
    assert worker.state.quiet


def test_claims_end_with_their_socket() -> None:
    worker = Worker()
    worker.connect()
    worker.state.drain()
    worker.tell(error(worker.one(), "unavailable"))
    worker.state.lost()
    assert worker.state.quiet
    assert worker.connect() == []
    assert worker.later(PAUSE) == []


def test_without_a_socket_there_is_nothing_to_withdraw() -> None:
    worker = Worker()
    worker.state.drain()
    assert worker.state.quiet
    assert worker.connect() == []


def test_a_report_that_found_no_socket_is_waited_for_on_the_next() -> None:
    worker, lease = busy()
    worker.state.lost()
    worker.state.drain()
    assert worker.settle(lease) == []
    assert not worker.state.quiet
    _, result = worker.connect()
    worker.tell(ack(result, status="finished"))
    assert worker.state.quiet


def test_a_worker_that_drains_the_queue_asks_until_nothing_is_left_and_nothing_runs() -> None:
    worker = Worker(slots=2, until_empty=True)
    (claim,) = worker.connect()
    assert claim["claim"] == {"count": 2}
    lease = worker.start(claim)
    assert worker.tell({"type": "empty", "ref": claim["ref"]}) == []
    assert worker.said() == []  # Not before the handler has ended: it may put something back.
    release, claim = worker.settle(lease, Outcome.release())
    assert ("release" in release, claim["claim"]) == (True, {"count": 2})
    lease = worker.start(claim, attempts=2)
    assert worker.tell({"type": "empty", "ref": claim["ref"]}) == []
    _, claim = worker.settle(lease)
    assert worker.tell({"type": "empty", "ref": claim["ref"]}) == [Drained()]
    assert worker.later(PAUSE) == []


def test_a_claim_refused_for_the_moment_does_not_mean_that_the_queue_is_empty() -> None:
    worker = Worker(until_empty=True)
    (claim,) = worker.connect()
    assert worker.tell(error(claim, "unavailable")) == []
    (claim,) = worker.later(PAUSE)
    worker.state.lost()
    (claim,) = worker.connect()
    assert worker.tell({"type": "empty", "ref": claim["ref"]}) == [Drained()]


def test_one_of_two_claims_that_found_nothing_is_not_made_again_while_the_other_is_under_way() -> None:
    worker = Worker(slots=2, until_empty=True)
    (first,) = worker.connect()
    lease = worker.start(first)
    result, second = worker.settle(lease)
    worker.tell(ack(result, status="finished"), {"type": "empty", "ref": first["ref"]})
    assert worker.said() == []
    assert worker.tell({"type": "empty", "ref": second["ref"]}) == [Drained()]
