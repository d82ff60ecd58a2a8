"""What a worker says and when, without a socket: leases, claims, reports, over lost sockets."""

import json
import math
from typing import Any

import pytest

from client.bare_worker import DONE, Worker, busy
from client.scripted_peer import A, B, ack, error, item, resumed
from leaseway import resuming
from leaseway.claims import ANSWER_WITHIN, CLAIM_WAIT_MS, PAUSE
from leaseway.errors import LeaseLost, Rejected
from leaseway.leases import Answered, Ending, Renewed, Settled, Start, Stop
from leaseway.outcome import Outcome
from leaseway.protocol import Silent
from leaseway.worker_state import WorkerState


@pytest.mark.protocol("4.39")
def test_as_many_claims_wait_as_slots_are_free() -> None:
    worker = Worker(slots=3, criteria={"format": ["jpg", "png"]})
    claims = worker.connect()
    asked = {"waitMs": CLAIM_WAIT_MS, "criteria": {"format": ["jpg", "png"]}}
    assert [claim["claim"] for claim in claims] == [{**asked, "count": 3}]
    first, second = worker.start(claims[0], A), worker.start(claims[0], B)
    assert worker.said() == []
    result, claim = worker.settle(first)
    assert result["result"] == {"id": A, "attempts": 1, "value": {"width": 64}}
    assert claim["claim"] == asked
    assert "claim" in worker.settle(second)[1]
    worker.now += 60
    worker.tell({"type": "empty", "ref": claims[0]["ref"]})
    assert worker.one()["claim"] == asked


def test_what_is_said_in_one_turn_is_one_frame() -> None:
    worker = Worker(slots=2)
    (claim,) = worker.connect()
    leases = [worker.start(claim, A), worker.start(claim, B)]
    for lease in leases:
        worker.state.settle(lease, DONE, worker.now)
    frame = json.loads(worker.state.next_message() or b"")
    assert [next(iter(message)) for message in frame["batch"]] == ["result", "claim", "result", "claim"]
    assert worker.state.next_message() is None


def test_a_frame_holds_no_more_than_the_server_reads() -> None:
    worker = Worker(slots=3)
    (claim,) = worker.connect()
    leases = [worker.start(claim, f"{number:016x}") for number in range(3)]
    for lease in leases:
        worker.state.settle(lease, Outcome.result("x" * 400_000), worker.now)
    frames = list(iter(worker.state.next_message, None))
    assert [frame.count(b'"result"') for frame in frames if frame is not None] == [2, 1]


@pytest.mark.protocol("4.39")
def test_empty_renews_the_claim() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.now += 60
    worker.tell({"type": "empty", "ref": claim["ref"]})
    assert "claim" in worker.one()


def test_a_server_that_does_not_wait_is_not_asked_again_at_once() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.tell({"type": "empty", "ref": claim["ref"]})
    assert worker.said() == []
    assert worker.state.deadline == worker.now + PAUSE
    assert "claim" in worker.later(PAUSE)[0]


def test_criteria_that_are_no_json_are_refused_before_anything_is_said() -> None:
    with pytest.raises(Rejected):
        WorkerState("box-1", 1, {"width": math.nan})


def test_criteria_that_the_server_refuses_end_the_worker() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    with pytest.raises(Rejected, match="unknown operator"):
        worker.tell(error(claim, "bad-message", {"path": "/criteria/$x", "message": "unknown operator"}))


def test_a_claim_refused_for_the_moment_is_made_again() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.tell(error(claim, "unavailable"))
    assert worker.said() == []
    assert "claim" in worker.later(PAUSE)[0]


def test_a_lease_is_renewed_at_a_third_of_its_length() -> None:
    worker, _ = busy()
    assert worker.later(99.9) == []
    (renewal,) = worker.later(0.1)
    assert renewal["renew"] == {"id": A, "attempts": 1}
    worker.tell(ack(renewal))
    assert worker.later(99.9) == []
    assert "renew" in worker.later(0.1)[0]


