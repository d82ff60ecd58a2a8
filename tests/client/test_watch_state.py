"""What a client says and when, without a socket: posts, subscriptions, stale views, over lost sockets."""

import json
import math
from typing import Any

import pytest

from client.scripted_peer import A, B, Message, error, hello, posted, status
from leaseway import watch_state
from leaseway.errors import Rejected
from leaseway.protocol import View, encode
from leaseway.watch_state import (
    ANSWER_WITHIN,
    Changed,
    Event,
    NotWatched,
    Offline,
    Online,
    Posted,
    PostLost,
    PostRefused,
    Watched,
    WatchState,
)
from support.wire import check_client, check_server


class Producer:
    """A client's state, a clock, and the server's words."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.state = WatchState()

    def connect(self) -> list[Message]:
        """A socket opens; what is said on it first."""
        check_client("monitor", json.loads(self.state.hello()))
        self.state.opened(hello(), self.now)
        assert self.state.take_events() == [Online()]
        return self.said()

    def lose(self) -> list[Event]:
        """The socket is lost; what came of it."""
        self.state.lost()
        offline, *others = self.state.take_events()
        assert offline == Offline()
        return others

    def said(self) -> list[Message]:
        """All that wants to be sent, as the server will read it."""
        messages = []
        while (data := self.state.next_message()) is not None:
            check_client("monitor", message := json.loads(data))
            messages.append(message)
        return messages

    def tell(self, *messages: Message) -> list[Event]:
        """The server says this; what came of it."""
        for message in messages:
            check_server("monitor", message)
            self.state.received(message, self.now)
        return self.state.take_events()

    def watch(self, *ids: str) -> list[Watched]:
        """Somebody watches these items."""
        items = [self.state.item(item_id) for item_id in ids]
        self.state.watch(items, self.now)
        return items


def online() -> Producer:
    """A producer with a socket."""
    producer = Producer()
    assert producer.connect() == []
    return producer


def test_a_post_is_watched_from_the_start() -> None:
    producer = online()
    ref = producer.state.post({"item": {"width": 64}})
    (post,) = producer.said()
    assert post == {"post": {"item": {"width": 64}, "subscribe": True}, "ref": ref}
    answer, change = producer.tell(posted(post), status())
    assert isinstance(answer, Posted)
    assert answer.ref == ref
    (accepted,) = answer.items
    assert not accepted.duplicate
    assert change == Changed(accepted.watched)
    assert accepted.watched.view is not None
    assert accepted.watched.view.status == "pending"


def test_a_post_waits_for_a_socket_and_is_sent_once() -> None:
    producer = Producer()
    producer.state.post({"item": {"width": 64}})
    (post,) = producer.connect()
    assert producer.lose() == [PostLost(post["ref"])]
    assert producer.connect() == []


def test_a_post_that_nobody_waits_for_any_more_is_not_sent() -> None:
    producer = Producer()
    assert producer.state.forget_post(producer.state.post({"item": {"width": 64}}))
    assert producer.connect() == []


def test_a_post_given_up_too_late_is_unsubscribed() -> None:
    producer = online()
    ref = producer.state.post({"item": {"width": 64}})
    (post,) = producer.said()
    assert not producer.state.forget_post(ref)
    assert producer.tell(posted(post), status()) == []
    assert producer.said() == [{"unsubscribe": [A]}]


def test_a_refused_post_is_told() -> None:
    producer = online()
    producer.state.post({"item": {"width": "x"}})
    (post,) = producer.said()
    fault = {"path": "/item/width", "message": "not an integer"}
    (refused,) = producer.tell(error(post, "schema", fault))
    assert isinstance(refused, PostRefused)
    assert refused.ref == post["ref"]
    assert (refused.error.code, refused.error.errors) == ("schema", [fault])


def test_who_only_posts_stays_below_the_limit_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_state, "WATCH_POSTS_UP_TO", 2)
    producer = online()
    for width in range(3):
        producer.state.post({"item": {"width": width}})
    posts = producer.said()
    assert [post["post"].get("subscribe", False) for post in posts] == [True, True, False]
    (answer,) = producer.tell(posted(posts[2], B))
    assert isinstance(answer, Posted)
    producer.state.watch([answer.items[0].watched], producer.now)
    assert [message["subscribe"] for message in producer.said()] == [[B]]


def test_a_stale_view_is_dropped() -> None:
    producer = online()
    (watched,) = producer.watch(A)
    producer.tell(status(rev=5, progress={"percent": 50}))
    assert producer.tell(status(rev=4, progress={"percent": 40})) == []
    assert producer.tell(status(rev=5, progress={"percent": 50})) == []
    assert watched.view is not None
    assert watched.view.progress == {"percent": 50}


def test_a_new_socket_subscribes_anew_and_only_news_is_told() -> None:
    producer = online()
    producer.watch(A, B)
    producer.said()
    producer.tell(status(A, rev=3), status(B, rev=3))
    producer.lose()
    (subscribe,) = producer.connect()
    assert subscribe["subscribe"] == [A, B]
    (change,) = producer.tell(status(A, rev=3), status(B, "finished", rev=6, result=1))
    assert isinstance(change, Changed)
    assert change.watched.id == B


def test_the_end_frees_the_subscription_and_is_told_once() -> None:
    producer = online()
    (watched,) = producer.watch(A)
    producer.said()
    end = status(A, "finished", rev=2, result={"width": 64})
    assert producer.tell(end) == [Changed(watched)]
    assert producer.said() == [{"unsubscribe": [A]}]
    assert producer.tell(end) == []
    producer.lose()
    assert producer.connect() == []
    producer.state.watch([watched], producer.now)
    assert producer.said() == []


def test_an_item_is_one_object_until_it_has_ended() -> None:
    producer = online()
    (watched,) = producer.watch(A)
    assert producer.state.item(A) is watched
    producer.tell(status(A, "dead", rev=2))
    assert producer.state.item(A) is not watched


def test_an_item_of_which_nothing_is_told_is_unknown() -> None:
    producer = online()
    _, second = producer.watch(A, B)
    producer.tell(status(A))
    assert producer.state.deadline == producer.now + ANSWER_WITHIN
    producer.state.tick(producer.now + ANSWER_WITHIN - 1)
    assert producer.state.take_events() == []
    producer.state.tick(producer.now + ANSWER_WITHIN)
    assert producer.state.take_events() == [NotWatched(second, None)]
    assert producer.state.deadline == math.inf


def test_a_posted_item_of_which_nothing_is_told_is_unknown() -> None:
    producer = online()
    producer.state.post({"item": {"width": 64}})
    producer.tell(posted(producer.said()[0]))
    producer.state.tick(producer.now + ANSWER_WITHIN)
    (unknown,) = producer.state.take_events()
    assert isinstance(unknown, NotWatched)
    assert unknown.watched.id == A


def test_time_without_a_socket_makes_nothing_unknown() -> None:
    producer = online()
    producer.watch(A)
    producer.lose()
    producer.state.tick(producer.now + 10 * ANSWER_WITHIN)
    assert producer.state.take_events() == []


def test_a_refused_subscription_is_told_for_each_of_its_items() -> None:
    producer = online()
    producer.watch(A)
    producer.said()
    (watched,) = producer.watch(B)
    (subscribe,) = producer.said()
    (refused,) = producer.tell(error(subscribe, "limit"))
    assert isinstance(refused, NotWatched)
    assert refused.watched is watched
    assert isinstance(refused.error, Rejected)


def test_ids_go_out_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_state, "SUBSCRIBE_IDS", 2)
    producer = online()
    ids = [f"{number:016x}" for number in range(5)]
    producer.watch(*ids)
    assert [message["subscribe"] for message in producer.said()] == [ids[:2], ids[2:4], ids[4:]]


def test_what_nobody_watches_is_unsubscribed_once() -> None:
    producer = online()
    (watched,) = producer.watch(A)
    producer.said()
    producer.state.unwatch(watched)
    producer.state.unwatch(watched)
    assert producer.said() == [{"unsubscribe": [A]}]
    assert producer.tell(status(A)) == []


def test_messages_of_a_later_protocol_are_passed_over() -> None:
    producer = online()
    producer.state.received({"type": "weather", "value": "fine"}, producer.now)
    assert producer.state.take_events() == []


def test_an_error_that_answers_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    producer = online()
    producer.watch(A)
    assert producer.tell({"type": "error", "id": None, "code": "bad-message", "errors": []}) == []
    assert "bad-message" in caplog.text


@pytest.mark.parametrize("item_id", ["", "A" * 16, "a" * 17, "g" * 16, "\ud800" * 16])
def test_what_is_no_id_is_refused(item_id: str) -> None:
    with pytest.raises(ValueError, match="16 lower-case hex digits"):
        WatchState().item(item_id)


def test_a_view_has_the_members_of_the_wire() -> None:
    view = View.of(status(A, "failed", rev=9, error={"message": "no such font"}, worker="box-1"))
    assert (view.id, view.status, view.rev, view.worker, view.ended) == (A, "failed", 9, "box-1", True)
    assert view.error == {"message": "no such font"}
    assert view.finished_at == 1_751_500_000_009


def test_a_view_needs_the_core_members_only() -> None:
    core = {
        "id",
        "status",
        "postedBy",
        "postedAt",
        "updatedAt",
        "finishedAt",
        "attempts",
        "progress",
        "result",
        "error",
    }
    view = View.of({key: value for key, value in status().items() if key in core})
    assert view.rev is None
    assert not view.ended


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        {"a": [1, -math.inf]},
        {"a": (math.nan,)},
        2**64,
        -(2**63) - 1,
        {1: 2},
        "\ud800",
        b"x",
        PostLost(1),
    ],
)
def test_what_json_cannot_keep_is_refused(value: Any) -> None:
    with pytest.raises(Rejected) as refused:
        encode({"post": {"item": value}})
    assert refused.value.code == "bad-json"


@pytest.mark.parametrize("value", [None, [None, 1.5], 2**64 - 1, -(2**63), {"a": None}, "\u0000", 1e300])
def test_what_json_can_keep_is_kept(value: Any) -> None:
    assert json.loads(encode({"value": value})) == {"value": value}


def test_what_the_server_would_not_read_is_refused() -> None:
    with pytest.raises(Rejected, match="too-large"):
        encode({"item": "x" * 100}, 100)
