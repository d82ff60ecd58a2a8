"""kill -9 under load, ten times: nothing that was acknowledged is lost, and nothing is done twice.

`make campaign-kill` does it a thousand times.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.kill_loop import KillLoop

ROUNDS = 10


@pytest.mark.protocol("7.1")
@pytest.mark.timeout(180)
async def test_a_killed_server_keeps_its_word(
    disk: Path, monkeypatch: pytest.MonkeyPatch, report_line: Callable[[str, object], None]
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # Who is killed leaves no record of its lines.
    loop = KillLoop(disk, seed=20_261_130)
    report = loop.report
    await loop.run(ROUNDS)
    assert report.promises.violations == []
    assert report.rounds == ROUNDS
    for what in ("posts", "results", "fails", "releases", "resumed", "views"):
        assert report.promises.counts[what] > ROUNDS // 5, (what, report.promises.counts)
    report_line("kill -9", ", ".join(report.lines()))
    check_what_is_kept(disk / "data" / "demo.db")


def check_what_is_kept(file: Path) -> None:
    """The counts, which each life went on with, are those of the rows; and nothing was left behind by an item."""
    connection = sqlite3.connect(file)
    try:
        kept = dict(connection.execute("SELECT status, number FROM count WHERE number <> 0"))
        assert kept == dict(connection.execute("SELECT status, count(*) FROM item GROUP BY status"))
        for table in ("body", "result", "attempt"):
            orphans = f"SELECT count(*) FROM {table} WHERE seq NOT IN (SELECT seq FROM item)"  # noqa: S608
            assert connection.execute(orphans).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM attempt").fetchone() > (0,)
    finally:
        connection.close()