def test_an_accepted_progress_is_a_renewal() -> None:
    worker, lease = busy()
    worker.now += 60
    ref = worker.progress(lease, {"percent": 40})
    progress = worker.one()
    assert progress == {"progress": {"id": A, "attempts": 1, "value": {"percent": 40}}, "ref": ref}
    assert worker.tell(ack(progress)) == [Answered(ref, None)]
    assert worker.later(99.9) == []
    assert "renew" in worker.later(0.1)[0]


def test_nothing_is_renewed_once_the_last_report_is_said() -> None:
    worker, lease = busy()
    worker.later(99)
    worker.settle(lease)
    assert worker.later(29) == []


def test_a_refused_renewal_stops_the_handler_and_frees_the_slot_only_when_it_has_ended() -> None:
    worker, lease = busy()
    (renewal,) = worker.later(100)
    assert worker.tell(ack(renewal, accepted=False)) == [Stop(lease, "fence")]
    assert worker.said() == []
    assert ["claim" in message for message in worker.settle(lease)] == [True]


def test_a_refused_progress_stops_the_handler() -> None:
    worker, lease = busy()
    ref = worker.progress(lease, {"percent": 40})
    stop, answer = worker.tell(ack(worker.one(), accepted=False))
    assert stop == Stop(lease, "fence")
    assert isinstance(answer, Answered)
    assert answer.ref == ref
    assert isinstance(answer.error, LeaseLost)


def test_a_cancel_stops_the_handler_and_answers_its_open_progress() -> None:
    worker, lease = busy()
    worker.progress(lease, {"percent": 40})
    stop, answer = worker.tell({"type": "cancel", "id": A, "reason": "cancelled"})
    assert stop == Stop(lease, "cancelled")
    assert isinstance(answer, Answered)
    assert isinstance(answer.error, LeaseLost)
    with pytest.raises(LeaseLost):
        worker.progress(lease, {"percent": 50})


def test_a_cancel_of_what_is_not_held_means_nothing() -> None:
    worker, _ = busy()
    assert worker.tell({"type": "cancel", "id": B, "reason": "lapsed"}) == []


def test_a_progress_that_its_schema_refuses_is_told_to_the_handler() -> None:
    worker, lease = busy()
    worker.progress(lease, {"percent": 101})
    fault = {"path": "/percent", "message": "101 is greater than 100"}
    (answer,) = worker.tell(error(worker.one(), "schema", fault, item_id=A))
    assert isinstance(answer, Answered)
    assert isinstance(answer.error, Rejected)
    assert answer.error.errors == [fault]


def test_a_result_that_its_schema_refuses_becomes_a_permanent_fail() -> None:
    worker, lease = busy()
    result, _ = worker.settle(lease)
    fault = {"path": "/width", "message": "a string is no integer"}
    worker.tell(error(result, "schema", fault, item_id=A))
    fail = worker.one()["fail"]
    assert (fail["attempts"], fail["retryable"]) == (1, False)
    assert fail["error"]["code"] == "schema"
    assert fail["error"]["detail"] == {"errors": [fault]}


@pytest.mark.parametrize("value", [math.inf, object(), 2**70, "\ud800"])
def test_a_result_that_is_no_json_becomes_a_permanent_fail(value: Any) -> None:
    worker, lease = busy()
    fail, _ = worker.settle(lease, Outcome.result({"value": value}))
    assert fail["fail"]["error"]["code"] == "bad-json"
    assert fail["fail"]["retryable"] is False


def test_a_result_larger_than_the_server_reads_becomes_a_permanent_fail() -> None:
    worker, lease = busy()
    fail, _ = worker.settle(lease, Outcome.result("x" * 1_048_576))
    assert fail["fail"]["error"]["code"] == "too-large"


def test_a_fail_that_is_refused_is_given_up() -> None:
    worker, lease = busy()
    fail, _ = worker.settle(lease, Outcome.raised(ValueError("bad picture")))
    worker.tell(error(fail, "too-large", item_id=A))
    worker.state.lost()
    assert ["claim" in message for message in worker.connect()] == [True]


