"""The producer: posts pictures over plain HTTP and reads views back, with nothing but the standard library."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from http import HTTPStatus
from typing import Any

from demo_news import DemoFailed
from pictures import Picture

from leaseway import PostUnknown

RETRY_AFTER = 0.05
GIVE_UP_AFTER = 60.0


class Producer:
    """Posts to one queue. `waited` counts the posts that found no server at first."""

    def __init__(self, host: str, port: int, queue: str) -> None:
        self._host = host
        self._port = port
        self._queue = queue
        self.waited = 0

    async def post(self, picture: Picture, width: int, wanted: str) -> str:
        """Posts a picture and gives its item's id; waits for a server that restarts.

        Raises `PostUnknown` where the post was sent and its answer never came. It must not be sent again: the item
        may be there.
        """
        body = {"item": {"image": picture.url, "format": wanted, "width": width}}
        status, answer = await self._try(body)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.waited += 1
            deadline = time.monotonic() + GIVE_UP_AFTER
            while status == HTTPStatus.SERVICE_UNAVAILABLE and time.monotonic() < deadline:
                await asyncio.sleep(RETRY_AFTER)
                status, answer = await self._try(body)
        if status != HTTPStatus.CREATED:
            raise DemoFailed(f"a post was answered with {status}: {answer}")
        return str(answer["id"])

    async def view(self, item_id: str) -> dict[str, Any]:
        """The item's view, as the server has it now."""
        status, view = await self._request("GET", f"/{self._queue}/items/{item_id}", None)
        if status != HTTPStatus.OK:
            raise DemoFailed(f"item {item_id} was posted, and the server now says {status}: {view}")
        return view

    async def _try(self, body: Any) -> tuple[int, dict[str, Any]]:
        try:
            return await self._request("POST", f"/{self._queue}/items", body)
        except ConnectionRefusedError:  # Nothing was sent, so that nothing can be there twice.
            return HTTPStatus.SERVICE_UNAVAILABLE, {}

    async def _request(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        return await asyncio.to_thread(self._exchange, method, path, body)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            connection.connect()  # By itself: only a refusal here means that nothing was sent.
            headers = {"Content-Type": "application/json"}
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                return response.status, json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                raise PostUnknown(f"{method} {path} had no answer: {error!r}") from None
        finally:
            connection.close()
