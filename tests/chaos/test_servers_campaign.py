"""Three servers on one PostgreSQL, 20 workers and 5 producers, all of it struck for six seconds: no promise is broken.

`make campaign-servers` does it for ten minutes, and suspends servers too.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chaos.judge import judge
from chaos.planted import FAULTS
from chaos.server_faults import QUICK
from chaos.servers_campaign import TERMS, ServersCampaign

SECONDS = 6


@pytest.mark.protocol("1.33", "7.1", "7.4")
@pytest.mark.timeout(180)
async def test_what_befalls_servers_and_their_database_breaks_no_promise(
    disk: Path, monkeypatch: pytest.MonkeyPatch, report_line: Callable[[str, object], None]
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # Who is killed leaves no record of its lines.
    campaign = ServersCampaign(disk, seed=20_261_130)
    await campaign.run(SECONDS, QUICK)
    report_line("servers struck", ", ".join(campaign.lines()))
    assert campaign.judge.violations == []
    for what in QUICK:
        assert campaign.strikes[what] > 0, what
    for what in ("posts", "results", "fails", "releases", "resumed", "views"):
        assert campaign.judge.promises.counts[what] > 0, (what, campaign.judge.promises.counts)
    for fault, told in FAULTS.items():
        planted = fault(campaign.journal.entries, Random(SECONDS))  # noqa: S311  Chance that can be had again.
        assert any(told in broken for broken in judge(planted, TERMS)), f"{fault.__name__} was not found"
