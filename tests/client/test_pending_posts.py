"""Posts without an answer, over lost sockets: what is said again, in which order, and what is unknown for good."""

from hypothesis import given
from hypothesis import strategies as st

from client.scripted_peer import A, B, Message, posted, status
from client.test_watch_state import Producer, online
from leaseway import watch_state
from leaseway.pending_posts import PendingPost, PendingPosts
from leaseway.watch_state import Changed, Posted, PostLost, PostRefused


def keyed(key: str) -> Message:
    """The body of a post that may be said again."""
    return {"item": 1, "key": key}


def duplicate(post: Message, item_id: str = A) -> Message:
    """The answer to a post whose key is known."""
    return posted(post, item_id) | {"duplicate": True, "status": "processing"}


def test_what_has_a_key_is_said_again_in_its_order() -> None:
    producer = online()
    first = producer.state.post(keyed("a"))
    lost = producer.state.post({"item": 2})
    array = producer.state.post_all([keyed("b"), keyed("c")], repeatable=True)
    assert [message["ref"] for message in producer.said()] == [first, lost, array]
    last = producer.state.post({"item": 3})
    assert producer.lose() == [PostLost(lost)]
    assert [message["ref"] for message in producer.connect()] == [first, array, last]
    assert producer.lose() == [PostLost(last)]
    assert [message["ref"] for message in producer.connect()] == [first, array]


def test_an_array_without_keys_is_unknown() -> None:
    producer = online()
    ref = producer.state.post_all([keyed("a"), {"item": 1}], repeatable=False)
    producer.said()
    assert producer.lose() == [PostLost(ref)]


def test_what_was_said_once_may_be_there_though_it_waits_to_be_said_again() -> None:
    producer = online()
    ref = producer.state.post(keyed("a"))
    producer.said()
    producer.lose()
    assert not producer.state.forget_post(ref)
    assert producer.connect() == []


def test_an_array_is_answered_in_its_order_and_watched_on_demand() -> None:
    producer = online()
    ref = producer.state.post_all([keyed("a"), keyed("b")], repeatable=True)
    (post,) = producer.said()
    items = [
        {"id": A, "status": "pending", "duplicate": True},
        {"id": B, "status": "pending", "duplicate": False},
    ]
    (answer,) = producer.tell({"type": "posted", "items": items, "ref": ref})
    assert isinstance(answer, Posted)
    assert [(one.watched.id, one.duplicate) for one in answer.items] == [(A, True), (B, False)]
    assert "subscribe" not in post["post"][0]
    producer.state.watch([one.watched for one in answer.items], producer.now)
    assert [message["subscribe"] for message in producer.said()] == [[A, B]]


def test_an_array_given_up_too_late_is_unsubscribed() -> None:
    producer = online()
    ref = producer.state.post_all([keyed("a")], repeatable=True)
    producer.said()
    producer.state.forget_post(ref)
    answer = {"type": "posted", "items": [{"id": A, "status": "pending", "duplicate": False}], "ref": ref}
    assert producer.tell(answer) == []
    assert producer.said() == [{"unsubscribe": [A]}]


def test_the_state_of_a_duplicate_is_asked_for_again() -> None:
    """Its subscription may have ended, with the item, while the post was on its way: nothing more would be told."""
    producer = online()
    producer.watch(A)
    producer.said()
    producer.state.post(keyed("a"))
    (post,) = producer.said()
    producer.tell(status(A, "finished", rev=2))
    assert producer.said() == [{"unsubscribe": [A]}]
    (answer,) = producer.tell(duplicate(post))
    (subscribe,) = producer.said()
    assert subscribe["subscribe"] == [A]
    assert isinstance(answer, Posted)
    assert producer.tell(status(A, "finished", rev=2)) == [Changed(answer.items[0].watched)]


def test_a_duplicate_that_is_watched_stays_so() -> None:
    producer = online()
    (watched,) = producer.watch(A)
    producer.said()
    producer.state.post(keyed("a"))
    (answer,) = producer.tell(duplicate(producer.said()[0]))
    assert isinstance(answer, Posted)
    assert answer.items[0].watched is watched
    assert producer.said() == []


def test_posts_without_an_answer_count_among_what_is_watched() -> None:
    producer = Producer()
    refs = [producer.state.post(keyed(str(number))) for number in range(watch_state.WATCH_POSTS_UP_TO + 1)]
    said = producer.connect()
    assert [bool(message["post"].get("subscribe")) for message in said] == [True] * (len(refs) - 1) + [False]
    (refused,) = producer.tell({"type": "error", "id": None, "code": "limit", "errors": [], "ref": refs[0]})
    assert isinstance(refused, PostRefused)
    producer.state.post(keyed("again"))
    assert producer.said()[0]["post"]["subscribe"]


@given(st.lists(st.sampled_from(["keyed", "plain", "say", "lose", "answer", "forget"])))
def test_nothing_is_said_twice_but_what_has_a_key(steps: list[str]) -> None:
    """Whatever happens in whichever order: none is left out, and what is unknown is told once."""
    posts, open_posts, times, here = PendingPosts(), dict[int, bool](), dict[int, int](), list[int]()
    for ref, step in enumerate(steps):
        if step in ("keyed", "plain"):
            open_posts[ref] = step == "keyed"
            posts.add(ref, PendingPost(str(ref).encode(), repeatable=step == "keyed", watch=False))
        elif step == "say" and (said := posts.next_message()) is not None:
            times[int(said)] = times.get(int(said), 0) + 1
            here.append(int(said))
        elif step == "lose":
            unknown = posts.lost()
            assert unknown == [each for each in here if open_posts.get(each) is False]
            here = []
            for each in unknown:
                del open_posts[each]
        elif step in ("answer", "forget") and (waiting := here if step == "answer" else list(open_posts)):
            assert (posts.pop(waiting[-1]) is None) == (open_posts.pop(waiting[-1], None) is None)
    waiting = []
    while (said := posts.next_message()) is not None:
        waiting.append(int(said))
    assert waiting == sorted(open_posts.keys() - set(here))
    assert not any(times.get(ref, 0) and not open_posts[ref] for ref in waiting)
