"""A move from the first check to the last mark.

First all is checked, and nothing changed. Then every queue is marked where it comes from, so that no server begins to
serve it, and is copied and compared; last the marks are turned. Killed at any moment, the same move goes on: what
stands in the target is what was copied, and the marks tell whose it is.
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.model import Status
from leaseway_server.moving.copying import Content, compare, copy
from leaseway_server.moving.side import Look, QueueSide, Side, TokenRow, refuse_taken
from leaseway_server.store.moved import Mark

Tokens: TypeAlias = Literal["same", "add", "leave"]
"""What becomes of tokens where both ends have some, and not the same."""
Step: TypeAlias = Literal["copying", "comparing"]
Progress: TypeAlias = Callable[[str, Step, int, int], None]
"""Told the queue, what is done to it, how many rows were, and of how many, as far as that is known."""
_ID_BYTES: Final = 8
_NAMED: Final = 5
"""So many tokens are named in an error."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One queue at both ends. `found`: so it was where it comes from; `mark` is the one that it has there, or gets.

    `begun`: it is marked at both ends. `done`: all of it is there, and was so before.
    """

    source: QueueSide
    target: QueueSide
    found: Look
    mark: Mark
    begun: bool
    done: bool


@dataclass(slots=True)
class Moved:
    """What was done. `contents` by queue; those that were `already` there were left alone."""

    contents: dict[str, Content] = field(default_factory=dict)
    already: list[str] = field(default_factory=list)
    tokens: int = 0


class Moving:
    """One run of a move. `begun`: something was changed, so that the move is to be ended or taken back."""

    def __init__(self, source: Side, target: Side, progress: Progress) -> None:
        self.begun = False
        self._source = source
        self._target = target
        self._progress = progress

    async def run(self, names: Collection[str] | None, tokens: Tokens) -> Moved:
        """Moves the queues of these names, or all. Raises `StoreRefused`."""
        chosen = await chosen_queues(self._source, names)
        pairs = [await self._pair(name) for name in chosen]
        moved = Moved(already=[pair.source.name for pair in pairs if pair.done])
        moving = [pair for pair in pairs if not pair.done]
        missing = await self._missing_tokens(tokens) if moving else []
        for pair in moving:
            await self._begin(pair)
        for pair in moving:
            moved.contents[pair.source.name] = await self._carry(pair)
        if moving:
            moved.tokens = await self._carry_tokens(missing, tokens)
        for pair in moving:
            await self._end(pair, moved.contents[pair.source.name])
        await self._leave_tokens(pairs[-1].mark)
        return moved

    # ── What is to be moved ──

    async def _pair(self, name: str) -> Pair:
        """Raises where the queue cannot be moved."""
        source, target = await self._source.queue(name), await self._target.queue(name)
        there, here = await source.look(), await target.look()
        if there.facts is None:
            raise StoreRefused(f"{source.where} was never served; remove it, or name the other queues with --queues")
        mark = there.mark
        if mark is None or mark.state == "filled":
            refuse_taken(target.where, here)
            mark = Mark("leaving", secrets.token_hex(_ID_BYTES), self._target.place, _now())
            return Pair(source, target, there, mark, begun=False, done=False)
        if here.mark is not None and here.mark.id == mark.id:
            return Pair(source, target, there, mark, begun=True, done=here.mark.state == "filled")
        if here.mark is not None or mark.other != self._target.place:
            raise StoreRefused(f"{source.where} {mark.why}")
        if mark.state == "leaving":
            refuse_taken(target.where, here)
            return Pair(source, target, there, mark, begun=False, done=False)
        if not same_queue(there, here):
            raise StoreRefused(f"{source.where} {mark.why}")
        return Pair(source, target, there, mark, begun=True, done=True)  # It is served there.

    async def _missing_tokens(self, tokens: Tokens) -> list[TokenRow]:
        """Those that the target is to get."""
        here, there = await self._target.tokens(), await self._source.tokens()
        known = {row[:-1] for row in here}
        missing = [row for row in there if row[:-1] not in known]
        foreign = known - {row[:-1] for row in there}
        if tokens == "same" and here and (missing or foreign):
            raise _other_tokens(self._target.place, missing, foreign)
        return [] if tokens == "leave" else missing

    # ── Step by step ──

    async def _begin(self, pair: Pair) -> None:
        if pair.begun:
            self.begun = True
            return
        await pair.source.set_mark(pair.found.mark, pair.mark)
        self.begun = True
        assert pair.found.facts is not None
        await pair.target.begin(pair.found.facts, replace(pair.mark, state="filling", other=self._source.place))

    async def _carry(self, pair: Pair) -> Content:
        name = pair.source.name
        expected = _rows(await pair.source.counts())
        await copy(pair.source, pair.target, self._counter(name, "copying", expected))
        return await compare(pair.source, pair.target, self._counter(name, "comparing", 2 * expected))

    def _counter(self, name: str, step: Step, expected: int) -> Callable[[int], None]:
        done = 0

        def told(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress(name, step, done, max(done, expected))

        return told

    async def _carry_tokens(self, missing: Sequence[TokenRow], tokens: Tokens) -> int:
        if missing:
            await self._target.add_tokens(missing)
        if tokens != "leave":
            here = {row[:-1] for row in await self._target.tokens()}
            if any(row[:-1] not in here for row in await self._source.tokens()):
                raise StoreRefused(f"tokens in {self._source.place} were changed while it was moved; move once more")
        return len(missing)

    async def _end(self, pair: Pair, content: Content) -> None:
        """The source is marked first: at no moment may both be served."""
        at = _now()
        await pair.source.set_mark(pair.mark, replace(pair.mark, state="left", at=at))
        mark = Mark("filled", pair.mark.id, self._source.place, at)
        await pair.target.end(content.statuses, mark)

    async def _leave_tokens(self, mark: Mark) -> None:
        """Once no queue is left that is served where the tokens come from."""
        for name in await self._source.queues():
            look = await (await self._source.queue(name)).look()
            if look.mark is None or look.mark.state != "left":
                return
        await self._source.mark_tokens(replace(mark, state="left", at=_now()))


async def chosen_queues(source: Side, names: Collection[str] | None) -> Sequence[str]:
    """The queues of these names, or all. Raises `StoreRefused` where there is none of a name, or none at all."""
    there = await source.queues()
    if not there:
        raise StoreRefused(f"there is no store of Leaseway in {source.place}")
    if unknown := sorted(set(names or ()) - set(there)):
        raise StoreRefused(f"there is no queue {', '.join(unknown)} in {source.place}; there are {', '.join(there)}")
    return [name for name in there if names is None or name in names]


def same_queue(there: Look, here: Look) -> bool:
    """Whether both are one queue: no two have one key of ids."""
    return bool(there.facts and here.facts and there.facts.id_key == here.facts.id_key)


def _other_tokens(place: str, missing: Collection[TokenRow], foreign: Collection[tuple[object, ...]]) -> StoreRefused:
    def named(rows: Collection[Sequence[object]]) -> str:
        found = sorted(f"{row[1]} of {row[2]}" for row in rows)
        return ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")

    what = [f"lacks {named(missing)}"] if missing else []
    what += [f"has {named(foreign)} besides"] if foreign else []
    return StoreRefused(
        f"{place} has tokens, and not the same ones: it {' and '.join(what)}. Say --tokens add, and it gets those that "
        "it lacks, also those that were revoked there; or --tokens leave, and it keeps its own"
    )


def _rows(counts: Mapping[Status, int]) -> int:
    """So many rows a queue has about; nobody counts attempts."""
    return 2 * sum(counts.values()) + counts.get("finished", 0)


def _now() -> int:
    return int(time.time() * 1000)
