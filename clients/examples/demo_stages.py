"""The three stages of the demo: work seen live, a worker killed, the server restarted. Each gives its proofs.

What happens and what is checked is here; how it looks is in `demo_screen.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from demo_journal import Entry, Journal, Seen
from demo_news import DemoFailed, News
from demo_processes import Crew, Process, Server
from demo_producer import Producer
from demo_screen import Proof, Screen
from pictures import Picture

from leaseway import PostUnknown

SIZES = ((480, "jpg"), (320, "webp"), (240, "png"), (600, "jpg"))
#: A requeue that had to wait for a ping or for the end of a lease would take 25 s, or 5 minutes.
AT_ONCE_MS = 2_000
#: In mid-work: something is done, and enough is left for a kill to come in time.
MID_WORK = range(30, 71)
TRIES_TO_KILL = 5


@dataclass(slots=True)
class Stage:
    """All that take part. The first journal is the one on the screen; the others are further watchers."""

    server: Server
    crew: Crew
    producer: Producer
    journals: list[Journal]
    pictures: Iterator[Picture]
    screen: Screen
    news: News
    killed: set[str] = field(default_factory=set)
    unanswered: int = 0
    _sizes: Iterator[tuple[int, str]] = field(default_factory=lambda: itertools.cycle(SIZES))

    @property
    def journal(self) -> Journal:
        """The one on the screen."""
        return self.journals[0]

    async def post(self) -> Entry | None:
        """Posts the next picture, and has every journal follow it. None where nobody knows if it was posted."""
        picture, (width, wanted) = next(self.pictures), next(self._sizes)
        try:
            item_id = await self.producer.post(picture, width, wanted)
        except PostUnknown as unknown:
            self.unanswered += 1
            self.screen.note(f"{unknown}: not posted again")
            return None
        for journal in self.journals:
            journal.follow(item_id, picture.name)
        return self.journal[item_id]

    async def post_all(self, count: int, pause: float = 0.0) -> list[Entry]:
        """Posts so many, one after the other, with a pause between them, seconds."""
        entries = []
        for _ in range(count):
            entries.append(await self.post())
            await asyncio.sleep(pause)
        return [entry for entry in entries if entry]

    async def all_ended(self, entries: list[Entry]) -> None:
        """Waits for the end of all."""
        await self.news.until(lambda: all(entry.ended for entry in entries), "every picture is finished", within=180)


async def work_seen_live(stage: Stage) -> list[Proof]:
    """Pictures are posted, resized by two workers, and seen all the way."""
    stage.screen.stage("Pictures are posted over HTTP; two workers resize them; every step is seen as it happens.")
    entries = await stage.post_all(6)
    await stage.all_ended(entries)
    finished = [entry for entry in entries if entry.status == "finished"]
    by = Counter(entry.worker for entry in finished)
    steps = sum(len(entry.steps) for entry in entries)
    shares = " and ".join(f"{count} by {name}" for name, count in sorted(by.items()))
    return [
        Proof(
            "Pictures posted over HTTP, resized by workers over WebSocket",
            f"{len(entries)} posted, {len(finished)} finished: {shares}",
            len(finished) == len(entries),
        ),
        Proof(
            "Progress and results seen live",
            f"{steps} progress records and {len(finished)} results, pushed as they came",
            all(entry.steps for entry in entries),
        ),
    ]


async def worker_killed(stage: Stage) -> list[Proof]:
    """A worker dies in mid-work: its item goes back at once and the other worker does it."""
    stage.screen.stage("A worker is killed in mid-work (SIGKILL). Its picture goes back to the queue at once.")
    await stage.post_all(4)
    entry, worker, delays = await _kill_one(stage)
    slowest = max(delays)
    stage.screen.note(f"{entry.id[:8]} was seen requeued by {len(delays)} watchers after {_ms(slowest)} ms at most")
    await stage.all_ended([entry])
    view = await stage.producer.view(entry.id)
    await stage.crew.hire()
    await stage.all_ended(list(stage.journal))
    return [
        Proof(
            "A killed worker's item is requeued at once, seen by everybody",
            f"{len(delays)} of {len(stage.journals)} watchers saw it within {_ms(slowest)} ms of the SIGKILL",
            len(delays) == len(stage.journals) and slowest * 1000 < AT_ONCE_MS,
        ),
        Proof(
            "The other worker finishes it",
            f"began by {worker.name}, finished by {entry.worker}; attempts {view['attempts']}, losses {view['losses']}",
            view["status"] == "finished"
            and entry.worker != worker.name
            and view["attempts"] == 2
            and view["losses"] == 1,
        ),
    ]


async def _kill_one(stage: Stage) -> tuple[Entry, Process, list[float]]:
    """Kills a worker in mid-work; gives its item, the worker, and after how many seconds each watcher saw it."""
    for _ in range(TRIES_TO_KILL):
        entry, worker = await stage.news.until(lambda: _in_mid_work(stage), "a worker is in mid-work")
        others = [journal[entry.id] for journal in stage.journals]
        await asyncio.gather(*(stage.news.until(partial(_claimed, other), "all watchers see it") for other in others))
        assert entry.view is not None
        attempts, killed_at = entry.view.attempts, worker.kill_now()
        stage.screen.note(f"{worker.name} is killed while it works on {entry.id[:8]}, at {entry.percent:.0f} %")
        seen = await asyncio.gather(*(_changed_hands(stage, other, attempts) for other in others))
        await worker.kill()
        if all(after for after in seen):
            stage.killed.add(entry.id)
            return entry, worker, [after.at - killed_at for after in seen if after]
        stage.screen.note("it had just finished: another one is killed")
        await stage.crew.hire()
        await stage.post_all(2)
    raise DemoFailed(f"{TRIES_TO_KILL} workers were quicker than their killer; a larger --pace helps")


async def _changed_hands(stage: Stage, entry: Entry, attempts: int) -> Seen | None:
    """The state in which the item was first seen taken from that attempt; None where the attempt ended it."""

    def taken() -> Seen | None:
        since = (seen for seen in entry.seen if seen.view.attempts >= attempts)
        return next((seen for seen in since if seen.view.attempts > attempts or seen.view.status != "processing"), None)

    after = await stage.news.until(taken, "the item is requeued")
    return None if after.view.ended and after.view.attempts == attempts else after


async def server_restarted(stage: Stage) -> list[Proof]:
    """The server stops and starts again while pictures are posted and resized."""
    stage.screen.stage("The server is restarted (SIGTERM) while pictures are posted and resized.")
    entries = await stage.post_all(4)
    posting = asyncio.create_task(stage.post_all(8, pause=0.15))
    try:
        await stage.news.until(lambda: len(_all_in_mid_work(stage)) >= 2, "both workers are in mid-work")
        stopped_after, down_at, back_after = await _restart(stage)
        entries += await posting
    finally:
        posting.cancel()
    await stage.all_ended(entries)
    views = [await stage.producer.view(entry.id) for entry in entries]
    # What was claimed before and finished after, in the same attempt, was resumed: its lease outlived the server.
    resumed = [view for view in views if view["startedAt"] < down_at < view["finishedAt"] and view["attempts"] == 1]
    spent = sum(view["attempts"] - 1 for view in views)
    return [
        Proof(
            "The server restarts under load",
            f"stopped in {_ms(stopped_after)} ms, served again {_ms(back_after)} ms later; "
            f"posts that waited for it: {stage.producer.waited}",
            True,
        ),
        Proof(
            "Workers resume their leases; the restart costs no attempt",
            f"{len(resumed)} leases resumed and finished, {spent} attempts spent",
            bool(resumed) and not spent,
        ),
    ]


async def _restart(stage: Stage) -> tuple[float, float, float]:
    """Gives how long the stop took, when the server was down (ms since the epoch), and how long the start took."""
    begun = time.monotonic()
    await stage.server.stop()
    down, down_at = time.monotonic(), time.time() * 1000
    stage.screen.note(f"the server has stopped, with {len(_all_in_mid_work(stage))} pictures in work; it starts again")
    await stage.server.start()
    return down - begun, down_at, time.monotonic() - down


async def nothing_lost_or_twice(stage: Stage) -> list[Proof]:
    """Counts everything that the stages posted, by the server's word and by the workers' logs."""
    entries = list(stage.journal)
    ids = {entry.id for entry in entries}
    told = "the workers' logs tell of every picture"  # They are read beside the sockets, and may come later.
    await stage.news.until(lambda: ids <= stage.crew.handled("done").keys(), told)
    views = [await stage.producer.view(item_id) for item_id in ids]
    finished = sum(view["status"] == "finished" for view in views)
    ends = [sum(seen.view.ended for seen in entry.seen) for entry in entries]
    tries = sum(view["attempts"] for view in views)
    began, done = stage.crew.handled("began"), stage.crew.handled("done")
    unanswered = f"; {stage.unanswered} posts had no answer and are not counted" if stage.unanswered else ""
    return [
        Proof(
            "Nothing is lost",
            f"{len(ids)} posts acknowledged, {finished} finished{unanswered}",
            finished == len(ids),
        ),
        Proof(
            "Nothing is done twice",
            f"{sum(ends)} ends seen, {sum(done[item_id] for item_id in ids)} times done by the workers' logs, "
            f"{tries} attempts ({len(stage.killed)} more for the kill)",
            all(end == 1 for end in ends)
            and all(done[item_id] == 1 for item_id in ids)
            and tries == sum(began[item_id] for item_id in ids) == len(ids) + len(stage.killed),
        ),
    ]


def _in_mid_work(stage: Stage) -> tuple[Entry, Process] | None:
    return next(iter(_all_in_mid_work(stage)), None)


def _all_in_mid_work(stage: Stage) -> list[tuple[Entry, Process]]:
    """The items in mid-work, with the running workers that hold them."""
    working = [entry for entry in stage.journal if _at_work(entry) and entry.percent in MID_WORK]
    holders = [(entry, stage.crew.named(entry.view.worker)) for entry in working if entry.view]
    return [(entry, worker) for entry, worker in holders if worker]


def _claimed(entry: Entry) -> bool:
    return entry.view is not None and entry.view.attempts > 0


def _at_work(entry: Entry) -> bool:
    return entry.status == "processing"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"
