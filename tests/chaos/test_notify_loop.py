"""kill -9 of the planner, the queue's server and the worker: every notification arrives, and none too often.

`make campaign-notify` does it with a thousand, and thirty kills, for each transport.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.notify_loop import NotifyLoop, Transport

NOTIFICATIONS = 60


@pytest.mark.timeout(180)
@pytest.mark.parametrize("transport", ["provider", "smtp"])
async def test_every_notification_arrives_and_none_too_often(
    transport: Transport, disk: Path, report_line: Callable[[str, object], None]
) -> None:
    report = await NotifyLoop(disk, transport, NOTIFICATIONS, seed=20_261_201).run(kills=1, apart=True)
    assert report.broken == []
    assert dict(report.kills) == {"planner": 1, "server": 1, "worker": 1}
    report_line("notifications", ", ".join(report.lines()))
