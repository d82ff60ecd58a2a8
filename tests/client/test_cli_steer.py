"""Items in full, and what is done to all that a filter holds, on a real server."""

import asyncio
import json
import os
import pty
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client.cli_scene import COMMAND, PATIENCE, Commands, Ended, ask
from support.server import open_queue, running_server


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[Commands]:
    async with running_server(folder, open_queue(retry='{ delays = ["1ms"] }'), users={"root": []}) as server:
        yield Commands(f"{server.base_url}/demo", server.tokens["root"])


async def post(there: Commands, item: Any, **options: Any) -> str:
    return str((await ask(there.url, "POST", "items", {"item": item, **options}))["id"])


async def fail(there: Commands, item: Any, **options: Any) -> str:
    """An item whose only try failed."""
    item_id = await post(there, item, maxAttempts=1, priority=9, **options)
    claimed = await ask(there.url, "POST", "claim", {"worker": "box-1"})
    assert claimed["id"] == item_id
    await ask(there.url, "POST", "progress", {"id": item_id, "attempts": 1, "value": {"percent": 7}})
    await ask(there.url, "POST", "fail", {"id": item_id, "attempts": 1, "error": {"message": "no\x1bspace"}})
    return item_id


async def statuses(there: Commands) -> dict[str, str]:
    return {each["id"]: each["status"] for each in json.loads((await there.run("items", "--json")).out)}


async def on_a_terminal(there: Commands, *words: str, says: bytes) -> Ended:
    """A command whose standard input is a terminal, where a person says this."""
    person, terminal = pty.openpty()
    environment = {"LEASEWAY_URL": there.url, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, *words), stdin=terminal, stdout=PIPE, stderr=PIPE, env=os.environ | environment
    )
    os.close(terminal)
    os.write(person, says)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    os.close(person)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


# ── One item in full ──


async def test_items_shows_all_of_an_item(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        dead = await fail(there, {"text": "ä\x1b", "number": 1.0}, key="k1", meta={"a": 1})
        waits = await post(there, 2, delayMs=3_600_000, ttlMs=7_200_000)
        told = await there.run("items", dead, "0" * 16, waits)
        assert (told.status, told.err) == (1, f"{'0' * 16}: there is no such item\n")
        one, other = told.out.split("\n\n")
        first, *lines = one.splitlines()
        shown = {line[2:12].strip(): line[14:] for line in lines}
        assert first == dead
        assert {name: shown[name] for name in ("status", "key", "item", "meta", "progress")} == {
            "status": "dead",
            "key": "k1",
            "item": '{"text":"ä\\x1b","number":1.0}'.replace("\\x1b", "\\u001b"),
            "meta": '{"a": 1}',
            "progress": '{"percent": 7}',
        }
        assert shown["error"] == '{"message": "no\\u001bspace"}'
        assert shown["tries"] == "1 begun, 1 of 1 failed, 0 lost"
        assert shown["attempt 1"].startswith("failed box-1, ")
        assert shown["attempt 1"].endswith(": no\\x1bspace")
        assert shown["posted"].endswith(" ago)")
        assert {"due", "expires"} < {line[2:12].strip() for line in other.splitlines()}
        told = await there.run("items", dead, "--json")
        (document,) = json.loads(told.out)
        assert (told.status, document["item"]) == (0, {"text": "ä\x1b", "number": 1.0})
        assert (document["view"]["status"], document["attempts"][0]["ending"]) == ("dead", "failed")


async def test_why_of_what_ended_badly_gives_its_error_and_says_what_helps(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        dead, waits = await fail(there, 1), await post(there, 2)
        told = await there.run("why", dead)
        assert "after 1 attempt: no\\x1bspace\n" in told.out
        assert f"leaseway retry {dead} gives it a new chance" in told.out
        assert "leaseway retry" not in (await there.run("why", waits)).out
        assert (await there.run("retry", dead)).out == f"{dead} is pending\n"


# ── All that a filter holds ──


@pytest.mark.parametrize(
    ("verb", "words", "which", "told", "become"),
    [
        ("retry", ["--status", "dead"], "dead", "2 items of demo were retried.\n", "pending"),
        ("cancel", ["--key", "k1"], "waits", "1 item of demo was cancelled.\n", "cancelled"),
        ("delete", ["--label", "dead"], "dead", "2 items of demo were deleted.\n", None),
        ("delete", ["--status", "pending"], "", "0 items of demo were deleted.\n", None),
        ("retry", ["--posted-by", "nobody"], "", "0 items of demo were retried.\n", None),
    ],
)
async def test_what_a_filter_holds_is_done_and_nothing_else(
    tmp_path: Path, verb: str, words: list[str], which: str, told: str, become: str | None
) -> None:
    async with demo(tmp_path) as there:
        groups = {
            "dead": [await fail(there, 1), await fail(there, 2)],
            "waits": [await post(there, 3, key="k1")],
            "": [],
        }
        before = await statuses(there)
        if which:
            refused = await there.run(verb, *words)
            assert (refused.status, refused.out, await statuses(there)) == (2, "", before)
            assert f"of demo would be {told.split()[-1].rstrip('.')}; nobody is here to be asked, so say --yes" in (
                refused.err.replace("\n", " ")
            )
        assert await there.run(verb, *words, "--yes") == Ended(0, told, "")
        after = {item_id: become if item_id in groups[which] else before[item_id] for item_id in before}
        assert await statuses(there) == {item_id: status for item_id, status in after.items() if status}
        again = await there.run(verb, *words, "--yes", "--json")
        assert (again.status, json.loads(again.out)) == (0, {"matched": 0, "changed": 0})


async def test_a_person_is_asked_first(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        dead = await fail(there, 1)
        no, yes = await asyncio.gather(
            on_a_terminal(there, "retry", "--status", "dead", says=b"n\n"),
            on_a_terminal(there, "cancel", "--status", "failed", "--status", "pending", "--json", says=b"y\n"),
        )
        assert (no.status, no.out) == (1, "")
        assert "1 item of demo would be retried. Do it? [y/N]: " in no.err
        assert no.err.endswith("Nothing was done.\n")
        assert (yes.status, json.loads(yes.out)) == (0, {"matched": 0, "changed": 0}), "of nothing nobody is asked"
        assert await statuses(there) == {dead: "dead"}
        yes = await on_a_terminal(there, "retry", "--status", "dead", says=b"y\n")
        assert (yes.status, yes.out) == (0, "1 item of demo was retried.\n")


async def test_an_item_is_deleted_by_its_id_where_it_has_ended(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        dead, waits = await fail(there, 1), await post(there, 2)
        told = await there.run("delete", dead, waits, dead)
        assert (told.status, told.out) == (1, f"{dead} is deleted\n")
        assert [line.partition(":")[0] for line in told.err.splitlines()] == [waits, dead]
        assert await statuses(there) == {waits: "pending"}
