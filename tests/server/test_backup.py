"""`leaseway backup`: what it prints and how it ends; and a copy made under load, that another server goes on from."""

import asyncio
import json
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from chaos.at_work import Load
from chaos.kill_loop import TOML
from chaos.promises import Promises
from leaseway_server.commands import backup
from support.process import ServerProcess, server_process
from support.tokens import TokenFile

COMMAND = "from leaseway_server.commands import backup; backup()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of one's own, and nothing said by the environment."""
    monkeypatch.chdir(tmp_path)
    for variable in ("LEASEWAY_CONFIG", "LEASEWAY_STORE"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def call(*words: str) -> Result:
    result = CliRunner().invoke(backup, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def tokens(data: Path) -> int:
    """A store that holds no more than its file of tokens, whose size is given."""
    with TokenFile(data):
        pass
    return (data / "_access.db").stat().st_size


# ── What it says ──


def test_it_tells_what_was_copied(here: Path) -> None:
    size = tokens(here / "leaseway-data")
    (here / "leaseway-data" / "notes.db").write_text("none of ours")
    told = call("b")
    assert told.exit_code == 0
    assert told.stdout.splitlines() == ["Copied from leaseway-data to b:", f"_access.db  {size:>15,} bytes"]
    assert told.stderr == "Note: notes.db was left out: it is not one of Leaseway's files.\n"


def test_it_tells_programs_what_was_copied(here: Path) -> None:
    size = tokens(here / "else")
    (here / "x.toml").write_text('[server]\nstore = "sqlite:else"\n[queues.a]')
    told = call("b", "--json", "--config", "x.toml")
    copied = {"from": "else", "folder": "b", "files": [{"name": "_access.db", "bytes": size}]}
    assert (told.exit_code, json.loads(told.stdout), told.stderr) == (0, copied, "")
    assert call("c", "--store", "sqlite:else").exit_code == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["b"], 1, "Error: there is no store of Leaseway in leaseway-data\n"),
        (["full"], 1, "Error: there is no store of Leaseway in leaseway-data\n"),
        (["full", "--store", "sqlite:there"], 2, "FOLDER: full is not empty; a backup needs a folder of its own"),
        (["b", "--store", "postgresql://secret"], 1, "Error: a store in PostgreSQL is copied by its own tools"),
        (["b", "--store", "mysql://secret"], 2, '--store: expected "sqlite:" and a folder'),
        (["b", "--config", "nope.toml"], 2, "nope.toml: cannot be read: No such file or directory\n"),
        ([], 2, "Missing argument 'FOLDER'"),
    ],
)
def test_what_hinders_it(here: Path, words: list[str], status: int, said: str) -> None:
    tokens(here / "there")
    (here / "full" / "mine").mkdir(parents=True)
    told = call(*words)
    assert (told.exit_code, told.stdout) == (status, "")
    assert said in told.stderr
    assert "secret" not in told.stderr
    assert not (here / "b").exists()


# ── Under load ──


async def run_backup(server: ServerProcess, folder: Path) -> list[str]:
    """Runs the command as a process of its own; gives the names of the files."""
    words: Sequence[str] = ("-c", COMMAND, str(folder), "--store", f"sqlite:{server.data}", "--json")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    return [each["name"] for each in json.loads(out)["files"]]


async def view(http: httpx.AsyncClient, item_id: str) -> dict[str, Any]:
    answer = await http.get(f"/demo/items/{item_id}")
    assert answer.status_code == 200, f"{item_id} was acknowledged before the backup, and is not in it"
    return dict(answer.json())


@pytest.mark.timeout(180)
async def test_a_copy_made_under_load_has_all_that_was_acknowledged_and_goes_on(here: Path) -> None:
    """Posts, ends and results as of the backup's begin or later; no second result; no id that was given out before."""
    numbers, before, after = count(), Promises(), Promises()
    (here / "first").mkdir()
    (here / "second").mkdir()
    async with server_process(here / "first", TOML) as first:
        secret = first.add_tokens({"alice": []})["alice"]
        async with Load(before, numbers).on(first.base_url) as load:
            await load.words(1_500)
            begun = {item_id: before.known(item_id) for item_id in before.posted}
            known = dict(before.posted)
            names, _ = await asyncio.gather(run_backup(first, here / "second" / "data"), load.words(500))
            await load.words(500)
        assert (await first.stop()).status == 0
    assert names == ["_access.db", "demo.db"]
    assert before.violations == [], "the server that was copied kept its word"

    async with server_process(here / "second", TOML) as second, httpx.AsyncClient(base_url=second.base_url) as http:
        assert (await http.get("/demo/items/none", headers={"Authorization": f"Bearer {secret}"})).status_code == 404
        for item_id, facts in begun.items():
            after.post_acknowledged(item_id, known[item_id])
            after.seen(await view(http, item_id), facts)
        async with Load(after, numbers).on(second.base_url) as load:
            await load.words(500)
            await load.finish()
    assert after.violations == []
    assert any(facts.end == "finished" for facts in begun.values()), "some had ended before"
    assert after.counts["results"] > 10, "and work went on"
    posted_after = set(after.posted) - set(begun)
    assert len(posted_after) > 10
    assert not posted_after & set(before.posted)
