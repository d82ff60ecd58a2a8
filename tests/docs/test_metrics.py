"""docs/metrics.md names what the server measures, all of it and nothing else; its snippets do what is said of them."""

import re
import shutil
from pathlib import Path
from typing import Final, get_args

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from docs.snippets import shell, snippets
from leaseway_server.core.model import TERMINAL
from leaseway_server.runtime.submission import TURN_COMMANDS
from leaseway_server.web.meters import SIZES, Cause, Door
from leaseway_server.web.socket import MOST_BYTES
from support.server import running_server

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
BLOCKS: Final = {snippet.marker: snippet for snippet in snippets(PAGE)}
TABLES: Final = dict(re.findall(r"^## (What .*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def named(table: str) -> list[str]:
    """The metrics that a table has rows for."""
    return re.findall(r"^\| `(leaseway_\w+)` \|", table, re.MULTILINE)


async def scraped(folder: Path) -> list[Metric]:
    """What the page's own command gets."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    async with running_server(folder) as server:
        text = await shell(BLOCKS["scrape"].at(server.base_url).text, folder)
    return list(text_string_to_metric_families(text))


def test_each_block_is_tried() -> None:
    assert list(BLOCKS) == ["scrape", "prometheus"]


async def test_the_page_and_the_server_name_the_same(tmp_path: Path) -> None:
    families = await scraped(tmp_path)
    measured = [each.name + ("_total" if each.type == "counter" else "") for each in families]
    assert [name for table in TABLES.values() for name in named(table)] == measured
    assert len(set(measured)) == len(measured)


async def test_the_page_says_of_what_kind_each_is(tmp_path: Path) -> None:
    families = {each.name: each.type for each in await scraped(tmp_path)}
    stock, work = (TABLES[title] for title in ("What there is", "What was done"))
    assert {families[name] for name in named(stock)} == {"gauge"}
    assert {families[name.removesuffix("_total")] for name in named(work)} == {"counter", "histogram"}


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (TERMINAL, "leaseway_ends_total"),
        (frozenset(get_args(Cause)), "leaseway_requeues_total"),
    ],
)
def test_the_page_has_each_word_of_a_label(words: frozenset[str], row: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{row}`")]
    assert words <= set(re.findall(r"`(\w+)`", line))


def test_the_page_has_the_kinds_and_the_figures_of_the_code() -> None:
    assert all(f"`{door}`" in TABLES["What passes the doors"].partition("|")[0] for door in get_args(Door))
    assert SIZES[-1] == TURN_COMMANDS == 1_000
    assert "Near 1,000, which is the most" in PAGE
    assert f"has {MOST_BYTES // 1024**2} MiB waiting" in PAGE


def test_what_prometheus_is_told_leads_there() -> None:
    lines: list[str] = [line.strip() for line in BLOCKS["prometheus"].lines]
    assert "metrics_path: /_metrics" in lines
    assert '- targets: ["127.0.0.1:8787"]' in lines
