"""For tests of posts with keys, and of arrays: what to post on a bench, what came of it, and what becomes of a key."""

from dataclasses import replace
from typing import Any, Final

from leaseway_server.core.commands import Change, Changed, Failed, Outcome, Post, PostAll, Posted, PostedAll
from leaseway_server.core.errors import Refused
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.core.keys import GRAIN
from leaseway_server.core.model import NewItem
from support.bench import Bench
from support.model import POLICY

WINDOW: Final = 20 * GRAIN
"""A dedupe window, ms; where it counts, posts come at full seconds."""


def configure(bench: Bench, *, window: int = WINDOW, own_only: bool = False) -> None:
    """From the next turn on keys are held for so long, and are the posters' own where only one's own is seen."""
    policy = replace(POLICY, dedupe_window=window)
    bench.engine.reconfigure(replace(bench.engine.queue, policy=policy, own_only=own_only))


def keyed(body: str = '{"a":1}', key: str = "k", **options: Any) -> Post:
    """A post under this key."""
    return Post(NewItem(body, posted_by="ann", key=key, **options))


def array(*news: NewItem) -> PostAll:
    """Posts that are one."""
    return PostAll(news)


def posted(outcome: Outcome) -> Posted:
    """The outcome of a post that was done."""
    assert isinstance(outcome, Posted), outcome
    return outcome


def posted_all(outcome: Outcome) -> tuple[Posted, ...]:
    """The outcomes of an array that was posted."""
    assert isinstance(outcome, PostedAll), outcome
    return outcome.items


def refusal(outcome: Outcome) -> Refused:
    """Why it was not done."""
    assert isinstance(outcome, Failed), outcome
    return outcome.error


async def one(bench: Bench, post: Post) -> Posted:
    """The post's outcome, in a turn of its own."""
    (outcome,) = await bench.do(post)
    return posted(outcome)


async def cancel(bench: Bench, item_id: str) -> None:
    """Ends an open item."""
    (changed,) = await bench.do(Change(item_id, Cancel()))
    assert isinstance(changed, Changed)
    assert changed.accepted


async def retried(bench: Bench, item_id: str) -> Changed:
    """What came of a retry."""
    (changed,) = await bench.do(Change(item_id, Retry()))
    assert isinstance(changed, Changed)
    return changed


async def held(bench: Bench, item_id: str) -> int:
    """Whether the item holds its key."""
    return (await bench.read(item_id)).held
