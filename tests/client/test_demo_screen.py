"""How the demo's table fits a terminal: nothing in it is cut from 60 columns on. The demo runs in end_to_end."""

import json
import re

import pytest
from rich.console import Console

from leaseway.cli.demo.primes import wanted
from leaseway.cli.demo.screen import Row, table
from leaseway.cli.demo.show import GOES_ON
from leaseway.protocol import View
from leaseway_schemas import wire

VIEW = wire("http-view")["examples"][0]


def row(number: int, start: int, **members: object) -> tuple[str, Row]:
    item_id = f"{number:016x}"
    return item_id, Row(range(start, start + 250_000), View.of({**VIEW, "id": item_id, "progress": None, **members}))


ROWS = dict(
    [
        row(1, 0, status="finished", result={"primes": 22_044}, worker="worker-1-123456-abcdef01"),
        row(2, 10_000_000, status="processing", progress={"percent": 100}, worker="worker-2-123456-abcdef01"),
        row(3, 10_250_000, status="pending"),
    ]
)


@pytest.mark.parametrize("width", [60, 66, 70, 80, 85, 86, 99, 100, 140])
def test_nothing_is_cut_from_60_columns_on(width: int) -> None:
    terminal = Console(width=width, color_system=None)
    with terminal.capture() as captured:
        terminal.print(table(ROWS, width))
    first, second, third = (line.rstrip() for line in captured.get().splitlines())
    assert max(map(len, (first, second, third))) <= width
    assert re.search(r"\b0( to |–)250,000 +finished +worker-1 .*22,044 primes$", first)
    assert re.search(r"\b10,000,000( to |–)10,250,000 +processing +worker-2 .*100 %$", second)
    assert re.search(r"\b10,250,000( to |–)10,500,000 +pending .* 0 %$", third)
    assert (f"{2:016x}" in second, "━" in second) == (width >= 87, width >= 66)


def test_what_the_demo_suggests_to_post_is_what_its_workers_take() -> None:
    assert wanted(json.loads(re.findall(r"{.*}", GOES_ON)[0])) == range(100)
