"""The demo: a server, two workers and a producer, real processes that do real work, watched live.

    python demo.py           goes on after the show until Ctrl-C; the page at the printed address can be used
    python demo.py --once    ends after the show: with status 0, or 1 where something did not hold

It puts the parts together; each of them has a file of its own beside this one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import click
from demo_journal import Entry, Journal
from demo_news import DemoFailed, News
from demo_processes import Crew, Server
from demo_producer import Producer
from demo_screen import Proof, Screen
from demo_stages import Stage, nothing_lost_or_twice, server_restarted, work_seen_live, worker_killed
from pictures import Picture, sample_pictures

from leaseway import LeasewayError

STAGES = (work_seen_live, worker_killed, server_restarted, nothing_lost_or_twice)
WATCHERS = 3
#: So many pictures are drawn before the show, so that drawing takes no time from it.
DRAWN_BEFORE = 24
KEPT_ENTRIES = 100
INTERRUPTED = 130


class Album:
    """The folder where resized pictures are saved, as long as it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open = True

    def save(self, entry: Entry) -> None:
        """Saves the result of an item that is finished."""
        if not self.open or entry.view is None or entry.view.status != "finished":
            return
        result = entry.view.result
        head, _, data = result["image"].partition(",")
        ending = head.removeprefix("data:image/").removesuffix(";base64").replace("jpeg", "jpg")
        path = self.folder / f"{entry.name}-{result['width']}x{result['height']}.{ending}"
        path.write_bytes(base64.b64decode(data))


def drawn_before(pictures: Iterator[Picture], count: int) -> Iterator[Picture]:
    """The same pictures; the first ones are drawn at once."""
    return itertools.chain(list(itertools.islice(pictures, count)), pictures)


async def show(screen: Screen, data: Path, album: Album, pace: float, *, once: bool) -> bool:
    """The whole demo. Gives whether everything held."""
    news = News()
    async with AsyncExitStack() as stack:  # What was started last is stopped first.
        screen.say("A server and two workers start, each a process of its own.")
        server = Server(data, news)
        stack.push_async_callback(server.stop)
        await server.start()
        screen.say(f"Its page: {server.address}/#resize", "bold")
        screen.say(f"Resized pictures are saved in {album.folder}")

        def on_change(entry: Entry) -> None:
            album.save(entry)
            screen.changed(entry)

        journals = [Journal(server.queue, news, on_change), *(Journal(server.queue, news) for _ in range(WATCHERS - 1))]
        for journal in journals:
            await stack.enter_async_context(journal)
        crew = Crew(server.queue, data, pace, news)
        stack.push_async_callback(crew.stop)
        await crew.hire(2)
        producer = Producer(server.host, server.port, "resize")
        pictures = drawn_before(sample_pictures(), DRAWN_BEFORE)
        stage = Stage(server, crew, producer, journals, pictures, screen, news)
        proofs = [proof for act in STAGES for proof in await act(stage)]
        screen.summary([*proofs, saved(album)])
        if not once:
            await go_on(stage, album)
        return all(proof.holds for proof in proofs)


def saved(album: Album) -> Proof:
    """What lies in the album."""
    count = sum(1 for _ in album.folder.iterdir())
    return Proof("The resized pictures can be looked at", f"{count} files in {album.folder}", count > 0)


async def go_on(stage: Stage, album: Album) -> None:
    """A picture a second until somebody stops it; nothing is saved any more."""
    album.open = False
    stage.screen.stage(f"It goes on, a picture a second. Use {stage.server.address}/#resize; Ctrl-C ends it.")
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            await stage.post_all(1, pause=1.0)
            await stage.news.until(lambda: sum(not entry.ended for entry in stage.journal) < 10, "the workers keep up")
            for journal in stage.journals:
                journal.forget_ended(KEPT_ENTRIES)


async def run(pace: float, pictures: Path, *, once: bool) -> int:
    """Gives the exit status: 0, 1 where something did not hold, 130 where it was interrupted before the summary."""
    cancel_on_signals()
    data = Path(tempfile.mkdtemp(prefix="leaseway-demo-"))
    logging.basicConfig(filename=data / "demo.log", level=logging.INFO)
    with Screen() as screen:
        try:
            held: bool | None = await show(screen, data, Album(pictures), pace, once=once)
            screen.say("Everything that was started has ended.")
        except (DemoFailed, LeasewayError) as failure:
            screen.say(f"The demo failed: {failure}", "bold red")
            screen.say(f"What the processes logged is in {data}")
            return 1
        except asyncio.CancelledError:
            screen.say("Interrupted; everything that was started has ended.")
            held = None
    shutil.rmtree(data)
    return {True: 0, False: 1, None: INTERRUPTED}[held]


def cancel_on_signals() -> None:
    """The first signal cancels this task, which then ends in order; further ones change nothing."""
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--once", is_flag=True, help="End after the show.")
@click.option("--pace", type=click.FloatRange(0, 10), default=0.25, help="Seconds added to each step of the work.")
@click.option("--pictures", type=click.Path(path_type=Path, file_okay=False), help="Where the pictures are saved.")
def main(once: bool, pace: float, pictures: Path | None) -> None:
    """Runs the demo."""
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"  # All of this stays on this machine.
    folder = pictures or Path(tempfile.mkdtemp(prefix="leaseway-pictures-"))
    folder.mkdir(parents=True, exist_ok=True)
    raise SystemExit(asyncio.run(run(pace, folder, once=once)))


if __name__ == "__main__":
    main()