def test_a_report_refused_for_the_moment_is_said_again() -> None:
    worker, lease = busy()
    result, _ = worker.settle(lease)
    worker.tell(error(result, "unavailable", item_id=A))
    assert worker.later(PAUSE / 2) == []
    assert worker.later(PAUSE / 2) == [result]


def test_after_a_lost_socket_resume_then_what_had_no_answer_then_claims() -> None:
    worker = Worker(slots=3)
    claims = worker.connect()
    first, second = worker.start(claims[0], A, 1), worker.start(claims[0], B, 7)
    worker.progress(first, {"percent": 40})
    (progress,) = worker.said()
    result, _ = worker.settle(second)
    worker.state.lost()
    assert worker.state.urgent
    resume, *reports, claim = worker.connect()
    assert resume["resume"] == {
        "worker": "box-1",
        "leases": [{"id": A, "attempts": 1}, {"id": B, "attempts": 7}],
    }
    assert reports == [progress, result]
    assert claim["claim"]["count"] == 2


def test_what_is_said_while_there_is_no_socket_is_said_on_the_next() -> None:
    worker, lease = busy()
    worker.state.lost()
    ref = worker.progress(lease, {"percent": 40})
    assert worker.settle(lease) == []
    resume, progress, result, _ = worker.connect()
    assert "resume" in resume
    assert progress["ref"] == ref
    assert result["result"]["value"] == {"width": 64}


def test_a_report_that_had_counted_already_is_not_said_a_third_time(caplog: pytest.LogCaptureFixture) -> None:
    worker, lease = busy()
    worker.settle(lease)
    worker.state.lost()
    resume, result, _ = worker.connect()
    refused = resumed(resume, A)
    assert worker.tell(refused) == []
    worker.tell(
        ack(result, accepted=False, status="finished", reason="terminal", duplicate=True),
    )
    assert not worker.state.urgent
    assert "result of" not in caplog.text
    worker.state.lost()
    assert ["claim" in message for message in worker.connect()] == [True]


def test_a_result_that_came_too_late_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker, lease = busy()
    result, _ = worker.settle(lease)
    assert worker.tell(ack(result, accepted=False)) == []
    assert f"result of {A}/1: fence" in caplog.text


def test_no_progress_follows_the_last_report() -> None:
    worker, lease = busy()
    worker.settle(lease)
    with pytest.raises(LeaseLost):
        worker.progress(lease, {"percent": 99})


def test_a_worker_that_has_gone_holds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    worker, lease = busy()
    worker.state.abandon()
    assert f"{A}/1 left behind" in caplog.text
    with pytest.raises(LeaseLost):
        worker.progress(lease, {"percent": 99})
    assert "result" not in worker.settle(lease)[0]


def test_renewals_are_not_repeated_on_a_new_socket() -> None:
    worker, _ = busy()
    assert "renew" in worker.later(100)[0]
    worker.state.lost()
    assert ["resume" in message for message in worker.connect()] == [True]


def test_a_refused_resume_stops_only_that_handler() -> None:
    worker = Worker(slots=2)
    claims = worker.connect()
    worker.start(claims[0], A)
    lost = worker.start(claims[0], B)
    worker.state.lost()
    (resume,) = worker.connect()
    assert worker.tell(resumed(resume, B)) == [Stop(lost, "not resumed")]


def test_a_resume_refused_for_the_moment_is_asked_again() -> None:
    worker, _ = busy()
    worker.state.lost()
    (resume,) = worker.connect()
    worker.tell(error(resume, "unavailable"))
    (again,) = worker.later(PAUSE)
    assert again["resume"] == resume["resume"]
    worker.tell(resumed(again))
    assert worker.later(PAUSE) == []


def test_many_are_resumed_in_parts_and_a_part_that_was_refused_for_the_moment_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resuming, "RESUME_AT_ONCE", 2)
    worker = Worker(slots=5)
    (claim,) = worker.connect()
    for number in range(5):
        worker.start(claim, f"{number:016x}")
    worker.state.lost()
    parts = worker.connect()
    assert [len(part["resume"]["leases"]) for part in parts] == [2, 2, 1]
    worker.tell(resumed(parts[0]), error(parts[1], "limit"), error(parts[2], "limit"))
    again = worker.later(PAUSE)
    assert [part["resume"] for part in again] == [part["resume"] for part in parts[1:]]
    worker.tell(*map(resumed, again))
    assert worker.later(PAUSE) == []


