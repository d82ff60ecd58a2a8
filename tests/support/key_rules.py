"""What a program may do with keys and arrays of posts, and what an administrator does to one item.

A part of the machine, which adds to it all that does not name a key.
"""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from leaseway_server.core.commands import Change, Delete
from leaseway_server.core.events import Adjust, Cancel, Retry
from support.driver import Driver
from support.side import Said

ITEMS: Final = 25
DAY: Final = 86_400_000
WINDOW: Final = 12_500
"""For so long a key is held after its post."""

index = st.integers(0, 99)
now_or_later = st.sampled_from([True, True, True, False])
keys = st.sampled_from(["k1", "k1", "k2", "k3"])
items = st.builds(lambda kind, size: {"kind": kind, "size": size}, st.sampled_from(["a", "b"]), st.integers(1, 2))


class KeyRules(Driver):
    """A part of one program."""

    @precondition(lambda self: len(self.journal.rows) < ITEMS)
    @rule(
        posts=st.lists(
            st.fixed_dictionaries({"item": items}, optional={"key": keys, "delayMs": st.just(3_000)}),
            min_size=1,
            max_size=4,
        ),
        bad=st.sampled_from([None, None, None, {"item": {"kind": "guilty"}}, {"item": 1, "delayMs": 1, "ttlMs": 1}]),
        now=now_or_later,
    )
    def post_all(self, posts: list[Said], bad: Said | None, now: bool) -> None:
        """An array of posts, perhaps with one that takes the others down with it."""
        self._post_all(posts if bad is None else [*posts, bad])
        self._then(now)

    @precondition(lambda self: len(self.journal.rows) < ITEMS)
    @rule(item=items, key=keys, times=st.integers(2, 4), now=now_or_later)
    def post_again(self, item: Said, key: str, times: int, now: bool) -> None:
        """The same post again and again, as a producer does whose answers are lost."""
        for _ in range(times):
            self._post(item, {"key": key})
        self._then(now)

    @precondition(lambda self: self.journal.rows)
    @rule(
        which=index,
        priority=st.sampled_from([None, -1, 0, 2]),
        due_in=st.sampled_from([None, None, -1_000, 0, 3_000, 25_000]),
        now=now_or_later,
    )
    def patch(self, which: int, priority: int | None, due_in: int | None, now: bool) -> None:
        """Another priority or due time, mostly of an item that waits."""
        waiting = [name for name, row in self.journal.rows.items() if row.status == "pending"]
        names = waiting if waiting and which < 80 else list(self.journal.rows)
        due_at = None if due_in is None else self.clock.now() + due_in
        self._administer("patch", Change(names[which % len(names)], Adjust(priority, due_at)))
        self._then(now)

    @precondition(lambda self: self.journal.rows)
    @rule(which=index, first=st.booleans(), now=now_or_later)
    def delete(self, which: int, first: bool, now: bool) -> None:
        """A delete, mostly of what has ended; perhaps it was cancelled just before."""
        ended = [name for name, row in self.journal.rows.items() if row.finished_at]
        names = ended if ended and which < 80 else list(self.journal.rows)
        name = names[which % len(names)]
        if first:
            self._administer("cancel", Change(name, Cancel()))
        self._administer("delete", Delete(name))
        self._then(now)

    @rule(window=st.sampled_from([0, 1_500, WINDOW, WINDOW, 40_000]), own_only=st.booleans())
    def reconfigure(self, window: int, own_only: bool) -> None:
        """Keys are held for longer or for less long, and are the queue's or the posters'. Only one posts here."""
        self._turn()
        self._reconfigure(window, own_only)
        self._turn()

    @rule(retry=st.booleans(), end=st.sampled_from(["cancel", "delete", "none"]), past=st.sampled_from([-1, 0, 1_500]))
    def take_a_key_that_was_let_go(self, retry: bool, end: str, past: int) -> None:
        """An item ends, its key passes, another is posted under it; then the first is to be retried."""
        self._turn()
        self._post({"kind": "f", "size": 1}, {"key": "k4", "delayMs": DAY})
        name = f"#{self.journal.named}"
        self._turn()
        if name not in self.journal.rows:
            return  # Somebody has the key.
        self._administer("cancel", Change(name, Cancel()))
        self._taken()
        self.clock.advance(max(self.journal.policy.dedupe_window + past, 0))
        self._post({"kind": "f", "size": 2}, {"key": "k4", "delayMs": DAY})
        other = f"#{self.journal.named}"
        self._then(retry)
        self._administer("retry", Change(name, Retry()))
        self._turn()
        if end != "none":
            self._administer("cancel", Change(other, Cancel()))
            if end == "delete":
                self._administer("delete", Delete(other))
            self._administer("retry", Change(name, Retry()))
            self._turn()
