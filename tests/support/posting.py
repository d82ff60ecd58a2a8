"""For tests of posts with keys, and of arrays: what to post on a bench, and what came of it."""

from typing import Any

from leaseway_server.core.commands import Failed, Outcome, Post, PostAll, Posted, PostedAll
from leaseway_server.core.errors import Refused
from leaseway_server.core.model import NewItem
from support.bench import Bench


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
