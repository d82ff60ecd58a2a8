"""The queue `notification-deliveries`: a server takes its configuration, and its schema fits every delivery."""

from pathlib import Path
from typing import Any

import pytest

from leaseway import Client, Rejected
from leaseway_notify.event import PRIORITIES
from leaseway_notify.queue import QUEUE, configuration, item_of, post_of
from leaseway_notify.rules import BACKOFF
from leaseway_notify.settings import QueueSettings
from leaseway_server.config import load_config
from support.notify_scene import served_queue
from support.notify_stores import planned


def test_the_configuration_is_as_the_design_says(tmp_path: Path) -> None:
    file = tmp_path / "leaseway.toml"
    file.write_text(configuration(), encoding="utf-8")
    queue = load_config(file).queues[QUEUE].queue
    assert queue.policy.backoff.delays == BACKOFF == tuple(minutes * 60_000 for minutes in (5, 15, 60, 180))
    assert queue.policy.backoff.cap == 180 * 60_000
    assert queue.policy.backoff.jitter == 0.15
    assert queue.policy.lease == QueueSettings().lease
    assert queue.keep.dead == queue.keep.failed == 90 * 86_400_000


@pytest.mark.parametrize(
    "member",
    [
        {"version": 2},
        {"type": "other"},
        {"channel": "fax"},
        {"priority": "high"},
        {"queuedAt": "now"},
        {"deliveryId": ""},
        {"more": 1},
    ],
    ids=str,
)
async def test_the_schema_refuses_what_is_no_delivery(tmp_path: Path, member: dict[str, Any]) -> None:
    async with served_queue(tmp_path / "server") as server, Client[Any, Any](f"{server.ws_url}/{QUEUE}") as queue:
        item = item_of(planned().deliveries[0])
        with pytest.raises(Rejected, match=r"^schema"):
            await queue.post({**item, **member})
        assert not (await queue.post(item)).duplicate


def test_a_post_says_when_it_is_due_only_where_it_waits() -> None:
    for priority, number in zip(PRIORITIES, (-10, 0, 10), strict=True):
        now, _, later = (post_of(delivery) for delivery in planned(priority=priority).deliveries)
        assert (now.priority, now.due_at) == (number, None)
        assert later.due_at == planned().deliveries[2].due_at / 1000
