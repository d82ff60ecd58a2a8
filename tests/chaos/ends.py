"""What producers learn of their items' ends: each one, once, and not before anything was said that makes it so.

Also what a subscription tells: an item's `rev` rises there. Of who watches all that is its own no list is kept: it may
be told the same twice, in one life (a change while it is shown what is there) and in the next (§3.44).
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from chaos.journals import Message, Said, Told
from chaos.promises import TERMINAL, Promises

Hold: TypeAlias = Callable[[bool, str, str], None]
"""Notes what is broken (the last argument) about whom (the one before) where the first is false."""
_CAUSES: Final = frozenset({"result", "fail", "cancel"})


class Ends:
    """What is known of ends, by producer and item."""

    def __init__(self, promises: Promises, hold: Hold) -> None:
        self._promises = promises
        self._hold = hold
        self.unlearned: set[tuple[str, str]] = set()
        """Producers and items that they posted, the end of which they did not learn yet."""
        self._learned: set[tuple[str, str]] = set()
        self._revs: dict[tuple[int, str], int] = {}
        self._of_all: set[int] = set()
        self._results: dict[str, list[Any]] = {}
        self._failed: dict[str, set[int]] = {}
        self._final: set[str] = set()
        self._cancelled: set[str] = set()

    def on_said(self, said: Said) -> None:
        """What may end an item, and what begins a subscription."""
        body = said.body
        if said.verb == "subscribe" and body.get("mine"):
            self._of_all.add(said.ref)
        if said.verb not in _CAUSES:
            return
        item_id = body["id"]
        if said.verb == "result":
            self._results.setdefault(item_id, []).append(body["value"])
        elif said.verb == "cancel":
            self._cancelled.add(item_id)
        elif body["retryable"]:
            self._failed.setdefault(item_id, set()).add(body["attempts"])
        else:
            self._final.add(item_id)

    def on_posted(self, said: Said, item_id: str) -> None:
        """A post was acknowledged: its producer is to learn the end."""
        if (said.who, item_id) not in self._learned:
            self.unlearned.add((said.who, item_id))

    def on_view(self, said: Said, view: Message) -> None:
        """What was asked for."""
        if view["status"] in TERMINAL:
            self._learn(said.who, view)

    def on_told(self, told: Told) -> None:
        """What was pushed."""
        item_id, rev = told.view["id"], told.view["rev"]
        last = self._revs.get((told.ref, item_id), 0)
        newer = rev >= last if told.ref in self._of_all else rev > last
        self._hold(newer, item_id, f"was told to {told.who} as rev {rev} after {last} (I6)")
        self._revs[told.ref, item_id] = max(rev, last)
        if told.view["status"] not in TERMINAL:
            return
        if told.ref not in self._of_all:
            once = (told.who, item_id) not in self._learned
            self._hold(once, item_id, f"was told to {told.who} to have ended, twice")
        self._learn(told.who, told.view)

    def close(self) -> None:
        """Nothing more is learned."""
        for who, item_id in sorted(self.unlearned):
            self._hold(False, item_id, f"has an end that {who} never learned (I6)")

    def _learn(self, who: str, view: Message) -> None:
        item_id = view["id"]
        self._hold(self._has_cause(view), item_id, f"was told to {who} to be {view['status']}, for nothing: too early")
        self._learned.add((who, item_id))
        self.unlearned.discard((who, item_id))

    def _has_cause(self, view: Message) -> bool:
        """Whether anything was said by now that makes it end so."""
        item_id = view["id"]
        match view["status"]:
            case "finished":
                return view["result"] in self._results.get(item_id, ())
            case "failed":
                return item_id in self._final
            case "cancelled":
                return item_id in self._cancelled
            case "expired":
                return view["expiresAt"] is not None and view["finishedAt"] >= view["expiresAt"]
        return len(self._failed.get(item_id, ())) >= int(view["maxAttempts"])
