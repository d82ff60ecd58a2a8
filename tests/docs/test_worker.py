"""docs/worker.md: its program works against a real server, and its table has every option and its default."""

import inspect
import re
from pathlib import Path

from docs.snippets import python, snippets
from leaseway import Client, Worker
from leaseway.protocol import View
from support.server import running_server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "worker.md"
OPTION = re.compile(r"^\| `(\w+)` \| .* \| (.+) \|$", re.MULTILINE)


async def test_its_program_works_through_what_waits_and_ends(tmp_path: Path) -> None:
    (program,) = snippets(PAGE.read_text(encoding="utf-8"))
    names = ("early", "late", "busy", None)
    async with running_server(tmp_path) as server, Client(f"{server.ws_url}/demo") as queue:
        jobs = [await queue.post({"kind": "greet", "name": name} if name else {"kind": "greet"}) for name in names]
        async with python(program.at(server.base_url), tmp_path) as process:
            assert await process.wait() == 0
        views = [await last(queue, job.id) for job in jobs]
    assert [(view.status, view.attempts) for view in views] == [
        ("finished", 1), ("finished", 2), ("finished", 2), ("failed", 1),
    ]  # fmt: skip
    assert [view.result for view in views[:3]] == ["hello early", "hello late", "hello busy"]


async def last(queue: Client, item_id: str) -> View:
    """How the item ended."""
    *_, view = [view async for view in queue.watch([item_id], timeout=20)]
    return view


def test_its_table_has_every_option_and_its_default() -> None:
    said = dict(OPTION.findall(PAGE.read_text(encoding="utf-8").partition("\n## ")[0]))
    options = dict(inspect.signature(Worker).parameters)
    del options["url"], options["outside"]
    assert said.keys() == options.keys()
    told_in_words = {"token": "none", "criteria": "all", "name": "the host's", "labels": "none"}
    for name, option in options.items():
        words = told_in_words.get(name)
        if words:
            assert (said[name], option.default) == (words, None)
        else:
            assert float_or_text(said[name].strip("`")) == float_or_text(str(option.default))


def float_or_text(text: str) -> float | str:
    """`30` and `30.0` are the same."""
    return float(text) if re.fullmatch(r"[\d.]+", text) else text
