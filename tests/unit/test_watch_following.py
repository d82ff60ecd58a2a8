"""`mine` and `all` on the monitor socket (PROTOCOL.md §3): nothing is missed, nothing old is told, nothing piles up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.commands import BEYOND, Failed, Followed, Found, Posted, Read, ReadFollowed
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.jsontext import Json
from leaseway_server.core.monitor_session import Lookout
from leaseway_server.core.queue import Limits, Queue
from leaseway_server.core.watch import ALL, View, WatchList
from support.model import NOW, POLICY, ended, held, pending
from support.monitor import Monitor, told

ID, OTHER, THIRD = (f"{number:016x}" for number in (0xA1, 0xA2, 0xA3))
OWN = Queue("demo", POLICY, own_only=True)


def root() -> Monitor:
    return Monitor(rights=["fetch", "post", "work", "admin"], user="root")


@pytest.mark.protocol("3.30")
def test_mine_is_in_place_before_the_first_view_is_read() -> None:
    monitor = Monitor()
    exchange = monitor.asks({"subscribe": {"mine": True}, "ref": 1})
    assert exchange.command == ReadFollowed("ann", BEYOND)
    monitor.changes(held(rev=5), pending(id=THIRD, posted_by="bob"))
    monitor.settle(exchange, Followed([held(rev=5), ended("finished", id=OTHER)], NOW))
    assert told(monitor.sees()) == [(ID, 5), (OTHER, 3)], "what waits to be told is told once"
    monitor.changes(ended("finished", rev=6), pending(id=THIRD))
    assert told(monitor.sees()) == [(ID, 6), (THIRD, 1)], "new ones too"


def test_a_part_is_read_when_the_one_before_was_sent() -> None:
    monitor = Monitor()
    exchange = monitor.asks({"subscribe": {"mine": True}})
    assert monitor.monitor.read_on() == []
    monitor.settle(exchange, Followed([pending()], NOW, before=7))
    (second,) = monitor.monitor.read_on()
    assert second.command == ReadFollowed("ann", 7)
    monitor.settle(second, Followed([pending(id=OTHER)], NOW))
    assert monitor.monitor.read_on() == []
    assert told(monitor.sees()) == [(ID, 1), (OTHER, 1)]


def test_a_part_in_which_nothing_fitted_is_asked_for_again() -> None:
    monitor = Monitor()
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed(before=BEYOND))
    (again,) = monitor.monitor.read_on()
    assert again.command == ReadFollowed("ann", BEYOND)


def test_asked_for_again_it_is_read_from_the_beginning() -> None:
    monitor = Monitor()
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed(before=7))
    (second,) = monitor.monitor.read_on()
    assert monitor.says({"subscribe": {"mine": True}}) == [], "one part at a time"
    monitor.settle(second, Followed(before=3))
    (anew,) = monitor.monitor.read_on()
    assert anew.command == ReadFollowed("ann", BEYOND)


def test_ids_are_read_before_what_is_followed_goes_on() -> None:
    monitor = root()
    monitor.settle(monitor.asks({"subscribe": {"all": True}}), Followed(before=7))
    assert monitor.asks({"subscribe": [ID]}).command == Read((ID,), patient=True)


def test_a_part_that_could_not_be_read_says_so_and_changes_are_told_all_the_same() -> None:
    monitor = Monitor()
    monitor.settle(monitor.asks({"subscribe": {"mine": True}, "ref": 1}), Failed(Unavailable("not now")))
    (error,) = monitor.sees()
    assert (error["code"], error["ref"]) == ("unavailable", 1)
    assert monitor.monitor.read_on() == []
    monitor.changes(held())
    assert told(monitor.sees()) == [(ID, 2)]


@pytest.mark.protocol("3.21")
def test_all_tells_of_everybodys_and_stamps_nothing() -> None:
    monitor = root()
    exchange = monitor.asks({"subscribe": {"all": True}})
    assert exchange.command == ReadFollowed(ALL, BEYOND)
    monitor.settle(exchange, Followed([pending()], NOW))
    monitor.changes(ended("finished", id=OTHER), ended("dead", id=THIRD, posted_by=""))
    frames, producers = monitor.monitor.take_with_views(monitor.clock.now())
    assert told(monitor.read(frames)) == [(ID, 1), (OTHER, 3), (THIRD, 3)]
    assert producers == []


@pytest.mark.parametrize("first", [{"mine": True}, [ID]])
def test_an_end_that_a_producer_is_told_is_known_though_all_is_watched_too(first: Json) -> None:
    monitor = Monitor(rights=["fetch", "admin"])
    exchange = monitor.asks({"subscribe": first})
    monitor.settle(exchange, Found(now=NOW, items={ID: held()}) if isinstance(first, list) else Followed(now=NOW))
    monitor.says({"subscribe": {"all": True}})
    monitor.changes(ended("finished"), ended("finished", id=OTHER, posted_by="bob"))
    frames, producers = monitor.monitor.take_with_views(monitor.clock.now())
    assert [view.id for view in producers] == [ID]
    assert told(monitor.read(frames))[-2:] == [(ID, 3), (OTHER, 3)]


@pytest.mark.protocol("3.41")
def test_unfollowed_it_is_not_told_of_any_more_but_what_is_named_is() -> None:
    monitor = Monitor()
    monitor.subscribes(pending())
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed(before=7))
    monitor.sees()
    monitor.changes(held(), held(id=OTHER))
    assert monitor.says({"unsubscribe": {"mine": True}}) == []
    assert told(monitor.sees()) == [(ID, 2)]
    assert monitor.monitor.read_on() == []
    monitor.changes(ended("dead"), ended("dead", id=OTHER))
    assert told(monitor.sees()) == [(ID, 3)]
    assert len(monitor.hub) == 1


def test_taken_back_while_it_is_read_nothing_of_it_is_told() -> None:
    monitor = Monitor()
    exchange = monitor.asks({"subscribe": {"mine": True}})
    monitor.says({"unsubscribe": {"mine": True}})
    monitor.settle(exchange, Followed([pending()], NOW, before=7))
    assert monitor.sees() == []
    assert monitor.monitor.read_on() == []
    assert len(monitor.hub) == 0


def test_an_id_that_is_not_named_any_more_is_still_followed() -> None:
    monitor = Monitor()
    monitor.subscribes(pending())
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed([pending()], NOW))
    monitor.sees()
    monitor.changes(held())
    monitor.says({"unsubscribe": [ID]})
    assert told(monitor.sees()) == [(ID, 2)], "the last state is always told"


@pytest.mark.protocol("3.41")
def test_of_all_and_mine_each_is_taken_back_by_itself() -> None:
    monitor = Monitor(rights=["fetch", "admin"])
    monitor.settle(monitor.asks({"subscribe": {"all": True}}), Followed())
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed())
    monitor.says({"unsubscribe": {"all": True}})
    monitor.changes(held(), held(id=OTHER, posted_by="bob"))
    assert told(monitor.sees()) == [(ID, 2)]
    assert monitor.says({"unsubscribe": {"all": True}}) == [], "harmless where there is none"


def test_a_post_is_answered_before_its_first_view() -> None:
    monitor = Monitor()
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed())
    monitor.settle(monitor.asks({"post": {"item": 1}}), Posted(pending()))
    monitor.changes(pending())
    assert [message["type"] for message in monitor.sees()] == ["posted", "status"]


@pytest.mark.protocol("3.40")
def test_what_is_followed_uses_no_subscriptions_up_and_is_kept_only_while_it_waits() -> None:
    monitor = Monitor(Queue("demo", POLICY, limits=Limits(subscriptions=1)))
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed())
    for rev in (1, 2):
        monitor.changes(*[pending(id=f"{number:016x}", rev=rev) for number in range(100)])
    assert len(told(monitor.sees())) == 100, "of each the newest"
    assert len(monitor.monitor.watching) == monitor.monitor.weight() == 0
    monitor.subscribes(pending())


def test_where_each_sees_only_its_own_mine_is_all_that_there_is() -> None:
    monitor = Monitor(OWN, ["fetch"])
    monitor.settle(monitor.asks({"subscribe": {"mine": True}}), Followed([pending()], NOW))
    monitor.changes(held(id=OTHER, posted_by="bob"), held(id=THIRD))
    assert told(monitor.sees()) == [(ID, 1), (THIRD, 2)]


@pytest.mark.protocol("3.38")
@pytest.mark.parametrize("verb", ["subscribe", "unsubscribe"])
def test_nobody_in_particular_has_nothing_of_its_own(verb: str) -> None:
    assert Monitor(user="").refused({verb: {"mine": True}}) == ("not-allowed", "/mine", None)


@pytest.mark.protocol("3.31")
@pytest.mark.parametrize("verb", ["subscribe", "unsubscribe"])
def test_all_is_for_administrators(verb: str) -> None:
    monitor = Monitor(rights=["fetch", "post", "work"])
    assert monitor.refused({verb: {"all": True}}) == ("not-allowed", "/all", None)
    assert len(monitor.hub) == 0


@pytest.mark.parametrize("verb", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize(
    "value",
    [
        *({}, {"mine": False}, {"mine": 1}, {"mine": None}, {"mine": "true"}, {"mine": [True]}, {"all": 1}),
        *({"mine": True, "all": True}, {"mine": True, "more": 1}, {"all": True, "": 0}, {"ours": True}),
        *(None, True, 1, "mine"),
    ],
)
def test_what_is_neither_ids_nor_mine_nor_all_is_refused(verb: str, value: Json) -> None:
    monitor = root()
    assert monitor.refused({verb: value}) == ("bad-message", "", None)
    assert len(monitor.hub) == 0


def test_a_socket_that_is_gone_watches_nothing_whatever_is_still_answered() -> None:
    monitor = root()
    monitor.subscribes(pending())
    exchange = monitor.asks({"subscribe": {"mine": True}})
    promised = monitor.asks({"post": {"item": 1, "subscribe": True}})
    monitor.says({"subscribe": {"all": True}})
    monitor.monitor.close()
    monitor.settle(exchange, Followed([pending(posted_by="root")], NOW, before=7))
    monitor.settle(promised, Posted(pending(id=OTHER)))
    assert len(monitor.hub) == 0
    assert Lookout().show_stats() == b"", "and there is nothing to show it"


# ── Conflation ──

STEPS = st.one_of(
    st.tuples(st.sampled_from(["commit", "commit", "read"]), st.sampled_from([ID, OTHER])),
    st.sampled_from([("take", ""), ("name", ID), ("forget", ID), ("mine", ""), ("not_mine", ""), ("all", "")]),
)


class Follower:
    """A list of what is watched, and what it owes: the newest state of what is wanted, and nothing older after it."""

    def __init__(self) -> None:
        self.watching = WatchList()
        self._named: set[str] = set()
        self._revs, self._last, self._owed = (dict.fromkeys((ID, OTHER), first) for first in (1, 0, 0))

    def commit(self, item_id: str) -> None:
        self._revs[item_id] += 1
        self.watching.offer(self._view(item_id))

    def read(self, item_id: str) -> None:
        self.watching.answer(self._view(item_id))

    def name(self, item_id: str) -> None:
        self._named.add(item_id)
        self.watching.add(item_id)

    def forget(self, item_id: str) -> None:
        self._named.discard(item_id)
        self.watching.discard(item_id)
        self._forgive()

    def mine(self, _none: str) -> None:
        self.watching.follow("ann")

    def all(self, _none: str) -> None:
        self.watching.follow(ALL)

    def not_mine(self, _none: str) -> None:
        self.watching.unfollow("ann")
        self._forgive()

    def take(self, _none: str) -> None:
        for view in self.watching.take():
            assert view.rev >= self._last[view.id], "an older view after a newer one"
            self._last[view.id] = view.rev
        assert all(self._last[name] >= owed for name, owed in self._owed.items()), "the last state was not told"
        assert self.watching.weight == 0

    def _view(self, item_id: str) -> View:
        if self._wanted(item_id):
            self._owed[item_id] = self._revs[item_id]
        return View(item_id, "ann", self._revs[item_id], b"x", terminal=False, unfetched=False)

    def _wanted(self, item_id: str) -> bool:
        return bool(self.watching.followed) or item_id in self._named

    def _forgive(self) -> None:
        self._owed |= {name: 0 for name in self._owed if not self._wanted(name)}


@given(st.lists(STEPS))
def test_views_come_in_order_and_the_last_of_what_is_wanted_is_told(story: list[tuple[str, str]]) -> None:
    """Commits and reads come in one order, as the engine gives them."""
    follower = Follower()
    for step, item_id in [*story, ("take", "")]:
        getattr(follower, step)(item_id)
