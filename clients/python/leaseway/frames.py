"""What two processes of one worker say to each other: one JSON line, and after it as many raw bytes as it counts.

So a large item or result is encoded once and read by whoever needs it. Owns the form only: what is said is the
business of both ends.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from leaseway import errors
from leaseway.errors import Rejected

Header = dict[str, Any]
#: Bytes that a line may have: records of 32 KiB, criteria and errors are in it, items and results are not.
LINE_BYTES = 1_048_576


def frame(verb: str, body: bytes = b"", **members: Any) -> bytes:
    """One frame, as it travels."""
    return orjson.dumps({"verb": verb, "bytes": len(body), **members}) + b"\n" + body


async def heard(reader: asyncio.StreamReader) -> tuple[Header, bytes] | None:
    """The next frame; None when the other end is gone, also where it was in the midst of one."""
    try:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            return None
        header = orjson.loads(line)
        return header, await reader.readexactly(header["bytes"])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def error_told(error: BaseException) -> list[Any]:
    """One of this library's errors as JSON."""
    if isinstance(error, Rejected):
        return [type(error).__name__, error.code, error.errors]
    return [type(error).__name__, str(error)]


def error_heard(told: list[Any]) -> Any:
    """The error again."""
    kind, *arguments = told
    return getattr(errors, kind)(*arguments)
