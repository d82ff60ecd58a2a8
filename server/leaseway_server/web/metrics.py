"""`GET /_metrics`: what the server measures, as Prometheus has it. docs/metrics.md says what each means.

Labels are names of queues of the configuration and words of our own, never what a client sent. Nothing is registered
anywhere: what is told is made anew for each request.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.model import TERMINAL
from leaseway_server.runtime.engine import Engine
from leaseway_server.web.auth import admit_operator
from leaseway_server.web.meters import Cause, Door, Histogram, Talk, Traffic, TurnMeter
from leaseway_server.web.oldest import waits_since
from leaseway_server.web.site import ServedQueue, Site

SOCKETS: Final[tuple[Door, ...]] = ("work", "monitor")
Labelled: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""


async def metrics(request: Request) -> Response:
    """`GET /_metrics`: for administrators, and for whoever asks on this machine itself."""
    site: Site = request.app.state.site
    await admit_operator(site, request.scope)
    ages = await asyncio.gather(*(_oldest(served.engine) for served in site.queues.values()))
    families = list(measure(site, dict(zip(site.queues, ages, strict=True))))
    text = await asyncio.to_thread(_written, families)  # With many queues it takes longer than others should wait.
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _oldest(engine: Engine) -> float | None:
    """The seconds that the item is ready that is so longest; 0 where none is, None where it cannot be had."""
    found = await waits_since(engine)
    if found is None:
        return None
    return max(0, found.now - found.at) / 1000 if found.at else 0.0


class _Once(Collector):
    """Families that were collected already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._families


def _written(families: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families))
    return generate_latest(registry)


# ── What is measured ──


def measure(site: Site, ages: dict[str, float | None]) -> Iterator[Metric]:
    """All families, as they stand. `ages` are the seconds of `_oldest`, by queue."""
    queues = site.queues
    talks = {(name, door): list(_talks(served, door)) for name, served in queues.items() for door in SOCKETS}
    yield from _stock(queues, ages)
    yield from _work({name: served.meter for name, served in queues.items()})
    yield from _doors(site.traffic, talks)


def _talks(served: ServedQueue, door: Door) -> Iterator[Talk]:
    return (socket.talk for socket in served.sockets if socket.kind == door)


def _stock(queues: dict[str, ServedQueue], ages: dict[str, float | None]) -> Iterator[Metric]:
    """What there is."""
    gauges = {name: served.engine.gauges for name, served in queues.items()}

    def each(of: Callable[[str], float]) -> list[Labelled]:
        return [((name,), of(name)) for name in queues]

    counts = [((name, status), n) for name in queues for status, n in gauges[name].counts.items()]
    yield _gauge("leaseway_items", "Items, by status.", ("queue", "status"), counts)
    known = [((name,), age) for name, age in ages.items() if age is not None]
    yield _gauge("leaseway_oldest_ready_seconds", "How long the item is due that is so longest.", ("queue",), known)
    claims = each(lambda name: gauges[name].waiting_claims)
    yield _gauge("leaseway_waiting_claims", "Claims that wait for an item.", ("queue",), claims)
    leases = each(lambda name: gauges[name].leases)
    yield _gauge("leaseway_leases", "Items that are leased to a worker.", ("queue",), leases)
    writable = each(lambda name: queues[name].engine.writable)
    yield _gauge("leaseway_writable", "1 while the store can be written, else 0.", ("queue",), writable)


def _work(meters: dict[str, TurnMeter]) -> Iterator[Metric]:
    """What was done."""
    posts = [((name,), meter.posted) for name, meter in meters.items()]
    yield _counter("leaseway_posts_total", "Items that were posted.", ("queue",), posts)
    claims = [((name,), meter.claimed) for name, meter in meters.items()]
    yield _counter("leaseway_claims_total", "Items that were given to a worker.", ("queue",), claims)
    ends = [((name, status), meter.ended[status]) for name, meter in meters.items() for status in sorted(TERMINAL)]
    yield _counter("leaseway_ends_total", "Items that ended, by how.", ("queue", "status"), ends)
    back = [((name, cause), meter.requeued[cause]) for name, meter in meters.items() for cause in get_args(Cause)]
    yield _counter("leaseway_requeues_total", "Items that went back into the queue, by why.", ("queue", "cause"), back)
    yield _histogram(
        "leaseway_turn_seconds", "How long a turn took, with its commit.", {n: m.turns for n, m in meters.items()}
    )
    yield _histogram(
        "leaseway_turn_commands", "How many commands a turn did.", {n: m.commands for n, m in meters.items()}
    )
    yield _histogram(
        "leaseway_commit_seconds",
        "How long a commit took to be on the disk.",
        {n: m.commits for n, m in meters.items()},
    )


def _doors(traffic: Traffic, talks: dict[tuple[str, Door], list[Talk]]) -> Iterator[Metric]:
    """What came in and went out: of sockets that are over, and of those that are open."""
    by_socket, by_code = ("queue", "kind"), ("kind", "code")
    sockets = [(key, len(open_ones)) for key, open_ones in talks.items()]
    yield _gauge("leaseway_sockets", "Sockets that are open.", by_socket, sockets)
    unsent = [(key, sum(talk.unsent for talk in open_ones)) for key, open_ones in talks.items()]
    yield _gauge("leaseway_unsent_bytes", "Bytes that wait for clients to take them.", by_socket, unsent)
    received = [(key, traffic.received[key] + sum(talk.received for talk in talks[key])) for key in talks]
    yield _counter("leaseway_messages_received_total", "Messages from clients on sockets.", by_socket, received)
    sent = [(key, traffic.sent[key] + sum(talk.sent for talk in talks[key])) for key in talks]
    yield _counter("leaseway_messages_sent_total", "Messages to clients on sockets.", by_socket, sent)
    refused = traffic.refused.copy()
    for (_, door), open_ones in talks.items():
        for talk in open_ones:
            refused.update({(door, code): number for code, number in talk.refused.items()})
    yield _counter("leaseway_refused_total", "What was refused, by code.", by_code, sorted(refused.items()))
    closed = sorted(traffic.closed.items())
    yield _counter("leaseway_sockets_closed_total", "Sockets that ended, by close code.", by_code, closed)
    cut = [((status,), number) for status, number in sorted(traffic.cut.items())]
    yield _counter("leaseway_connections_cut_total", "Connections cut before a request came.", ("status",), cut)


# ── As families ──


def _gauge(name: str, text: str, labels: Sequence[str], values: Iterable[Labelled]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _counter(name: str, text: str, labels: Sequence[str], values: Iterable[Labelled]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _histogram(name: str, text: str, by_queue: dict[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=("queue",))
    for queue, histogram in by_queue.items():
        bounds = [*map(str, histogram.bounds), "+Inf"]
        family.add_metric((queue,), list(zip(bounds, accumulate(histogram.counts), strict=True)), histogram.sum)
    return family