def test_an_outcome_after_the_lease_is_lost_is_not_reported() -> None:
    worker, lease = busy()
    worker.tell({"type": "cancel", "id": A, "reason": "lapsed"})
    assert ["claim" in message for message in worker.settle(lease)] == [True]


def test_the_same_item_claimed_anew_is_another_lease() -> None:
    worker = Worker(slots=2)
    claims = worker.connect()
    old = worker.start(claims[0], A, 1)
    stop, start = worker.tell(item(claims[0], A, 2))
    assert stop == Stop(old, "claimed again")
    assert isinstance(start, Start)
    assert worker.settle(old)[0].keys() == {"claim", "ref"}
    result, _ = worker.settle(start.lease)
    assert result["result"]["attempts"] == 2


def test_a_late_refusal_for_an_old_lease_leaves_the_new_one_alone() -> None:
    worker = Worker(slots=2)
    claims = worker.connect()
    worker.start(claims[0], A, 1, leaseMs=240_000)
    (renewal,) = worker.later(80)
    worker.tell(item(claims[0], A, 2))
    assert worker.tell(ack(renewal, accepted=False)) == []
    assert worker.later(100)[0]["renew"] == {"id": A, "attempts": 2}


def test_a_batch_is_taken_in_order() -> None:
    worker = Worker(slots=2)
    (claim,) = worker.connect()
    events = worker.tell({"type": "batch", "messages": [item(claim, A), item(claim, B)]})
    assert [event.lease.id for event in events if isinstance(event, Start)] == [A, B]


@pytest.mark.parametrize("value", [10**30, 2**60])
def test_a_release_that_cannot_be_said_or_is_refused_becomes_a_retryable_fail(value: int) -> None:
    worker, lease = busy()
    report, *_ = worker.settle(lease, Outcome("release", {"delayMs": value}))
    if "release" in report:
        fault = {"path": "/delayMs", "message": "too long"}
        worker.tell(error(report, "bad-message", fault, item_id=A))
        report = worker.one()
    assert report["fail"]["retryable"] is True
    assert report["fail"]["error"]["message"].startswith("the release was refused: bad-")


def test_a_renewal_that_is_refused_takes_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    worker, lease = busy()
    (renewal,) = worker.later(100)
    assert worker.tell(error(renewal, "bad-message", item_id=A)) == []
    assert "renew" in caplog.text
    assert "result" in worker.settle(lease)[0]


def test_an_error_that_answers_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker, _ = busy()
    assert worker.tell({"type": "error", "id": None, "code": "bad-message", "errors": []}) == []
    assert "bad-message" in caplog.text


def test_messages_of_a_later_protocol_are_passed_over() -> None:
    worker, _ = busy()
    worker.state.received({"type": "weather", "value": "fine"}, worker.now)
    assert worker.state.take_events() == []


def test_a_claim_without_its_answer_is_not_waited_for_for_ever() -> None:
    """Not past its `waitMs` and what an answer may take: a worker never sits there, alive and with nothing to do."""
    worker = Worker()
    worker.connect()
    overdue = CLAIM_WAIT_MS / 1000 + ANSWER_WITHIN
    assert worker.state.deadline == worker.now + overdue
    worker.later(overdue - 1)
    with pytest.raises(Silent):
        worker.later(1)
    worker.state.lost()
    assert "claim" in worker.connect()[0]


@pytest.mark.parametrize("verb", ["progress", "renew", "result"])
def test_a_report_without_its_answer_is_not_waited_for_for_ever(verb: str) -> None:
    worker, lease = busy()
    if verb == "renew":
        worker.later(100)
    elif verb == "progress":
        worker.progress(lease, {"percent": 40})
    else:
        worker.settle(lease)
    worker.later(ANSWER_WITHIN - 1)
    with pytest.raises(Silent):
        worker.later(1)
    worker.state.lost()
    assert len(worker.connect()) == (1 if verb == "renew" else 2 + (verb == "result"))


