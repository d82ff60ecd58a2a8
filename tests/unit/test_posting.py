"""Bodies of posts and of PATCH without a socket: what is refused, and what follows from the largest message."""

from typing import Any

import pytest

from leaseway_server.core.errors import BadMessage, TooManyPosts
from leaseway_server.core.events import Adjust
from leaseway_server.core.posting import parse_adjust, parse_posts
from leaseway_server.core.queue import Limits, Queue

QUEUE = Queue("demo", limits=Limits(message_bytes=1_000_000, bulk_items=2))


def test_an_array_of_posts_has_at_least_one_and_no_more_than_are_allowed() -> None:
    with pytest.raises(BadMessage, match="at least one"):
        parse_posts([], QUEUE, "alice")
    with pytest.raises(TooManyPosts, match="at most 2 items are posted at once, and here are 3"):
        parse_posts([{"item": number} for number in range(3)], QUEUE, "alice")
    assert [post.body for post in parse_posts([{"item": 1}, {"item": 2}], QUEUE, "alice")] == ["1", "2"]


def test_a_fault_in_an_array_is_named_with_its_index() -> None:
    with pytest.raises(BadMessage) as refused:
        parse_posts([{"item": 1}, {"item": 2, "priority": 101}], QUEUE, "alice")
    assert [problem.path for problem in refused.value.problems] == ["/1/priority"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "nothing is to be changed"),
        ({"ttlMs": 1}, "ttlMs cannot be changed"),
        ({"item": 1, "priority": 1}, "item cannot be changed"),
        ([], "the body of a PATCH"),
    ],
)
def test_a_patch_that_changes_nothing_or_what_is_fixed_is_refused(body: Any, said: str) -> None:
    with pytest.raises(BadMessage, match=said):
        parse_adjust(body)
    assert parse_adjust({"priority": 1, "dueAt": 2}) == Adjust(1, 2)


def test_many_lines_may_have_as_much_as_many_messages() -> None:
    assert QUEUE.limits.bulk_bytes == 8 * 1_000_000
