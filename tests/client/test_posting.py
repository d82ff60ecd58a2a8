"""The bodies of posts: options, slices, what is refused before it is sent."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from leaseway.errors import Rejected
from leaseway.posting import AROUND, Options, Post, Slice, posts_of, slices


@dataclass
class Picture:
    width: int


async def sliced(items: Any, most: int = 3, most_bytes: int = 10_000, **options: Any) -> list[Slice]:
    """The slices of these items."""
    return [each async for each in slices(posts_of(items, options.pop("key", None), options), most, most_bytes)]  # type: ignore[arg-type]


def bodies(portion: Slice) -> list[Any]:
    """What the server reads of it."""
    return list(json.loads(orjson.dumps(portion.bodies)))


def test_a_body_says_what_was_said_and_no_more() -> None:
    assert Post(Picture(1)).body() == {"item": {"width": 1}}
    body = Post(None, key="k", priority=0, delay=0, ttl=0.0015, max_attempts=2, meta={"a": Picture(1)}).body()
    assert body == {
        "item": None, "key": "k", "priority": 0, "delayMs": 0, "ttlMs": 2, "maxAttempts": 2, "meta": {"a": {"width": 1}}
    }  # fmt: skip


@pytest.mark.parametrize("at", [1_700_000_000, 1_700_000_000.0, datetime.fromtimestamp(1_700_000_000, UTC)])
def test_a_due_time_is_seconds_or_a_datetime(at: Any) -> None:
    assert Post(1, due_at=at).body() == {"item": 1, "dueAt": 1_700_000_000_000}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay is a number of seconds, 0 or more, and not -1"),
        ({"delay": "5m"}, "delay is a number of seconds, 0 or more, and not '5m'"),
        ({"due_at": "tomorrow"}, "due_at is seconds since the epoch, as of time.time.., and not 'tomorrow'"),
        ({"meta": [1]}, "meta is an object of at most 2 kB"),
        ({"delay": float("nan")}, "delay is a number of seconds"),
        ({"ttl": float("inf")}, "ttl is a number of seconds"),
        ({"ttl": 1e18}, "ttl is a number of seconds"),
        ({"delay": 1, "due_at": 5}, "delay and due_at are both there"),
        ({"due_at": -1}, "due_at is seconds since the epoch"),
        ({"due_at": 1.8e12}, "due_at is seconds since the epoch"),
        ({"due_at": float("nan")}, "due_at is seconds since the epoch"),
        ({"due_at": datetime(2026, 1, 1)}, "without a time zone"),  # noqa: DTZ001  That is what is refused.
    ],
)
def test_an_option_that_means_nothing_is_refused(options: Options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Post(1, **options).body()


def test_what_a_post_says_itself_comes_before_what_is_said_of_all() -> None:
    post = Post.of(Post(1, key="own", priority=5), "all", {"priority": 1, "delay": 2})
    assert post == Post(1, key="own", priority=5, delay=2)


async def test_slices_have_their_number_and_their_place() -> None:
    found = await sliced(range(7), priority=3)
    assert [each.first for each in found] == [0, 3, 6]
    assert [body["item"] for each in found for body in bodies(each)] == list(range(7))
    assert {body["priority"] for each in found for body in bodies(each)} == {3}
    assert not any(each.keyed for each in found)
    assert await sliced([]) == []


async def test_slices_fit_into_a_message() -> None:
    found = await sliced(["x" * 400] * 5, most=100, most_bytes=1_000 + AROUND)
    assert [len(each.bodies) for each in found] == [2, 2, 1]
    assert all(len(orjson.dumps({"post": each.bodies, "ref": 2**53})) <= 1_000 + AROUND for each in found)


async def test_a_slice_may_be_said_again_where_each_of_it_has_a_key() -> None:
    found = await sliced([Post("a", key="x"), "b", "c", Post("d", key="x"), "e"], most=2, key=str.upper)
    assert [[body["key"] for body in bodies(each)] for each in found] == [["x", "B"], ["C", "x"], ["E"]]
    assert all(each.keyed for each in found)
    assert [each.keyed for each in await sliced([Post("a", key="x"), "b", Post("c", key="y")], most=2)] == [False, True]


async def test_items_may_come_one_after_another() -> None:
    async def coming() -> AsyncIterator[Post[int]]:
        for number in range(4):
            yield Post(number, key=str(number))

    assert [bodies(each)[0]["key"] for each in await sliced(coming(), most=2)] == ["0", "2"]


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({1, 2}, Rejected, "/4: "),
        ("x" * 2_000, Rejected, "too-large: /4: "),
        (Post(1, delay=-1), ValueError, "number 4: delay is"),
    ],
)
async def test_what_cannot_be_said_stops_there_and_not_before(wrong: Any, kind: type[Exception], message: str) -> None:
    given: list[Slice] = []
    found = slices(posts_of([0, 1, 2, 3, wrong, 5], None, {}), 3, 1_000)
    given += [await anext(found), await anext(found)]
    with pytest.raises(kind, match=message):
        await anext(found)
    assert [body["item"] for each in given for body in bodies(each)] == [0, 1, 2, 3]


def test_a_refusal_is_placed_among_all() -> None:
    refused = Rejected("schema", [{"path": "/1/item/width", "message": "x"}, {"path": "/2", "message": "y"}])
    placed = Slice(1_000, [], keyed=False).placed(refused)
    assert [fault["path"] for fault in placed.errors] == ["/1001/item/width", "/1002"]
    whole = Rejected("limit", [{"path": "", "message": "full"}, {"message": "no path"}])
    assert Slice(1_000, [], keyed=False).placed(whole).errors == whole.errors
