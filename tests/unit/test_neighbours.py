"""What one server learns of the others' turns: all of it, in order, and that something is missing where it is."""

from collections.abc import Collection, Mapping, Sequence

from leaseway_server.core.model import Item
from leaseway_server.runtime.neighbours import ANNOUNCED_MS, LOOK_MS, TURNED, WATCHED_MS, WATCHES, Neighbours
from leaseway_server.runtime.tally import Minute
from leaseway_server.store.shared import Share, Turned
from support.model import NOW

ME, OTHER, THIRD = 1, 2, 3


class Board:
    """What servers show each other of one queue, in memory."""

    def __init__(self) -> None:
        self.number = 7
        self.announced = False
        self.paused = False
        self.shown: list[tuple[int, bool]] = []
        self.counted: list[Mapping[int, Sequence[int]]] = []
        self.turns: dict[int, list[Turned]] = {OTHER: [], THIRD: []}
        self.last: dict[int, int] = {}
        self.watched: set[int] = set()

    def turn(self, server: int, *ids: str, ready: Collection[str] = (), ended: Mapping[str, str] | None = None) -> None:
        """A turn of another server."""
        self.last[server] = self.last.get(server, 0) + 1
        self.turns[server].append(Turned(server, self.last[server], ids, tuple(ready), ended or {}))

    def announce(self, on: bool) -> None:
        """As it was said."""
        self.announced = on

    async def look(self) -> tuple[bool, list[Share]]:
        """All of them."""
        servers = (ME, *self.turns)
        return self.paused, [
            Share(server, self.last.get(server, 0), *self._seen_of(server), {"pending": 5}) for server in servers
        ]

    def _seen_of(self, server: int) -> tuple[int, bool]:
        """Its workers, and whether anybody watches there."""
        if server == ME:
            return self.shown[-1] if self.shown else (0, False)
        return 2, server in self.watched

    async def changes(self, seen: Mapping[int, int]) -> list[Turned]:
        """Those that are still there."""
        return [each for server, turn in seen.items() for each in self.turns[server] if each.turn > turn]

    async def rows(self, ids: Collection[str]) -> dict[str, Item]:
        """Nobody asks here."""
        raise NotImplementedError

    async def show(self, workers: int, *, watched: bool) -> None:
        """As it was said."""
        self.shown.append((workers, watched))

    async def count(self, minutes: Mapping[int, Sequence[int]]) -> None:
        """As it was said."""
        self.counted.append(minutes)

    async def rates(self, since: int) -> dict[int, Sequence[int]]:
        """One minute."""
        return {since: (1, 2, 3, 4, 5, 6)}


class Place:
    """A server that looks at a board."""

    def __init__(self) -> None:
        self.board = Board()
        self.sent: list[str] = []
        self.neighbours = Neighbours(self.board, ME, self.sent.append)
        self.neighbours.meet(frozenset({OTHER, THIRD}), NOW)

    async def look(self, now: int = NOW) -> tuple[list[str], list[str], bool]:
        """What is new."""
        news = await self.neighbours.look(now)
        self.neighbours.took(news)
        return list(news.changed), list(news.ready), news.gap


async def test_each_turn_is_read_once_after_hints_or_none() -> None:
    place = Place()
    place.board.turn(OTHER, "old")
    await place.neighbours.begin(NOW)
    place.board.turn(OTHER, "a", "b", ready=["b"])
    place.board.turn(THIRD, "c")
    assert await place.look() == (["a", "b", "c"], ["b"], False)
    assert await place.look() == ([], [], False)
    place.board.turn(OTHER, "d")
    assert not place.neighbours.is_due(NOW, watched=False)
    place.neighbours.hint(OTHER, TURNED)
    assert place.neighbours.is_due(NOW, watched=False)
    assert await place.look() == (["d"], [], False)
    place.board.turn(OTHER)
    assert place.neighbours.is_due(NOW + LOOK_MS, watched=False)
    assert await place.look(NOW + LOOK_MS) == ([], [], False), "a turn may have changed no item"
    place.board.turn(THIRD, "e")
    place.neighbours.suspect()
    assert await place.look(NOW + LOOK_MS) == (["e"], [], False)


async def test_what_ended_is_told_with_its_poster_and_once() -> None:
    place = Place()
    await place.neighbours.begin(NOW)
    place.board.turn(OTHER, "a", "b", ended={"a": "ann"})
    place.board.turn(THIRD, "a", "c", ended={"c": ""})
    news = await place.neighbours.look(NOW)
    assert news.ended == {"a": "ann", "c": ""}
    place.neighbours.took(news)
    assert (await place.neighbours.look(NOW + LOOK_MS)).ended == {}


async def test_what_was_not_taken_in_is_read_again() -> None:
    place = Place()
    await place.neighbours.begin(NOW)
    place.board.turn(OTHER, "a")
    await place.neighbours.look(NOW)
    place.neighbours.suspect()
    assert await place.look() == (["a"], [], False)


