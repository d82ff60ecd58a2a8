"""PROTOCOL.md §4, as a stranger sees it: where an error points, the same over HTTP and on a socket; what withdraws."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from support.raw import raw_socket
from support.server import resize_queue, running_server

PICTURE = {"image": "data:image/png;base64,iVBORw0KGgo=", "format": "png", "width": 320}
ID = "0123456789abcdef"
SMALL = {"image": "data:image/png;base64,iVBORw0KGgo=", "width": 320, "height": 200, "palette": [], "luminance": 0.5}


@pytest.mark.protocol("4.15", "4.16", "4.18")
@pytest.mark.parametrize(
    ("verb", "body", "paths"),
    [
        ("progress", {"id": ID, "value": {"percent": 101}}, ["/percent"]),
        ("progress", {"id": ID, "value": 1}, [""]),
        ("result", {"id": ID, "value": SMALL | {"width": "wide", "palette": ["#ffffff", 7]}}, ["/palette/1", "/width"]),
        ("post", {"item": PICTURE | {"format": "gif"}}, ["/item/format"]),
        ("post", {"item": 1, "a/b~c": 1}, ["/item"]),
        ("fail", {"id": ID, "error": {"message": 1}}, ["/error/message"]),
        ("claim", {"criteria": {"a/b": {"c~d": {"$near": 1}}}}, ["/criteria/a~1b/c~0d/$near"]),
    ],
)
async def test_an_error_points_to_the_same_place_at_both_doors(
    verb: str, body: Any, paths: list[str], tmp_path: Path
) -> None:
    socket_name, path = ("monitor", "/items") if verb == "post" else ("work", f"/{verb}")
    async with (
        running_server(tmp_path, resize_queue()) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
        raw_socket(f"{server.ws_url}/resize/{socket_name}") as socket,
    ):
        on_socket = await socket.ask({verb: body})
        over_http = (await http.post(f"/resize{path}", json=body)).json()
    assert on_socket["type"] == "error"
    for told in (on_socket, over_http):
        assert sorted(error["path"] for error in told["errors"]) == paths, told
    assert on_socket["code"] == over_http["code"]


@pytest.mark.protocol("4.82")
@pytest.mark.parametrize("value", [False, None, 1, "true", [], {}])
async def test_only_true_withdraws_what_waits(value: Any, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        work.say({"claim": {"waitMs": 60_000}})
        assert (await work.ask({"unclaim": value}))["code"] == "bad-message"
        posted = (await http.post("/demo/items", json={"item": 1})).json()
        assert (await work.hear())["id"] == posted["id"]
