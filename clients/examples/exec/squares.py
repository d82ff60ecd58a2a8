#!/usr/bin/env python3
"""A worker in Python that needs no library. It adds up squares, and goes on where a lost attempt was:

leaseway work http://127.0.0.1:8787/demo --exec 'python3 clients/examples/exec/squares.py'
"""

import json
import os
import sys

STEPS = 10


def main() -> None:
    """One item: `{"upTo": n}`."""
    item = json.load(sys.stdin)
    if not isinstance(item, dict) or not isinstance(item.get("upTo"), int):
        sys.exit(refused("the item has no number upTo"))
    done = json.loads(os.environ["LEASEWAY_CHECKPOINT"]) or {"at": 0, "sum": 0}
    with open(3, "w", buffering=1) as records:
        while done["at"] < item["upTo"]:
            done = step(done, item["upTo"])
            print(json.dumps(done), file=records)  # The last of these comes back to the next attempt.
    json.dump({"sum": done["sum"]}, sys.stdout)


def step(done: dict[str, int], up_to: int) -> dict[str, int]:
    """A tenth of the work."""
    at = min(up_to, done["at"] + max(1, up_to // STEPS))
    total = done["sum"] + sum(number * number for number in range(done["at"] + 1, at + 1))
    return {"percent": 100 * at // up_to, "at": at, "sum": total}


def refused(why: str) -> int:
    """The status that says: this item can never succeed."""
    sys.stderr.write(f"{why}\n")
    return 65


if __name__ == "__main__":
    main()
