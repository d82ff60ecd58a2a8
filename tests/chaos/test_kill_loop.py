"""kill -9 under load, fifty times: nothing that was acknowledged is lost, and nothing is done twice.

`make campaign-kill` does it a thousand times.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.kill_loop import KillLoop

ROUNDS = 50


@pytest.mark.timeout(180)
async def test_a_killed_server_keeps_its_word(tmp_path: Path, report_line: Callable[[str, object], None]) -> None:
    loop = KillLoop(tmp_path, seed=20_261_130)
    await loop.run(ROUNDS)
    report = loop.report
    assert report.promises.violations == []
    assert report.rounds == ROUNDS
    for what in ("posts", "results", "fails", "releases", "resumed", "views"):
        assert report.promises.counts[what] > ROUNDS // 5, (what, report.promises.counts)
    assert report.promises.counts["posts whose first answer was lost"] > 0, "keys were not tried"
    # The median, since the longest start says more about what else the machine does than about the server.
    assert statistics.median(report.starts) < 2
    report_line("kill -9", ", ".join(report.lines()))
