"""A worker of the demo, as a process: counts the primes of ranges, and goes on where one that died had come to.

python -m leaseway.cli.demo.worker ws://127.0.0.1:8787/demo --name worker-1
"""

from __future__ import annotations

import logging
import time
from typing import Any

import click

from leaseway import Permanent, ThreadAttempt, Worker
from leaseway.cli.demo.primes import LARGEST, LONGEST, count, wanted

REFUSED = f'post {{"from": 0, "to": 100000}}: at most {LONGEST:,} numbers, none above {LARGEST:,}'


def make_worker(url: str, name: str, pace: float) -> Worker:
    """It counts one range at a time. `pace` is added to each step, seconds, for people who watch."""
    worker = Worker(url, name=name)

    @worker.handler
    def count_primes(item: Any, job: ThreadAttempt) -> dict[str, int]:
        numbers = wanted(item)
        if numbers is None:
            raise Permanent(REFUSED, code="no-range")
        done = job.checkpoint or {"found": 0}
        for done in count(numbers, job.checkpoint):
            job.progress(done)
            time.sleep(pace)
        return {"primes": done["found"]}

    return worker


@click.command()
@click.argument("url")
@click.option("--name", required=True)
@click.option("--pace", type=float, default=0.0)
def main(url: str, name: str, pace: float) -> None:
    """Works until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    make_worker(url, name, pace).run()


if __name__ == "__main__":
    main()
