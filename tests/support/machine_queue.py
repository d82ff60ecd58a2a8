"""Random programs against the queue: what is done to the queue as a whole, and what it does by itself in time."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from support.driver import Driver
from support.rare import SEEN


class QueueSteps(Driver):
    """Pausing, and retention."""

    @rule(on=st.sampled_from([True, False, False]), now=st.booleans())
    def pause(self, on: bool, now: bool) -> None:
        """An administrator pauses the queue, or ends the pause."""
        self._pause(on)
        self._then(now)

    @precondition(lambda self: self.journal.sockets)
    @rule(who=st.integers(0, 99), before=st.booleans(), most=st.integers(1, 3), gone=st.booleans())
    def pause_for_a_while(self, who: int, before: bool, most: int, gone: bool) -> None:
        """A claim that waits, before or within the pause, gets what was posted in it as soon as the pause ends."""
        speaker = self._socket(who)
        if before:
            self._wait_for_a_pause(speaker, most)
        self._pause(True)
        self._turn()
        if not before and speaker in self.journal.sockets:
            self._wait_for_a_pause(speaker, most)
        self._post({"kind": "p"}, {})
        self._turn()
        if gone:
            self._drop(speaker)
        handed = len(self.journal.handed)
        self._pause(False)
        self._turn()
        SEEN["handed out as a pause ended"] += len(self.journal.handed) > handed

    def _wait_for_a_pause(self, speaker: str, most: int) -> None:
        self._say(speaker, "claim", {"criteria": {"kind": "p"}, "count": most, "waitMs": 60_000})
        self._turn()

    @precondition(lambda self: self.journal.outstay())
    @rule(which=st.integers(0, 99), past=st.sampled_from([-1, 0, 0, 5_000]), now=st.booleans())
    def outlive_an_end(self, which: int, past: int, now: bool) -> None:
        """Time goes by until an ended item's is over, to the millisecond."""
        times = sorted(self.journal.outstay().values())
        self._taken()
        self.clock.advance(max(0, times[which % len(times)] + past - self.clock.now()))
        self._then(now)
