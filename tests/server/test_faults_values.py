"""Values that a server cannot keep, or should not have tried: refused at both doors, and all else is kept as sent.

Depth, numbers, characters, schemas that are slow or lead astray (`faults.md`, 3, 7, 12 and 15).
"""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.clock import ManualClock
from support.raw import TEXT, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Doors:
    """All ways into one open queue."""

    http: httpx.AsyncClient
    monitor: RawSocket
    work: RawSocket
    clock: ManualClock

    async def post(self, item: str) -> httpx.Response:
        """An item, as raw JSON text."""
        return await self.http.post("/demo/items", content=f'{{"item":{item}}}', headers=JSON)

    async def posted(self, item: str) -> dict[str, Any]:
        """The same over the monitor socket."""
        self.clock.advance(1_000)
        self.monitor.frame(TEXT, f'{{"post":{{"item":{item}}}}}'.encode())
        return dict(await self.monitor.hear())

    async def said(self, text: str) -> dict[str, Any]:
        """A message of the worker, as raw JSON text, and the answer. Bad ones before it are forgiven (§6, 1008)."""
        self.clock.advance(1_000)
        self.work.frame(TEXT, text.encode(errors="surrogatepass"))
        return dict(await self.work.hear())


@asynccontextmanager
async def doors(server: TestServer) -> AsyncIterator[Doors]:
    clock = server.running._clock
    assert isinstance(clock, ManualClock)
    async with (
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        yield Doors(http, monitor, work, clock)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


DEEP = [nested(65), '{"a":' * 65 + "1" + "}" * 65, nested(300), nested(1_030)]


@pytest.mark.protocol("0.16")
async def test_what_is_too_deep_is_refused_at_every_door(tmp_path: Path) -> None:
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        await check_refusals(door, DEEP)
        for item in DEEP:
            assert (await door.said(f'{{"claim":{{"criteria":{{"a":{item}}}}}}}'))["type"] == "error"
        assert await door.said('{"claim":{}}') == {"type": "empty"}


async def test_a_million_brackets_are_refused_and_the_socket_lives(tmp_path: Path) -> None:
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        for brackets in ("[" * 1_000_000, nested(500_000), '{"a":' * 200_000):
            answer = await door.http.post("/demo/items", content=brackets, headers=JSON)
            assert (answer.status_code, answer.json()["code"]) == (400, "bad-json")
            for socket in (door.monitor, door.work):
                socket.frame(TEXT, brackets.encode())
                assert (await socket.hear())["code"] == "bad-json"
        assert await door.said('{"claim":{}}') == {"type": "empty"}


FAITHFUL = [
    nested(64),
    "1.0",
    "-0.0",
    "0.1",
    "1e300",
    "5e-324",
    "18446744073709551615",
    "-9223372036854775808",
    '"\\u0000\\u001f\\u007f\\u2028"',
    '"\\ud83d\\ude00"',
    '{"__proto__":{"constructor":1},"toString":null,"":0}',
    '{"$ref":"http://127.0.0.1:1/","type":"item","id":"x"}',
]


@pytest.mark.protocol("0.15")
async def test_the_value_that_was_sent_is_the_value_that_comes(tmp_path: Path) -> None:
    """As item, progress record and result; over HTTP, to the worker, and to who watches."""
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        for item in FAITHFUL:
            wanted = repr(json.loads(item))  # In which 1 is not 1.0, and -0.0 not 0.
            posted = (await door.post(item)).json()["id"]
            assert repr((await door.http.get(f"/demo/items/{posted}/item")).json()) == wanted
            claimed = await door.said('{"claim":{}}')
            assert repr(claimed["item"]) == wanted
            for verb in ("progress", "result"):
                assert (await door.said(f'{{"{verb}":{{"id":"{posted}","value":{item}}}}}'))["accepted"], item
                view = (await door.http.get(f"/demo/items/{posted}")).json()
                assert repr(view[verb]) == wanted


@pytest.mark.protocol("0.17")
async def test_of_two_equal_names_the_last_counts_and_one_is_left(tmp_path: Path) -> None:
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        posted = (await door.post('{"a":1,"b":2,"a":3}')).json()["id"]
        assert (await door.http.get(f"/demo/items/{posted}/item")).text in ('{"a":3,"b":2}', '{"b":2,"a":3}')


UNKEEPABLE = [
    "18446744073709551616",
    "-9223372036854775809",
    "9" * 5_000,
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    '"\\ud800"',
    '{"\\udfff":1}',
    "01",
    "'a'",
    "[1,]",
    "",
]


@pytest.mark.protocol("0.16")
async def test_what_cannot_be_kept_is_refused_at_every_door(tmp_path: Path) -> None:
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        await check_refusals(door, UNKEEPABLE)


async def check_refusals(door: Doors, items: list[str]) -> None:
    """Each of these is refused as an item, and as any record of another; and the other is as it was."""
    await door.post('"good"')
    claimed = await door.said('{"claim":{}}')
    assert claimed["item"] == "good"
    for item in items:
        answer = await door.post(item)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad-json"), item
        assert (await door.posted(item))["code"] == "bad-json", item
        for text in (
            f'{{"progress":{{"id":"{claimed["id"]}","value":{item}}}}}',
            f'{{"result":{{"id":"{claimed["id"]}","value":{item}}}}}',
            f'{{"fail":{{"id":"{claimed["id"]}","error":{{"message":"x","detail":{item}}}}}}}',
        ):
            refused = await door.said(text)
            assert (refused["type"], refused["code"]) == ("error", "bad-json"), text
    view = (await door.http.get(f"/demo/items/{claimed['id']}")).json()
    assert (view["status"], view["progress"], view["result"], view["error"]) == ("processing", None, None, None)
    assert (await door.said('{"claim":{}}')) == {"type": "empty"}


async def test_a_byte_order_mark_is_refused(tmp_path: Path) -> None:
    async with running_server(tmp_path, clock=ManualClock()) as server, doors(server) as door:
        answer = await door.http.post("/demo/items", content='\ufeff{"item":1}', headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad-json")
        assert (await door.said('\ufeff{"claim":{}}'))["code"] == "bad-json"


# ── Schemas ──


def queue_with(folder: Path, schema: object) -> str:
    """A queue whose items have this schema."""
    (folder / "schemas").mkdir()
    (folder / "schemas" / "item.json").write_text(json.dumps(schema))
    return open_queue(schemas='"schemas"')


SLOW: dict[str, tuple[object, object]] = {
    "unique objects": ({"type": "array", "uniqueItems": True}, [{"a": number % 29_999} for number in range(30_000)]),
    "a pattern that doubles": ({"type": "string", "pattern": "^(a+)+$"}, "a" * 60_000 + "!"),
    "very many faults": ({"items": {"type": "integer"}}, ["x"] * 100_000),
    "very many names": ({"additionalProperties": False}, {f"name {number}": 1 for number in range(40_000)}),
    "a large enum": ({"items": {"enum": list(range(100_000))}}, [-1] * 100_000),
    "many branches": ({"items": {"anyOf": [{"const": number} for number in range(90)]}}, [None] * 100_000),
}


@pytest.mark.parametrize("name", SLOW)
async def test_a_document_cannot_be_slow_to_check(name: str, tmp_path: Path) -> None:
    """Refused with at most ten short faults, and at so little cost that no ping of another comes late."""
    schema, item = SLOW[name]
    content = json.dumps({"item": item}, separators=(",", ":"))
    async with (
        running_server(tmp_path, queue_with(tmp_path, schema), clock=ManualClock()) as server,
        doors(server) as door,
    ):
        before = time.process_time()
        for _ in range(4):
            answer = await door.http.post("/demo/items", content=content, headers=JSON)
            assert (answer.status_code, answer.json()["code"]) == (422, "schema")
        spent = (time.process_time() - before) / 4
        assert spent < 0.5, "seconds of CPU for one document, with what the test itself does"
        faults = answer.json()["errors"]
        assert 1 <= len(faults) <= 10
        assert all(len(fault["message"]) <= 200 for fault in faults)
        assert await door.said('{"claim":{}}') == {"type": "empty"}


@pytest.mark.protocol("8.5")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_schema_that_leads_astray_stops_the_start(schema: object, tmp_path: Path) -> None:
    """With the file and the place in it; and nothing is served, fetched or left behind."""
    file = tmp_path / "leaseway.toml"
    file.write_text(queue_with(tmp_path, schema))
    run = [sys.executable, "-m", "leaseway_server", "--config", str(file)]
    ended = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert f"{tmp_path}/schemas/item.json: /properties/a" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaseway.toml", "schemas"]
