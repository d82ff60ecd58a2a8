"""How a move is taken back, as long as nobody served what was moved; it may be interrupted and done again.

What was copied is removed before the queues may be served where they were: at no moment may both be.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from leaseway_server.core.errors import StoreRefused
from leaseway_server.moving.move import chosen_queues, same_queue
from leaseway_server.moving.side import Look, QueueSide, Side
from leaseway_server.store.moved import Mark


@dataclass(frozen=True, slots=True)
class Ends:
    """One queue at both ends, and how it was found there."""

    source: QueueSide
    target: QueueSide
    there: Look
    here: Look

    @property
    def left(self) -> Mark | None:
        """The mark of what is moved away."""
        return _left(self.there)

    @property
    def begun(self) -> bool:
        """Whether there is something to take back."""
        return self.here.mark is not None or self.left is not None

    def check(self, place: str) -> None:
        """Raises where what is at the target, `place`, is not to be removed, or the source not to be served."""
        mark, left = self.here.mark, self.left
        if mark is not None:
            ours = left.id == mark.id if left else same_queue(self.there, self.here)
            if not ours or mark.state not in ("filling", "filled"):
                raise StoreRefused(f"{self.target.where} does not come from {self.source.where}")
        elif left and left.other != place:
            raise StoreRefused(f"{self.source.where} {left.why}")
        elif left and left.state == "left":
            raise StoreRefused(
                f"{self.target.where} was served, or removed, since it was moved there, so what is in "
                f"{self.source.where} is older. Move back into a place of its own (docs/moving.md); or say --force to "
                "go on with what was there before"
            )

    async def remove(self) -> None:
        """Nothing is left at the target. The source is on its way again: whoever is interrupted knows what to do."""
        if self.here.mark is not None:
            await self.target.set_mark(self.here.mark, replace(self.here.mark, state="filling"))
        if self.left is not None:
            await self.source.set_mark(self.left, replace(self.left, state="leaving"))
        if self.here.mark is not None:
            await self.target.remove()

    async def release(self) -> None:
        """The source may be served."""
        if self.left is not None:
            await self.source.set_mark(replace(self.left, state="leaving"), None)


async def undo(source: Side, target: Side, names: Collection[str] | None) -> list[str]:
    """Takes the move of these queues back, or of all. Gives the names of those that had been moved, or begun to.

    Raises `StoreRefused` where one was served already where it was moved to.
    """
    found = [await _ends(source, target, name) for name in await chosen_queues(source, names)]
    for ends in found:
        ends.check(target.place)
    begun = [ends for ends in found if ends.begun]
    if begun:
        await source.mark_tokens(None)
    for ends in begun:
        await ends.remove()
    if begun and not await target.queues():
        ours = set(await source.tokens())
        await target.remove_tokens([row for row in await target.tokens() if row in ours])
    for ends in begun:
        await ends.release()
    return [ends.source.name for ends in begun]


async def forget(source: Side, names: Collection[str] | None) -> list[str]:
    """Lets queues be served again where they were, whatever became of what was copied. Gives their names."""
    queues = [await source.queue(name) for name in await chosen_queues(source, names)]
    marked = [(queue, mark) for queue in queues if (mark := _left(await queue.look()))]
    if marked:
        await source.mark_tokens(None)
    for queue, mark in marked:
        await queue.set_mark(mark, None)
    return [queue.name for queue, _ in marked]


async def _ends(source: Side, target: Side, name: str) -> Ends:
    there, here = await source.queue(name), await target.queue(name)
    return Ends(there, here, await there.look(), await here.look())


def _left(look: Look) -> Mark | None:
    return look.mark if look.mark and look.mark.state in ("leaving", "left") else None