async def test_turns_that_are_missing_are_a_gap_wherever_they_stood() -> None:
    for missing in ([0], [1], [2], [0, 1, 2]):
        place = Place()
        await place.neighbours.begin(NOW)
        for name in "abc":
            place.board.turn(OTHER, name)
        place.board.turns[OTHER] = [turn for at, turn in enumerate(place.board.turns[OTHER]) if at not in missing]
        assert (await place.look())[2], missing
        assert await place.look(NOW + LOOK_MS) == ([], [], False), "which is told once"


async def test_a_gap_is_seen_after_a_hint_too() -> None:
    place = Place()
    await place.neighbours.begin(NOW)
    await place.look()
    place.board.turn(OTHER, "a")
    place.board.turns[OTHER].clear()
    place.board.turn(OTHER, "b")
    place.neighbours.hint(OTHER, TURNED)
    assert (await place.look())[2]


async def test_others_are_hinted_at_only_while_somebody_watches_there() -> None:
    place = Place()
    await place.look()
    place.neighbours.turned()
    assert place.sent == []
    place.neighbours.hint(OTHER, WATCHES)
    place.neighbours.turned()
    assert place.sent == [TURNED]
    await place.look(NOW + LOOK_MS)
    place.neighbours.turned()
    assert place.sent == [TURNED], "it watches no more"
    place.board.watched.add(OTHER)
    await place.look(NOW + 2 * LOOK_MS)
    place.neighbours.turned()
    assert place.sent == [TURNED] * 2
    place.neighbours.meet(frozenset({THIRD}), NOW)
    place.neighbours.turned()
    assert place.sent == [TURNED] * 2, "it is gone"


async def test_who_watches_here_is_shown_at_once_and_for_a_while() -> None:
    place = Place()
    await place.look()
    assert place.neighbours.is_due(NOW, watched=True)
    await place.neighbours.show(3, watched=True, now=NOW)
    assert (place.board.shown, place.sent) == ([(3, True)], [WATCHES])
    assert not place.neighbours.is_due(NOW, watched=True)
    await place.neighbours.show(3, watched=False, now=NOW + WATCHED_MS - 1)
    await place.neighbours.show(3, watched=False, now=NOW + WATCHED_MS)
    assert (place.board.shown, place.sent) == ([(3, True), (3, False)], [WATCHES])


async def test_a_server_that_was_forgotten_while_it_stood_still_is_shown_anew() -> None:
    place = Place()
    await place.neighbours.show(3, watched=True, now=NOW)
    for later in range(2):
        await place.look(NOW + later * LOOK_MS)
        await place.neighbours.show(3, watched=True, now=NOW)
    assert place.board.shown == [(3, True)]
    place.board.shown.clear()
    await place.look(NOW + 2 * LOOK_MS)
    await place.neighbours.show(3, watched=True, now=NOW)
    assert (place.board.shown, place.sent) == ([(3, True)], [WATCHES] * 2)


async def test_turns_say_what_they_changed_while_there_are_others_and_a_while_longer() -> None:
    place = Place()
    announced = [(place.board.announced, place.neighbours.around(NOW))]
    for later in (ANNOUNCED_MS - 1, ANNOUNCED_MS):
        place.neighbours.meet(frozenset(), NOW + later)
        announced.append((place.board.announced, place.neighbours.around(NOW + later)))
    assert announced == [(True, True), (True, True), (False, False)]


async def test_how_it_stands_is_summed_over_all_servers() -> None:
    place = Place()
    place.board.paused = True
    news = await place.neighbours.look(NOW)
    assert (news.paused, news.counts, place.neighbours.workers) == (True, {"pending": 15}, 4)
    assert list(news.rates.values()) == [(1, 2, 3, 4, 5, 6)]
    place.neighbours.suspect()
    news = await place.neighbours.look(NOW)
    assert (news.paused, news.counts) == (None, {}), "which is looked at each second, and not after each hint"


async def test_where_the_clock_was_set_back_it_is_looked_at_once() -> None:
    place = Place()
    await place.neighbours.look(NOW)
    assert not place.neighbours.is_due(NOW, watched=False)
    assert place.neighbours.is_due(NOW - 3_600_000, watched=False)
    assert (await place.neighbours.look(NOW - 3_600_000)).counts
    assert not place.neighbours.is_due(NOW - 3_600_000, watched=False)


async def test_what_happened_here_is_told_where_it_is_news() -> None:
    place = Place()
    minutes = [Minute(0), Minute(60_000, posted=1)]
    for _ in range(2):
        await place.neighbours.tell(minutes)
    assert place.board.counted == [{60_000: (1, 0, 0, 0, 0, 0)}]


async def test_of_quiet_minutes_nothing_is_told() -> None:
    place = Place()
    for minutes in ([Minute(0)], [Minute(60_000, posted=1)], [Minute(120_000), Minute(180_000)]):
        await place.neighbours.tell(minutes)
    assert place.board.counted == [{60_000: (1, 0, 0, 0, 0, 0)}]
