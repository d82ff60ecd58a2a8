"""`leaseway post` as a process on a real server: one item, and many that are interrupted and run again."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from websockets.asyncio.client import ClientConnection, connect

from client.cli_scene import Commands, ask, waiting, watched
from leaseway.cli.post import post
from support.process import server_process
from support.server import TestServer, open_queue, resize_queue, running_server


@asynccontextmanager
async def demo(folder: Path, **keys: str) -> AsyncIterator[Commands]:
    async with running_server(folder, open_queue(**keys)) as server:
        yield Commands(f"{server.base_url}/demo")


def lines(first: int, last: int) -> str:
    """Lines of which each second one is like the one before."""
    return "".join(f'{{"n": {number // 2}}}\n' for number in range(first, last))


async def item_of(there: Commands, item_id: str) -> Any:
    return await ask(there.url, "GET", f"items/{item_id}/item")


# ── One item ──


async def test_one_item_is_posted_as_it_was_written_and_its_id_is_printed(tmp_path: Path) -> None:
    (tmp_path / "item.json").write_text('{\n  "n": 1.50,\n  "big": 12345678901234567890\n}\n')
    async with demo(tmp_path) as there:
        words = ["--priority", "7", "--delay", "1h", "--ttl", "1d", "--max-attempts", "2", "--meta", '{"a": 1}']
        told = await there.run("post", f"@{tmp_path / 'item.json'}", *words)
        assert (told.status, told.err) == (0, "")
        view = await ask(there.url, "GET", f"items/{told.out.strip()}")
        assert (view["priority"], view["maxAttempts"], view["meta"], view["label"]) == (7, 2, {"a": 1}, "scheduled")
        assert view["expiresAt"] - view["postedAt"] == 86_400_000
        assert view["dueAt"] - view["postedAt"] == 3_600_000
        assert await item_of(there, view["id"]) == {"n": 1.5, "big": 12345678901234567890}
        piped = await there.run("post", there.url, "-", "--json", given='\ufeff "x" ')
        assert await item_of(there, json.loads(piped.out)["id"]) == "x"
        text = await there.run("post", '"http://x/demo"')
        assert await item_of(there, text.out.strip()) == "http://x/demo"


async def test_a_key_makes_two_posts_one_item(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        first = await there.run("post", "1", "--key", "k")
        again = await there.run("post", "1", "--key", "k")
        assert (again.status, again.out) == (0, first.out)
        assert again.err == "It was posted before: this key's item is pending.\n"
        other = await there.run("post", "2", "--key", "k")
        assert (other.status, other.out) == (1, "")
        assert "this key is held by another item; leaseway items --key k shows it to an administrator" in (
            other.err.replace("\n", " ")
        )
        assert first.out.strip() not in other.err, "nobody in particular owns nothing"


async def test_whose_key_it_is_is_told_to_its_owner_alone(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue(), users={"alice": [], "bob": []}) as server:
        alice, bob = (Commands(f"{server.base_url}/demo", server.tokens[user]) for user in ("alice", "bob"))
        first = (await alice.run("post", "1", "--key", "k")).out.strip()
        told = await alice.run("post", "2", "--key", "k")
        assert (told.status, f"held by another item of yours, {first}" in told.err) == (1, True)
        told = await bob.run("post", "2", "--key", "k")
        assert (told.status, first in told.err) == (1, False)


async def test_what_hinders_a_post_is_told(tmp_path: Path) -> None:
    toml = resize_queue()
    for right, users in (("post", '["alice"]'), ("fetch", '"users"'), ("admin", "[]")):
        toml = toml.replace(f'{right} = "open"', f"{right} = {users}")
    async with running_server(tmp_path, toml, users={"alice": [], "bob": []}) as server:
        url = f"{server.base_url}/resize"
        alice, bob = (Commands(url, server.tokens[user]) for user in ("alice", "bob"))
        refused = await alice.run("post", '{"width": "wide"}')
        assert (refused.status, refused.out) == (2, "")
        assert "/item" in refused.err
        assert (
            await bob.run("post", "{}")
        ).err == "Error: the server refuses: this token does not give the right to post here\n"
        assert (await Commands(url, "lw_wrong").run("post", "1")).status == 3
        nobody = await Commands(url).run("post", "1")
        assert (nobody.status, "set LEASEWAY_TOKEN" in nobody.err) == (3, True)
        unknown = await alice.run("post", f"{server.base_url}/other", "1")
        assert (unknown.status, "there is no such queue" in unknown.err) == (3, True)
        assert (await alice.run("post", url.replace("http:", "https:"), "1")).err.endswith(
            "it does not speak TLS; is the address to begin with http:// instead?\n"
        )
    gone = await alice.run("post", "1")
    assert (gone.status, gone.err) == (3, f"Error: cannot reach {server.base_url}: nobody listens there\n")


async def test_watch_shows_it_until_its_end(tmp_path: Path) -> None:
    async with (
        demo(tmp_path) as there,
        there.start("post", '"a"', "--watch") as good,
        there.start("post", '"b"', "--watch", "--json") as bad,
    ):
        await good.prints("pending")
        await bad.prints("pending")
        for _ in range(2):
            got = await ask(there.url, "POST", "claim", {"worker": "box-1"})
            report = {"id": got["id"], "attempts": got["attempts"]}
            if got["item"] == "a":
                await ask(there.url, "POST", "progress", report | {"value": {"percent": 40}})
                assert (await good.prints("40 %")).endswith("processing  40 %; box-1\n")
                await ask(there.url, "POST", "result", report | {"value": {"ok": True}})
            else:
                await bad.prints("processing")
                error = {"message": "no \x1bluck"}
                await ask(there.url, "POST", "fail", report | {"error": error, "retryable": False})
        told = await good.ended()
        assert told.status == 0
        assert told.out.splitlines()[-1].endswith('  finished    {"ok": true}')
        told = await bad.ended()
        assert told.status == 1
        states = [json.loads(line) for line in told.out.splitlines()]
        assert [state["status"] for state in states] == ["pending", "processing", "failed"]
        assert states[-1]["error"] == {"message": "no \x1bluck"}


# ── The lines of a file ──


@asynccontextmanager
async def listener(there: Commands) -> AsyncIterator[ClientConnection]:
    """Hears of every item that is posted."""
    async with connect(f"{there.url.replace('http', 'ws')}/monitor", max_queue=None) as socket:
        await socket.send('{"subscribe": {"all": true}}')
        await socket.send('{"hello": {}}')
        while json.loads(await socket.recv())["type"] != "hello":
            pass
        yield socket


async def heard(socket: ClientConnection, number: int, besides: str = "") -> None:
    """Waits until so many items were posted, besides one of which it may have been told before."""
    ids: set[str] = set()
    while len(ids - {besides}) < number:
        ids.add(json.loads(await socket.recv())["id"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_what_is_interrupted_and_run_again_posts_each_line_once(tmp_path: Path, number: signal.Signals) -> None:
    async with demo(tmp_path, max_bulk_items="10") as there, listener(there) as socket:
        async with there.start("post", "--bulk", "-") as running:
            await running.feed(lines(0, 55))
            await heard(socket, 50)
            running.signal(number)
            told = await running.ended()
        assert told.status == (-9 if number == signal.SIGKILL else 130)
        if number == signal.SIGINT:
            assert told.out in ("40 lines: 40 new.\n", "50 lines: 50 new.\n"), "the last answer was heard or not"
            assert "Run the same again to go on" in told.err
        (tmp_path / "all.ndjson").write_text(lines(0, 200))
        told = await there.run("post", "--bulk", str(tmp_path / "all.ndjson"))
        assert (told.status, told.out) == (0, "200 lines: 150 new, 50 known already.\n")
        assert await waiting(there.url) == 200
        told = await there.run("post", "--bulk", "-", "--json", given=lines(0, 200))
        assert json.loads(told.out) == {"lines": 200, "new": 0, "known": 200, "refused": 0}
        told = await there.run("post", "--bulk", "-", "--run", "tuesday", given=lines(0, 200))
        assert told.out == "200 lines: 200 new.\n"


async def test_a_server_that_is_away_for_a_while_costs_nothing(tmp_path: Path) -> None:
    """Neither who posts nor who watches."""
    async with server_process(tmp_path, open_queue(max_bulk_items="10")) as server:
        there = Commands(f"{server.base_url}/demo")
        first = (await there.run("post", '"first"')).out.strip()
        async with there.start("watch", first) as watching, there.start("post", "--bulk", "-") as posting:
            await watched(there.url)
            async with listener(there) as socket:
                await posting.feed(lines(0, 25))
                await heard(socket, 20, first)
            await server.kill()
            await posting.feed(lines(25, 50), last=True)
            await posting.says("nobody listens there; again in")
            await watching.says("no connection to ws://")
            await server.start()
            told = await posting.ended()
            heard_or_not = ("50 lines: 50 new.\n", "50 lines: 40 new, 10 known already.\n")
            assert (told.status, told.out in heard_or_not) == (0, True), told.out
            assert await waiting(there.url) == 51, "also where the last answer before the kill was lost"
            claimed = await ask(there.url, "POST", "claim", {})
            await ask(there.url, "POST", "result", {"id": claimed["id"], "attempts": 1, "value": True})
            told = await watching.ended()
            assert (told.status, told.out.splitlines()[-1]) == (0, f"{first}  finished    true")


async def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    async with demo(tmp_path, max_pending="7") as there:
        async with there.start("post", "--bulk", "-") as running:
            await running.feed(lines(0, 20), last=True)
            await running.says("7 items wait at most, which is all that the queue takes; again in")
            for _ in range(20):
                claimed = await ask(there.url, "POST", "claim", {"waitMs": 20_000})
                await ask(
                    there.url, "POST", "result", {"id": claimed["id"], "attempts": claimed["attempts"], "value": 1}
                )
            told = await running.ended()
        assert (told.status, told.out) == (0, "20 lines: 20 new.\n")


async def test_patience_has_an_end(tmp_path: Path) -> None:
    async with demo(tmp_path, max_pending="3") as there:
        told = await there.run("post", "--bulk", "-", "--patience", "0", given=lines(0, 20))
        assert (told.status, told.out) == (3, "3 lines: 3 new.\n")
        assert told.err.splitlines()[-1].startswith("Error: the server refuses: 3 items wait at most")


GOOD = '{"image": "data:image/png;base64,iVBORw0KGgo=", "format": "png", "width": 64}'
BAD = '{"image": "data:image/png;base64,iVBORw0KGgo=", "format": "bmp", "width": 64}'


async def test_a_refused_line_ends_it_where_it_stands(resize: TestServer) -> None:
    there = Commands(f"{resize.base_url}/resize")
    told = await there.run("post", "--bulk", "-", given=f"{GOOD}\n\n{GOOD}\n{BAD}\n{GOOD}\n")
    assert (told.status, told.out) == (1, "3 lines: 2 new, 1 refused.\n")
    first, advice = told.err.splitlines()
    assert first.startswith("line 4: ")
    assert "/item/format" in first
    assert advice.startswith("Stopped there")
    assert await waiting(there.url) == 2
    told = await there.run("post", "--bulk", "-", given=f"{GOOD}\n\n{GOOD}\n{GOOD}\n")
    assert told.out == "3 lines: 1 new, 2 known already.\n", "mended, and nothing is doubled"


async def test_refused_lines_are_left_out_where_it_is_to_keep_going(resize: TestServer) -> None:
    there = Commands(f"{resize.base_url}/resize")
    given = f"{BAD}\n{GOOD}\nnonsense\n{BAD}\n" + f"{GOOD}\n" * 30 + f"{BAD}\n"
    told = await there.run("post", "--bulk", "-", "--keep-going", "--json", given=given)
    *refused, total = [json.loads(line) for line in told.out.splitlines()]
    assert [one["line"] for one in refused] == [1, 3, 4, 35]
    assert "/item/format" in refused[0]["error"]
    assert (told.status, total) == (1, {"lines": 35, "new": 31, "known": 0, "refused": 4})
    assert await waiting(there.url) == 31


async def test_a_key_that_another_item_has_is_told_with_its_line(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        words = ["post", "--bulk", "-", "--keep-going", "--key-member", "id"]
        told = await there.run(
            *words, given='{"id": 1}\n{"id": 2}\n{"id": 1}\n{"id": 1, "x": 2}\n{"x": 3}\n{"id": 4}\n'
        )
        assert (told.status, told.out) == (1, "6 lines: 3 new, 1 known already, 2 refused.\n")
        assert [line.partition(":")[0] for line in told.err.splitlines()] == ["line 4", "line 5"]
        assert "this key is held by another item" in told.err


async def test_who_may_post_and_not_fetch_posts_many_too(tmp_path: Path) -> None:
    toml = (
        open_queue(max_bulk_items="7")
        .replace('fetch = "open"', 'fetch = ["root"]')
        .replace('admin = "open"', "admin = []")
    )
    async with running_server(tmp_path, toml) as server:
        told = await Commands(f"{server.base_url}/demo").run("post", "--bulk", "-", given=lines(0, 30))
        assert (told.status, told.out) == (0, "30 lines: 30 new.\n")


@pytest.fixture
async def resize(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, resize_queue(max_bulk_items="20")) as server:
        yield server


# ── Wrong usage ──


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which item? Give it as JSON, as @FILE, or - for the standard input"),
        (["http://x/demo"], "which item?"),
        (["hello"], "the item is not JSON: "),
        (["@nowhere.json"], "cannot read nowhere.json: No such file or directory"),
        (["-"], "what stands on the standard input is not JSON"),
        (["demo", "1"], '"demo" is no queue\'s address, which is such as http(s)://host/queue; or leave it out'),
        (["127.0.0.1:1/demo", "1"], "this one does not begin with http:// or https://"),
        (["1", "--delay", "soon"], "'soon' is no length of time; say it as 90s, 5m, 1.5h or 7d"),
        (["1", "--delay", "9" * 20 + "d"], "it is longer than any time that can be said"),
        (["1", "--ttl", "9" * 400 + "d"], "it is longer than any time that can be said"),
        (["1", "--priority", "101"], "101 is not in the range -100<=x<=100"),
        (["1", "--meta", "[]"], "it must be a JSON object"),
        (["1", "--meta", "{"], "it is not JSON"),
        (["1", "--meta", '{"a": NaN}'], "it cannot be sent as it is: a number is not finite"),
        (["1", "--meta", '{"a": 18446744073709551616}'], "it cannot be sent as it is: Integer exceeds 64-bit range"),
        (["1", "--meta", '{"a": "\udcff"}'], "it cannot be sent as it is: str is not valid UTF-8"),
        (["1", "--meta", "[" * 100_000], "it is not JSON"),
        (["1", "--keep-going"], "are for --bulk"),
        (["--bulk", "-", "--watch"], "--watch is for a single item"),
        (["--bulk", "-", "--key", "k"], "--key is for a single item"),
        (["--bulk", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_usage(words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEWAY_URL", "http://127.0.0.1:1/demo")
    monkeypatch.delenv("LEASEWAY_TOKEN", raising=False)
    told = CliRunner().invoke(post, words)
    assert (told.exit_code, told.stdout) == (2, "")
    assert said in told.stderr
