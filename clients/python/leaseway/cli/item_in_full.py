"""One item in full: its state, what was posted, what was said of it, and what became of its attempts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from leaseway.cli.options import print_json
from leaseway.cli.remote import NotDone, Remote, printable
from leaseway.cli.tables import span

_WIDTH: Final = 10


@dataclass(frozen=True, slots=True)
class InFull:
    """What the server tells of an item. `item` is its JSON as the server has it."""

    view: dict[str, Any]
    item: bytes
    attempts: list[dict[str, Any]]

    @classmethod
    def of(cls, remote: Remote, item_id: str) -> InFull:
        """Asks; its end does not count as fetched. Raises `NotDone` where there is no such item."""
        path = f"items/{item_id}"
        view = remote.get(path, "status", [("stamp", "false")])
        return cls(
            view, remote.content("GET", f"{path}/item", 200), remote.get(f"{path}/attempts", "attempts")["attempts"]
        )

    def document(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {"view": self.view, "item": json.loads(self.item), "attempts": self.attempts}

    def lines(self, now: int) -> Iterator[tuple[str, str]]:
        """A name and what is to be said of it; what there is not is left out. `now` in ms since the epoch."""
        view = self.view
        yield "status", view["label"]
        yield "posted", _at(view["postedAt"], now) + (f" by {view['postedBy']}" if view["postedBy"] else "")
        if view["status"] == "pending" and view["dueAt"] > now:
            yield "due", _at(view["dueAt"], now)
        yield "changed", _at(view["updatedAt"], now)
        if view["expiresAt"]:
            yield "expires", _at(view["expiresAt"], now)
        if view["worker"]:
            yield "worker", view["worker"]
        yield (
            "tries",
            f"{view['attempts']} begun, {view['failures']} of {view['maxAttempts']} failed, {view['losses']} lost",
        )
        if view["priority"]:
            yield "priority", str(view["priority"])
        if view["key"] is not None:
            yield "key", view["key"]
        yield "item", self.item.decode()
        for name in ("meta", "progress", "result", "error"):
            if view[name] is not None:
                yield name, json.dumps(view[name], ensure_ascii=False)
        for attempt in self.attempts:
            yield f"attempt {attempt['attempts']}", _attempt(attempt, now)


def show(remote: Remote, ids: Sequence[str], *, as_json: bool) -> int:
    """Shows them, in this order. Gives the exit status: 1 where one is not there."""
    found, missing = [], 0
    for item_id in ids:
        try:
            found.append(InFull.of(remote, item_id))
        except NotDone as undone:
            missing = 1
            click.echo(f"{item_id}: {undone.message}", err=True)
    if as_json:
        print_json([each.document() for each in found])
        return missing
    now = int(time.time() * 1000)
    for number, each in enumerate(found):
        click.echo(("\n" if number else "") + each.view["id"])
        for name, text in each.lines(now):
            click.echo(f"  {name.ljust(_WIDTH)}  {printable(text)}")
    return missing


def _attempt(attempt: dict[str, Any], now: int) -> str:
    worker = f" {attempt['worker']}" if attempt["worker"] else ""
    error = f": {attempt['error'].get('message', '')}" if attempt["error"] else ""
    return (
        f"{attempt['ending']}{worker}, {_at(attempt['to'], now)}, after {span(attempt['to'] - attempt['from'])}{error}"
    )


def _at(ms: int, now: int) -> str:
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))
    return f"{clock} ({span(now - ms)} ago)" if ms <= now else f"{clock} (in {span(ms - now)})"
