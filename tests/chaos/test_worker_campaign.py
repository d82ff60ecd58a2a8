"""Workers that are killed, stopped and cut off, and restarts of the server, twice each: nothing is lost.

`make campaign-worker` does it a hundred times.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.worker_campaign import RESTARTS, WorkerCampaign
from chaos.worker_faults import FAULTS

STRIKES = 2


@pytest.mark.protocol("6.12", "6.13", "7.5")
@pytest.mark.timeout(120)
async def test_what_befalls_workers_loses_no_item_and_a_restart_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report_line: Callable[[str, object], None]
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # Who is killed leaves no record of its lines.
    campaign = WorkerCampaign(tmp_path, seed=20_261_130)
    await campaign.run(STRIKES)
    assert campaign.journal.promises.violations == []
    for what in (*FAULTS, *RESTARTS):
        assert campaign.journal.counts[f"strikes: {what}"] == STRIKES, what
    assert campaign.journal.counts["items finished by attempt 2"] > 0, campaign.journal.counts
    report_line("workers struck", ", ".join(campaign.lines()))
