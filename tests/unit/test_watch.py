"""The monitor socket without its socket: it always gets the newest view of what it watches, and never an older one."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.commands import Failed, Found, Post, PostAll, Posted, PostedAll, Read
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.queue import ENVELOPE, META_LIMIT, Limits, Queue, Schemas
from leaseway_server.core.schema import Schema
from leaseway_server.core.watch import View, WatchList, view_of
from leaseway_server.runtime.hub import Hub
from support.model import NOW, POLICY, ended, held, pending
from support.monitor import Monitor, told

ID, OTHER, THIRD, FOURTH = (f"{number:016x}" for number in (0xA1, 0xA2, 0xA3, 0xA4))
SCHEMAS = Schemas(item=Schema.compile({"required": ["width"]}))
LIMITS = Limits(message_bytes=ENVELOPE + 1_000, ids=4, subscriptions=3)
QUEUE = Queue("demo", POLICY, limits=LIMITS)


# ── Subscriptions ──


@pytest.mark.parametrize(
    ("offered", "missed"),
    [
        ([], False),
        ([pending()], True),
        ([held(), ended("finished", rev=3)], False),
        ([ended("dead", rev=3), replace(pending(), rev=4)], True),
    ],
)
def test_of_an_item_that_goes_it_is_known_whether_its_end_was_offered(offered: list[Item], missed: bool) -> None:
    watching = WatchList()
    watching.add(ID)
    for item in offered:
        watching.offer(view_of(item, NOW))
    assert watching.end(ID) is missed
    assert not watching.end(ID), "it is not watched any more"


@pytest.mark.protocol("3.13")
def test_a_subscription_gets_the_current_state_at_once_and_then_every_change() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending())
    assert told(monitor.sees()) == [(ID, 1)]
    monitor.changes(held())
    monitor.changes(ended("finished", rev=3))
    assert told(monitor.sees()) == [(ID, 3)], "a slow reader gets the newest"
    assert monitor.sees() == []


@pytest.mark.protocol("3.11")
def test_the_subscription_is_in_place_before_the_first_view_is_read() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"subscribe": [ID, OTHER]})
    assert exchange.command == Read((ID, OTHER), patient=True)
    monitor.changes(held(rev=5))
    monitor.settle(exchange, Found({ID: pending(rev=4), OTHER: pending(id=OTHER)}, NOW))
    assert told(monitor.sees()) == [(ID, 5), (OTHER, 1)], "the newer one stays"


def test_a_change_that_comes_with_the_first_view_is_told_once() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"subscribe": [ID]})
    monitor.settle(exchange, Found({ID: held(rev=5)}, NOW))
    monitor.changes(held(rev=5))
    assert told(monitor.sees()) == [(ID, 5)]


def test_subscribing_again_shows_the_current_state_again() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending(rev=4))
    monitor.sees()
    monitor.subscribes(pending(rev=4))
    assert told(monitor.sees()) == [(ID, 4)]
    monitor.subscribes(pending(rev=3))
    assert told(monitor.sees()) == [], "but nothing older than what was told"


def test_views_come_after_the_direct_answers_and_in_the_order_of_the_changes() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending(), pending(id=OTHER))
    monitor.sees()
    monitor.changes(held(id=OTHER), held())
    monitor.says({"hello": {}})
    messages = monitor.sees()
    assert messages[0]["type"] == "hello"
    assert told(messages) == [(OTHER, 2), (ID, 2)]


@pytest.mark.protocol("3.3")
def test_an_unsubscribed_item_is_not_told_of_any_more() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending())
    assert monitor.says({"unsubscribe": [ID, OTHER, "none"]}) == []
    monitor.changes(held())
    assert monitor.sees() == []
    assert len(monitor.hub) == 0


def test_an_item_that_was_unsubscribed_before_its_first_view_came_is_not_told_of() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"subscribe": [ID]})
    monitor.says({"unsubscribe": [ID]})
    monitor.settle(exchange, Found({ID: pending()}, NOW))
    assert monitor.sees() == []


def test_unknown_and_malformed_ids_are_ignored_and_cost_nothing() -> None:
    monitor = Monitor(QUEUE)
    (exchange,) = monitor.says_anything({"subscribe": [OTHER, "none", 7, OTHER]})
    assert exchange.command == Read((OTHER, "none"), patient=True)
    monitor.settle(exchange, Found({}, NOW))
    assert monitor.sees() == []
    assert len(monitor.hub) == 0
    assert list(monitor.monitor.watching) == []
    monitor.subscribes(pending(), pending(id=THIRD), pending(id=FOURTH))


def test_a_subscription_that_failed_says_so_and_stays_until_it_is_taken_back() -> None:
    monitor = Monitor(QUEUE)
    monitor.settle(monitor.asks({"subscribe": [ID], "ref": 1}), Failed(Unavailable("not now")))
    (error,) = monitor.sees()
    assert (error["code"], error["ref"]) == ("unavailable", 1)


@pytest.mark.parametrize("verb", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize(
    ("ids", "code"), [({}, "bad-message"), (ID, "bad-message"), ({"mine": False}, "bad-message"), ([ID] * 5, "limit")]
)
def test_ids_come_in_an_array_and_not_too_many(verb: str, ids: Json, code: str) -> None:
    assert Monitor(QUEUE).refused({verb: ids})[0] == code


@pytest.mark.protocol("3.37")
def test_a_socket_holds_so_many_subscriptions_and_what_was_there_stays() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending(), pending(id=OTHER))
    monitor.sees()
    assert monitor.refused({"subscribe": [THIRD, FOURTH]})[0] == "limit"
    assert list(monitor.monitor.watching) == [ID, OTHER]
    monitor.subscribes(pending(), pending(id=OTHER), pending(id=THIRD))
    assert monitor.refused({"subscribe": [FOURTH]})[0] == "limit"
    monitor.says({"unsubscribe": [ID]})
    monitor.subscribes(pending(id=FOURTH))
    monitor.changes(held(id=OTHER))
    assert (OTHER, 2) in told(monitor.sees())


@pytest.mark.parametrize(
    ("queue", "rights", "sees"),
    [
        (QUEUE, ["fetch"], True),
        (replace(QUEUE, own_only=True), ["fetch"], False),
        (replace(QUEUE, own_only=True), ["fetch", "post"], False),
        (replace(QUEUE, own_only=True), ["fetch", "work"], True),
        (replace(QUEUE, own_only=True), ["fetch", "admin"], True),
    ],
)
def test_where_each_sees_only_its_own_the_rest_does_not_exist(queue: Queue, rights: list[str], sees: bool) -> None:
    monitor = Monitor(queue, rights)
    mine, others = pending(), pending(id=OTHER, posted_by="bob")
    monitor.subscribes(mine, others)
    assert told(monitor.sees()) == [(ID, 1), (OTHER, 1)][: 1 + sees]
    assert len(monitor.hub) == 1 + sees
    exchange = monitor.asks({"subscribe": [OTHER]})
    monitor.changes(held(id=OTHER, posted_by="bob"))
    assert told(monitor.sees()) == [(OTHER, 2)] * sees, "not even between the subscription and its answer"
    monitor.settle(exchange, Found({}, NOW))


# ── Posts ──


@pytest.mark.protocol("5.55")
@pytest.mark.parametrize(
    ("post", "new"),
    [
        ({"item": {"width": 1}}, NewItem('{"width":1}', "ann")),
        ({"item": None, "priority": -100}, NewItem("null", "ann", priority=-100)),
        ({"item": 1, "delayMs": 5, "ttlMs": 0}, NewItem("1", "ann", delay_ms=5, ttl_ms=0)),
        ({"item": 1, "dueAt": NOW, "maxAttempts": 1}, NewItem("1", "ann", due_at=NOW, max_attempts=1)),
        ({"item": 1, "meta": {"t": [1]}, "later": 1}, NewItem("1", "ann", meta='{"t":[1]}')),
        ({"item": 1, "key": "ü" * 200}, NewItem("1", "ann", key="ü" * 200)),
    ],
)
def test_a_post(post: Json, new: NewItem) -> None:
    assert Monitor(QUEUE).commands({"post": post}) == [Post(new)]


@pytest.mark.parametrize(
    ("post", "code", "path"),
    [
        (1, "bad-message", ""),
        ("x", "bad-message", ""),
        ({}, "bad-message", "/item"),
        ({"item": "x" * 999}, "too-large", "/item"),
        ({"item": 1, "key": ""}, "bad-message", "/key"),
        ({"item": 1, "key": "a\nb"}, "bad-message", "/key"),
        ({"item": 1, "priority": 101}, "bad-message", "/priority"),
        ({"item": 1, "priority": -101}, "bad-message", "/priority"),
        ({"item": 1, "priority": 1.5}, "bad-message", "/priority"),
        ({"item": 1, "delayMs": -1}, "bad-message", "/delayMs"),
        ({"item": 1, "delayMs": 1, "dueAt": 1}, "bad-message", "/dueAt"),
        ({"item": 1, "dueAt": "now"}, "bad-message", "/dueAt"),
        ({"item": 1, "ttlMs": -1}, "bad-message", "/ttlMs"),
        ({"item": 1, "maxAttempts": 0}, "bad-message", "/maxAttempts"),
        ({"item": 1, "maxAttempts": 1_001}, "bad-message", "/maxAttempts"),
        ({"item": 1, "meta": []}, "bad-message", "/meta"),
        ({"item": 1, "meta": {"m": "x" * META_LIMIT}}, "too-large", "/meta"),
        ({"item": 1, "subscribe": 1}, "bad-message", "/subscribe"),
    ],
)
def test_a_post_that_is_wrong(post: Json, code: str, path: str) -> None:
    monitor = Monitor(QUEUE)
    assert monitor.refused({"post": post}) == (code, path, None)
    assert len(monitor.hub) == 0


def test_a_post_is_held_against_the_queues_schema() -> None:
    monitor = Monitor(Queue("demo", POLICY, SCHEMAS))
    assert monitor.refused({"post": {"item": {}}}) == ("schema", "/item", None)
    monitor.asks({"post": {"item": {"width": 1}}})


@pytest.mark.protocol("3.22")
def test_who_may_not_post_is_told_so() -> None:
    assert Monitor(QUEUE, rights=["fetch"]).refused({"post": {"item": 1}}) == ("not-allowed", "", None)


@pytest.mark.protocol("3.24", "3.26")
def test_posted_comes_before_the_first_view_and_no_change_is_missed() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"post": {"item": 1, "subscribe": True}, "ref": "p"})
    monitor.settle(exchange, Posted(held()))
    monitor.changes(held())
    messages = monitor.sees()
    assert messages[0] == {"type": "posted", "id": ID, "status": "processing", "duplicate": False, "ref": "p"}
    assert told(messages) == [(ID, 2)]


def test_a_post_watches_only_where_it_asks() -> None:
    monitor = Monitor(QUEUE)
    monitor.settle(monitor.asks({"post": {"item": 1, "subscribe": False}}), Posted(pending()))
    monitor.changes(pending())
    assert [message["type"] for message in monitor.sees()] == ["posted"]


@pytest.mark.protocol("3.25")
def test_a_post_that_failed_watches_nothing_and_gives_its_place_back() -> None:
    monitor = Monitor(QUEUE)
    posts = [monitor.asks({"post": {"item": 1, "subscribe": True}}) for _ in range(3)]
    assert monitor.says({"post": {"item": 1, "subscribe": True}}) == [], "a place is taken from the start"
    for exchange in posts:
        monitor.settle(exchange, Failed(Unavailable("not now")))
    assert [message["code"] for message in monitor.sees()] == ["unavailable"] * 3 + ["limit"]
    assert len(monitor.hub) == 0
    monitor.subscribes(pending(), pending(id=OTHER), pending(id=THIRD))


# ── Batches, ends ──


def test_views_are_joined_with_answers_where_the_client_asked_for_batches() -> None:
    monitor = Monitor(QUEUE)
    monitor.says({"hello": {"batch": True}})
    monitor.sees()
    monitor.subscribes(pending(), pending(id=OTHER))
    monitor.says({"hello": {"batch": True}, "ref": 1})
    (batch,) = monitor.sees()
    assert [message["type"] for message in batch["messages"]] == ["hello", "status", "status"]


@pytest.mark.protocol("3.17")
@pytest.mark.parametrize(
    ("item", "unfetched"),
    [
        (pending(), False),
        (held(), False),
        (ended("finished"), True),
        (ended("dead"), True),
        (ended("finished", fetched_at=NOW), False),
    ],
)
def test_the_first_delivery_of_an_end_is_known(item: Item, unfetched: bool) -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(item)
    _, (view,) = monitor.monitor.take_with_views(monitor.clock.now())
    assert (view.id, view.unfetched) == (ID, unfetched)
    assert view == view_of(item, NOW)


def test_a_view_is_encoded_once_however_many_watch() -> None:
    hub, watchers = Hub(), [Monitor(QUEUE) for _ in range(3)]
    for watcher in watchers:
        watcher.monitor.watching.add(ID)
        hub.watch(ID, watcher)
    hub.publish([held()], NOW)
    views = [watcher.monitor.watching.take()[0] for watcher in watchers]
    assert len({id(view.encoded) for view in views}) == 1
    hub.publish([held(id=OTHER)], NOW)
    assert not any(watcher.monitor.watching.pending for watcher in watchers)
    hub.unwatch(OTHER, watchers[0])
    hub.unwatch(ID, watchers[0])
    assert len(hub) == 1


def test_of_what_is_deleted_the_end_is_still_told_and_then_nothing() -> None:
    monitor = Monitor(QUEUE)
    monitor.subscribes(pending(), pending(id=OTHER))
    monitor.sees()
    monitor.changes(ended("cancelled", rev=5))
    monitor.hub.end([ID, THIRD])
    assert len(monitor.hub) == 1
    assert told(monitor.sees()) == [(ID, 5)]
    monitor.changes(ended("cancelled", rev=6))
    assert told(monitor.sees()) == []
    monitor.subscribes(pending(id=THIRD), pending(id=FOURTH))
    assert told(monitor.sees()) == [(THIRD, 1), (FOURTH, 1)], "it makes room for others"


# ── Arrays and keys ──


def test_an_array_of_posts_is_one_command_and_has_one_answer() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"post": [{"item": 1, "key": "k"}, {"item": 2, "priority": 3}], "ref": 7})
    assert exchange.command == PostAll((NewItem("1", "ann", key="k"), NewItem("2", "ann", priority=3)))
    assert monitor.monitor.heard == 2
    first, second = Posted(pending(), duplicate=True), Posted(held(id=OTHER))
    monitor.settle(exchange, PostedAll((first, second)))
    answers = [
        {"id": ID, "status": "pending", "duplicate": True},
        {"id": OTHER, "status": "processing", "duplicate": False},
    ]
    assert monitor.sees() == [{"type": "posted", "items": answers, "ref": 7}]
    assert len(monitor.hub) == 0


def test_what_of_an_array_is_to_be_watched_counts_before_anything_is_posted() -> None:
    monitor = Monitor(QUEUE)
    posts: list[Json] = [{"item": 1, "subscribe": True}, {"item": 2}, {"item": 3, "subscribe": True}]
    exchange = monitor.asks({"post": posts})
    assert monitor.says({"post": posts}) == []
    assert monitor.says({"subscribe": [THIRD, FOURTH]}) == []
    monitor.settle(exchange, PostedAll((Posted(pending()), Posted(pending(id=OTHER)), Posted(pending(id=THIRD)))))
    monitor.changes(pending(), pending(id=OTHER), pending(id=THIRD))
    messages = monitor.sees()
    assert [message.get("code", message["type"]) for message in messages[:3]] == ["posted", "limit", "limit"]
    assert told(messages) == [(ID, 1), (THIRD, 1)]


def test_an_array_that_is_refused_gives_its_room_back() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"post": [{"item": 1, "subscribe": True}] * 3})
    monitor.settle(exchange, Failed(Unavailable("no space")))
    assert [message["code"] for message in monitor.sees()] == ["unavailable"]
    monitor.subscribes(pending(), pending(id=OTHER), pending(id=THIRD))
    assert len(told(monitor.sees())) == 3


def test_a_duplicate_that_is_to_be_watched_is_read_unless_it_is_watched_already() -> None:
    monitor = Monitor(QUEUE)
    exchange = monitor.asks({"post": {"item": 1, "key": "k", "subscribe": True}})
    monitor.settle(exchange, Posted(held(), duplicate=True))
    assert monitor.sees() == [{"type": "posted", "id": ID, "status": "processing", "duplicate": True}]
    (read,) = monitor.monitor.read_on()
    assert read.command == Read((ID,), patient=True)
    monitor.settle(read, Found({ID: held()}, NOW))
    assert told(monitor.sees()) == [(ID, 2)]
    exchange = monitor.asks({"post": {"item": 1, "key": "k", "subscribe": True}})
    monitor.settle(exchange, Posted(held(), duplicate=True))
    assert monitor.monitor.read_on() == []
    monitor.changes(held(rev=3))
    assert told(monitor.sees()) == [(ID, 3)]


@pytest.mark.parametrize(
    ("posts", "code", "path"),
    [
        ([], "bad-message", ""),
        ([{"item": 1}, 2], "bad-message", "/1"),
        ([{"item": 1}, {}], "bad-message", "/1/item"),
        ([{"item": 1, "key": ""}], "bad-message", "/0/key"),
        ([{"item": 1}, {"item": 2, "subscribe": 1}], "bad-message", "/1/subscribe"),
        ([{"item": 1}, {"item": {"a": "x" * 2_000}}], "too-large", "/1/item"),
        ([{"item": 1}] * 4, "limit", ""),
    ],
)
def test_an_array_of_which_one_is_wrong_is_refused_whole(posts: Json, code: str, path: str) -> None:
    monitor = Monitor(replace(QUEUE, limits=replace(LIMITS, bulk_items=3)))
    assert monitor.refused({"post": posts}) == (code, path, None)


def test_the_answer_to_an_array_is_no_larger_than_a_message() -> None:
    queue = replace(QUEUE, limits=replace(LIMITS, message_bytes=ENVELOPE + 80 * 3, subscriptions=9))
    monitor = Monitor(queue)
    posts: list[Json] = [{"item": 1}] * 3
    assert monitor.refused({"post": [*posts, {"item": 1}]})[0] == "limit"
    exchange = monitor.asks({"post": posts})
    monitor.settle(exchange, PostedAll((Posted(held(), duplicate=False),) * 3))
    (frame,) = monitor.monitor.take()
    assert len(frame) <= 3 * 80


# ── Conflation ──


def a_view(rev: int) -> View:
    return View(id=ID, posted_by="", rev=rev, encoded=b"", terminal=False, unfetched=False)


@pytest.mark.protocol("3.12", "3.14")
@given(st.lists(st.one_of(st.tuples(st.sampled_from(["offer", "answer"]), st.integers(1, 9)), st.just(("take", 0)))))
def test_views_never_go_back_and_the_last_one_is_always_told(story: list[tuple[str, int]]) -> None:
    watching, last, newest = WatchList(), 0, 0
    watching.add(ID)
    for step, rev in [*story, ("take", 0)]:
        if step == "take":
            for view in watching.take():
                assert view.rev >= last
                last = view.rev
        else:
            newest = max(newest, rev)
            handle: Callable[[View], None] = watching.offer if step == "offer" else watching.answer
            handle(a_view(rev))
            assert watching.pending or rev <= last
    assert last == newest


@pytest.mark.protocol("3.7")
def test_a_change_between_a_subscription_and_its_answer_is_told_once() -> None:
    watching = WatchList()
    watching.add(ID)
    watching.offer(a_view(2))
    assert [view.rev for view in watching.take()] == [2]
    watching.answer(a_view(2))
    assert not watching.pending
    watching.add(ID)
    watching.answer(a_view(2))
    assert [view.rev for view in watching.take()] == [2], "who subscribes again is told again"


def test_what_is_not_watched_is_not_kept() -> None:
    watching = WatchList()
    watching.offer(a_view(1))
    watching.answer(a_view(1))
    watching.discard(ID)
    assert not watching.pending
    assert ID not in watching
    assert len(watching) == 0
