"""What would be code elsewhere is data here: SQL, JSON paths, patterns, markup (`faults.md`: criteria)."""

from pathlib import Path
from typing import Any, Final

from support.raw import RawSocket, raw_socket
from support.server import running_server

HOSTILE: Final = [
    "'; DROP TABLE item; --",
    '"; DELETE FROM item; --',
    "' OR '1'='1",
    "%",
    "_",
    "*",
    "?",
    "?1",
    ":id",
    "@id",
    "$",
    "a.b",
    "a[0]",
    "$.a",
    "[*]",
    "\\",
    '"',
    "\u0000",
    "\u0000'; --",
    "\n",
    "\u2028",
    "{}",
    "{columns}",
    "{0.__class__}",
    "%s%n",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "__proto__",
    "constructor",
    "İ",
    "ﬁ",
    "",
]
NO_NAMES: Final = ["\u0000", "\u0000'; --", "\n", "\u2028", ""]


async def ask(socket: RawSocket, message: dict[str, Any]) -> Any:
    socket.say(message)
    return await socket.hear()


async def test_hostile_texts_are_data(tmp_path: Path) -> None:
    """As names and values of items and criteria they match themselves and nothing else, and come back as they were."""
    async with (
        running_server(tmp_path) as server,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
    ):
        ids = []
        for text in HOSTILE:
            item = {"value": text, f"x{text}": {f"y{text}": 1}}
            ids.append((await ask(monitor, {"post": {"item": item, "meta": {f"x{text}": text}}}))["id"])
        for text, item_id in reversed(list(zip(HOSTILE, ids, strict=True))):
            assert (await ask(worker, {"claim": {"criteria": {"value": text, f"x{text}": 1}}}))["type"] == "empty"
            assert (await ask(worker, {"claim": {"criteria": {f"z{text}": {"$exists": True}}}}))["type"] == "empty"
            handed = await ask(worker, {"claim": {"criteria": {"value": text, f"x{text}": {f"y{text}": 1}}}})
            assert handed["id"] == item_id
            assert handed["item"] == {"value": text, f"x{text}": {f"y{text}": 1}}
            assert handed["meta"] == {f"x{text}": text}
            report = {"id": item_id, "error": {"message": text, "code": text}, "retryable": False}
            assert (await ask(worker, {"fail": report}))["status"] == "failed"
            view = await ask(monitor, {"subscribe": [text, item_id, text + item_id]})
            assert (view["id"], view["error"]) == (item_id, {"message": text, "code": text})


async def test_hostile_ids_and_names_are_of_nobody(tmp_path: Path) -> None:
    """As ids they are unknown; as names of workers they are taken where they are names, and refused where not."""
    async with (
        running_server(tmp_path) as server,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
    ):
        for text in HOSTILE:
            ack = await ask(worker, {"result": {"id": text, "value": 1, "attempts": 1}})
            assert (ack["id"], ack["accepted"], ack["reason"]) == (text, False, "unknown")
            item_id = (await ask(monitor, {"post": {"item": 1}}))["id"]
            handed = await ask(worker, {"claim": {"worker": text}})
            if text in NO_NAMES:
                assert handed["code"] == "bad-message"
                handed = await ask(worker, {"claim": {"worker": "box"}})
            view = await ask(monitor, {"subscribe": [item_id]})
            assert view["worker"] == ("box" if text in NO_NAMES else text)
            assert (await ask(worker, {"result": {"id": handed["id"], "value": text}}))["accepted"]
            assert (await monitor.hear())["result"] == text
