"""Posting over HTTP (PROTOCOL.md §5): one item, an array, or NDJSON, with keys in the body or in `Idempotency-Key`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.commands import Post, PostAll, Posted, PostedAll
from leaseway_server.core.errors import BadMessage, Refused, TooLarge
from leaseway_server.core.jsontext import Json
from leaseway_server.core.members import NAME_LIMIT, is_name
from leaseway_server.core.model import NewItem
from leaseway_server.core.posting import check_number, parse_one_of, parse_post, parse_posts
from leaseway_server.core.queue import Queue
from leaseway_server.web.auth import Admitted, admit
from leaseway_server.web.requests import json_response, media_type, parse_body, read_body, read_json, succeeded

KEY_HEADER: Final = "idempotency-key"
NDJSON: Final = "application/x-ndjson"
SLICE_BYTES: Final = 128 * 1024
"""After so many bytes of NDJSON the others have their turn."""


async def post_items(request: Request) -> Response:
    """`POST /<queue>/items`."""
    caller = await admit(request.app.state.site, request.scope, "post")
    queue = caller.served.queue
    if media_type(request) == NDJSON:
        _check_no_key(request)
        return await _post_all(caller, await _read_lines(request, queue, caller.user))
    body = await read_json(request, queue.limits.message_bytes)
    if isinstance(body, list):
        _check_no_key(request)
        return await _post_all(caller, parse_posts(body, queue, caller.user))
    return await _post_one(caller, _with_key(parse_post(body, queue, caller.user), request))


async def _post_one(caller: Admitted, new: NewItem) -> Response:
    posted = succeeded(await caller.served.engine.ask(Post(new)))
    assert isinstance(posted, Posted)
    return json_response(_answer(posted), 200 if posted.duplicate else 201)


async def _post_all(caller: Admitted, news: Sequence[NewItem]) -> Response:
    posted = succeeded(await caller.served.engine.ask(PostAll(tuple(news))))
    assert isinstance(posted, PostedAll)
    status = 200 if all(each.duplicate for each in posted.items) else 201
    return json_response({"items": [_answer(each) for each in posted.items]}, status)


def _answer(posted: Posted) -> dict[str, object]:
    item = posted.item
    return {
        "id": item.id,
        "status": item.status,
        "postedAt": item.posted_at,
        "dueAt": item.due_at,
        "duplicate": posted.duplicate,
    }


# ── NDJSON ──


async def _read_lines(request: Request, queue: Queue, user: str) -> list[NewItem]:
    """Each line is the body of a post; the last one may end with a line's end or without."""
    body = (await read_body(request, queue.limits.bulk_bytes)).removesuffix(b"\n")
    check_number(body.count(b"\n") + 1 if body else 0, queue)
    news: list[NewItem] = []
    read = 0
    for index, line in enumerate(body.split(b"\n")):
        news.append(parse_one_of(index, _parse_line(index, line, queue), queue, user))
        read += len(line)
        if read > SLICE_BYTES:
            read = 0
            await asyncio.sleep(0)
    return news


def _parse_line(index: int, line: bytes, queue: Queue) -> Json:
    path = f"/{index}"
    if len(line) > queue.limits.message_bytes:
        raise TooLarge(f"a line has at most {queue.limits.message_bytes} bytes", path=path)
    try:
        return parse_body(line, index + 1)
    except Refused as refused:
        raise refused.within(path) from None


# ── Keys ──


def _check_no_key(request: Request) -> None:
    if KEY_HEADER in request.headers:
        raise BadMessage("Idempotency-Key is the key of one item; each of several has its own member key")


def _with_key(new: NewItem, request: Request) -> NewItem:
    """The post under the key that its header says, if any. Raises `BadMessage`."""
    told = request.headers.getlist(KEY_HEADER)
    if not told:
        return new
    try:
        (key,) = {value.encode("latin-1").decode() for value in told}
    except ValueError:
        raise BadMessage("Idempotency-Key must be there once, in UTF-8") from None
    if not is_name(key):
        raise BadMessage(f"Idempotency-Key must have 1 to {NAME_LIMIT} characters without controls")
    if new.key not in ("", key):
        raise BadMessage("Idempotency-Key and the member key differ; they are the same thing", path="/key")
    return replace(new, key=key)