def test_a_worker_that_is_stopped_renews_nothing() -> None:
    """SIGSTOP. When it goes on before the lease has ended, it is renewed soon."""
    worker, _ = busy()
    worker.awake = False
    assert worker.later(150) == []
    worker.awake = True
    assert "renew" in worker.later(25)[0]


def test_a_worker_that_is_stopped_keeps_no_new_item_and_asks_for_none() -> None:
    worker = Worker()
    (claim,) = worker.connect()
    worker.awake = False
    assert worker.tell(item(claim)) == []
    release = worker.one()
    assert release["release"] == {"id": A, "attempts": 1}
    worker.tell(ack(release, status="pending"))
    assert worker.later(PAUSE) == []
    worker.awake = True
    assert "claim" in worker.later(PAUSE)[0]


def test_what_another_conversation_held_is_resumed_and_goes_on() -> None:
    _, lease = busy()
    heir = Worker()
    heir.state.adopt([lease])
    resume, *others = heir.connect()
    assert resume["resume"]["leases"] == [{"id": A, "attempts": 1}]
    assert others == []
    heir.tell(resumed(resume))
    result, claim = heir.settle(lease)
    assert ("result" in result, "claim" in claim) == (True, True)


def test_a_lease_whose_handler_was_told_to_stop_is_given_back_where_it_was_resumed_after_all() -> None:
    worker, lease = busy()
    assert "release" in worker.settle(lease, None)[0]


def test_every_lease_that_was_settled_is_told_so_once() -> None:
    worker, lease = busy()
    (result, _) = worker.settle(lease)
    worker.state.received(ack(result, status="finished"), worker.now)
    assert Settled(lease, Ending("result", "finished", "", "")) in worker.state.take_events()
    worker, lease = busy()
    worker.tell({"type": "cancel", "id": A, "reason": "lapsed"})
    worker.settle(lease)
    assert worker.state.take_events() == [Settled(lease)]
    worker, lease = busy()
    (fail, _) = worker.settle(lease, Outcome.raised(ValueError()))
    worker.state.received(error(fail, "too-large", item_id=A), worker.now)
    assert worker.state.take_events() == [
        Settled(lease, Ending("fail", None, str(Rejected("too-large", [])), "ValueError"))
    ]


def test_what_the_server_made_of_the_last_report_is_told() -> None:
    worker, lease = busy()
    fail, _ = worker.settle(lease, Outcome.raised(ValueError("no")))
    worker.state.received(ack(fail, status="dead"), worker.now)
    assert Settled(lease, Ending("fail", "dead", "", "ValueError: no")) in worker.state.take_events()
    worker, lease = busy()
    result, _ = worker.settle(lease)
    worker.state.received(error(result, "schema", item_id=A), worker.now)
    assert not [event for event in worker.state.take_events() if isinstance(event, Settled)]
    (fail,) = worker.said()
    worker.state.received(ack(fail, status="failed"), worker.now)
    assert Settled(lease, Ending("fail", "failed", "", "the result was refused: schema")) in worker.state.take_events()
    worker, lease = busy()
    result, _ = worker.settle(lease)
    worker.state.received(ack(result, accepted=False, status="processing", reason="fence"), worker.now)
    assert Settled(lease, Ending("result", "processing", "fence", "")) in worker.state.take_events()
    worker, lease = busy()
    result, _ = worker.settle(lease)
    worker.state.received(ack(result, accepted=False, status="finished", duplicate=True), worker.now)
    assert Settled(lease, Ending("result", "finished", "", "")) in worker.state.take_events()


def test_a_lease_ends_a_lease_after_its_last_renewal_was_said() -> None:
    worker, lease = busy()
    assert lease.until == worker.now + 300
    (renewal,) = worker.later(100)
    said = worker.now
    worker.now += 20
    worker.state.received(ack(renewal), worker.now)
    assert worker.state.take_events() == [Renewed(lease)]
    assert lease.until == said + 300
