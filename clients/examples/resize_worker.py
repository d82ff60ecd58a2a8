"""A worker for the queue `resize`: claims pictures, resizes them, says how far it is.

    pip install Pillow
    python resize_worker.py ws://127.0.0.1:8787/resize

Owns what is said to the queue; the picture work itself is in `resizing.py`.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import click
import resizing

from leaseway import LeasewayError, Permanent, ThreadAttempt, Worker

logger = logging.getLogger("resize")


def make_worker(url: str, *, token: str | None = None, name: str | None = None, pace: float = 0.0) -> Worker:
    """A worker that resizes one picture at a time; `pace` is added to each step, seconds, for people who watch."""
    worker = Worker(url, token=token, name=name)

    @worker.handler
    def resize(item: dict[str, Any], attempt: ThreadAttempt) -> dict[str, Any]:
        logger.info("began %s attempt %d", attempt.id, attempt.attempts)

        def step(percent: int, stage: str) -> None:
            attempt.progress({"percent": percent, "stage": stage})
            time.sleep(pace)

        try:
            step(5, "decode")
            picture = resizing.decode(item["image"])
            step(30, "resize")
            small = resizing.scale(picture, item["width"])
            step(55, "palette")
            palette = resizing.palette(small)
            step(70, "luminance")
            luminance = resizing.luminance(small)
            step(85, "encode")
            image = resizing.encode(small, item["format"])
        except resizing.BadPicture as bad:
            raise Permanent(str(bad), code="bad-picture") from None
        logger.info("done %s attempt %d", attempt.id, attempt.attempts)
        return {
            "image": image,
            "width": small.width,
            "height": small.height,
            "palette": palette,
            "luminance": luminance,
        }

    return worker


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.argument("url", metavar="ws://HOST:PORT/QUEUE")
@click.option("--name", help="The worker's name; the host's where none is given.")
@click.option("--token", envvar="LEASEWAY_TOKEN", help="Better given as LEASEWAY_TOKEN.")
@click.option("--pace", type=click.FloatRange(0, 60), default=0.0, help="Seconds added to each step, to be watched.")
def main(url: str, name: str | None, token: str | None, pace: float) -> None:
    """Works until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        make_worker(url, token=token, name=name, pace=pace).run()
    except (LeasewayError, ValueError) as refused:
        raise click.ClickException(str(refused)) from None


if __name__ == "__main__":
    main()
