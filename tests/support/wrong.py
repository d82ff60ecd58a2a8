"""Messages that are wrong in one member, and the code with which each is refused: the same table for both doors.

Owns what is wrong, member by member, and not how it is sent. `LEFT_OUT` stands for a member that is missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

LEFT_OUT: Final = object()
ID: Final = "0123456789abcdef"
NO_INTEGER: Final[list[Any]] = [None, 1.5, "1", True, [], {}, -1, 2**53, 2**63, -(2**63), 10**40]
NO_CUT_INTEGER: Final[list[Any]] = [value for value in NO_INTEGER if value not in (2**53, 2**63)]
"""Of `count` and `waitMs`, which are cut where they are larger than the server's limit (PROTOCOL.md §5)."""
NO_COUNT: Final[list[Any]] = [0, *NO_CUT_INTEGER]
NO_NAME: Final[list[Any]] = [None, 1, "", "x" * 201, "a\nb", "a\x00", "a\u2028", "a\ud800", True, [], {}]
NO_FLAG: Final[list[Any]] = [None, 0, 1, "true", [], {}]
NO_TEXT: Final[list[Any]] = [None, 1, True, [], {}]
NO_OBJECT: Final[list[Any]] = [None, 1, "x", True, [], [{}]]
NO_ID: Final[list[Any]] = [LEFT_OUT, None, 1, True, [], {}, ["0123456789abcdef"]]
LARGE_RECORD: Final = "x" * 33_000
LARGE_VALUE: Final = "x" * 918_000

Table = dict[str, tuple[Mapping[str, Any], Mapping[str, Sequence[Any]]]]

REPORTS: Final[Table] = {
    "progress": ({"id": ID, "value": 1}, {"id": NO_ID, "attempts": NO_INTEGER, "value": [LEFT_OUT, LARGE_RECORD]}),
    "result": ({"id": ID, "value": 1}, {"id": NO_ID, "attempts": NO_INTEGER, "value": [LEFT_OUT, LARGE_VALUE]}),
    "fail": (
        {"id": ID, "error": {"message": "no"}},
        {
            "id": NO_ID,
            "attempts": NO_INTEGER,
            "error": [
                LEFT_OUT,
                *NO_OBJECT,
                {},
                *({"message": message} for message in NO_TEXT),
                *({"message": "no", "code": code} for code in NO_TEXT),
                {"message": LARGE_RECORD},
                {"message": "no", "detail": LARGE_RECORD},
            ],
            "retryable": NO_FLAG,
            "retryInMs": NO_INTEGER,
        },
    ),
    "release": ({"id": ID}, {"id": NO_ID, "attempts": NO_INTEGER, "delayMs": NO_INTEGER}),
    "renew": ({"id": ID}, {"id": NO_ID, "attempts": NO_INTEGER}),
}
CLAIM: Final[Table] = {
    "claim": (
        {},
        {
            "criteria": [
                1,
                "x",
                True,
                [],
                {"$none": 1},
                {"a": {"$lt": None}},
                {"a": {"$in": 1}},
                {"a": {"$lt": 1, "b": 2}},
            ],
            "worker": NO_NAME,
            "count": NO_COUNT,
            "waitMs": NO_CUT_INTEGER,
        },
    ),
}
SOCKET_ONLY: Final[Table] = {
    "resume": (
        {"worker": "w", "leases": []},
        {
            "worker": [LEFT_OUT, *NO_NAME],
            "leases": [
                LEFT_OUT,
                None,
                {},
                "x",
                [1],
                [None],
                [{}],
                [{"id": ID}],
                [{"id": 1, "attempts": 1}],
                *([{"id": ID, "attempts": number}] for number in NO_INTEGER),
            ],
        },
    ),
}
HELLO: Final[Table] = {
    "hello": (
        {},
        {
            "worker": NO_NAME,
            "client": NO_NAME,
            "labels": [*NO_OBJECT, {"a": "x" * 2_000}],
            "cancel": NO_FLAG,
            "batch": NO_FLAG,
        },
    ),
}
POST: Final[Table] = {
    "post": (
        {"item": 1},
        {
            "item": [LEFT_OUT, LARGE_VALUE],
            "priority": [None, 1.5, "1", True, 101, -101, 2**53],
            "delayMs": NO_INTEGER,
            "dueAt": NO_INTEGER,
            "ttlMs": [0, *NO_INTEGER],
            "maxAttempts": [0, *NO_INTEGER],
            "meta": [*NO_OBJECT, {"a": "x" * 2_000}],
        },
    ),
}


def wrong(table: Table) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Each message of the table with one wrong member: (verb, the inner object, the member, the code)."""
    for verb, (good, members) in table.items():
        for member, values in members.items():
            for value in values:
                body = {name: told for name, told in good.items() if name != member}
                if value is not LEFT_OUT:
                    body[member] = value
                yield verb, body, member, _code(value)


def _code(value: Any) -> str:
    """Which of the codes stands for this kind of wrong."""
    if _is_large(value):
        return "too-large"
    unkeepable = isinstance(value, int) and not -(2**63) <= value < 2**64
    nested = value[0].get("attempts") if isinstance(value, list) and value and isinstance(value[0], dict) else None
    unkeepable |= isinstance(nested, int) and not -(2**63) <= nested < 2**64
    return "bad-json" if unkeepable or value == "a\ud800" else "bad-message"


def _is_large(value: Any) -> bool:
    inner = [value, *value.values()] if isinstance(value, dict) else [value]
    return any(isinstance(each, str) and len(each) > 1_999 for each in inner)
