"""What the handlers of the worker campaign did, by their own account, held against what the server shows of the items.

Owns the gates at which handlers wait, what they and their workers' logs say, the newest view of each item, and the
judgement. It strikes nobody.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.gated_worker import PROGRESS
from chaos.promises import TERMINAL, Promises

PATIENCE: Final = 40.0
"""Seconds that anything may take before it counts as lost: longer than the server's `resume_grace`."""
_NO_USE: Final = re.compile(r"(?:lease|result) of ([0-9a-f]{16})/(\d+)(?:: | lost: | left behind)")
"""A worker says so of an attempt whose result does not count."""
_RESULT_ONLY: Final = b"r"


@dataclass(slots=True, eq=False)
class Run:
    """One run of a handler. `word`: what it was let go with; `killed`: its worker was, so it may not know its end."""

    id: str
    attempts: int
    gate: asyncio.StreamWriter
    word: bytes = b""
    said: str = ""
    killed: bool = False
    over: bool = False

    def let_go(self, word: bytes) -> None:
        """Opens its gate, once."""
        if not self.word:
            self.word = word
            self.gate.write(word)


class HandlerJournal:
    """One campaign's. `promises` holds what was posted and seen, and every broken promise."""

    def __init__(self, gates: Path, dice: random.Random) -> None:
        self.promises = Promises()
        self.counts: Counter[str] = Counter()
        self.views: dict[str, dict[str, Any]] = {}
        self._gates = gates
        self._dice = dice
        self._runs: dict[str, dict[int, Run]] = {}
        self._free: set[str] = set()
        self._held: dict[str, tuple[int, int]] = {}
        self._unmoved: set[str] = set()
        self._no_use: set[tuple[str, int]] = set()
        self._news = asyncio.Event()

    # ── What happens ──

    async def serve(self) -> asyncio.Server:
        """The gates, open for handlers to come to; close what this gives."""
        return await asyncio.start_unix_server(self._accept, self._gates)

    async def until(self, holds: Callable[[str], bool], ids: Sequence[str], what: str) -> None:
        """Waits until this holds of all these items. Raises `AssertionError` where it never does."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not all(map(holds, ids)):
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}\n{self._told(ids)}") from None

    def logged(self, line: str) -> None:
        """A line of a worker's log."""
        if found := _NO_USE.search(line):
            self._no_use.add((found[1], int(found[2])))
            self.counts["leases lost and results refused, by the workers' logs"] += 1
        if line.startswith("Traceback"):
            self.promises.violations.append("a worker logged a traceback")
        self._changed()

    def seen(self, view: dict[str, Any]) -> None:
        """A view."""
        self.promises.seen(view, self.promises.known(view["id"]))
        self.views[view["id"]] = view
        self._changed()

    def let_go(self, ids: Iterable[str]) -> None:
        """From now on handlers of these items pass: the newest, and those that come. An older one must be told."""
        for item_id in ids:
            self._free.add(item_id)
            if runs := self._runs.get(item_id):
                runs[max(runs)].let_go(self._word())

    def pass_late(self, ids: Iterable[str]) -> list[Run]:
        """Lets those pass whose item is another's by now, as the server shows."""
        late = [run for item_id in ids for run in self.runs(item_id) if run.attempts < self.views[item_id]["attempts"]]
        for run in late:
            run.let_go(self._word())
        return late

    async def know(self, late: Sequence[Run]) -> None:
        """Waits until the workers of these know that it was for nothing."""
        ids = [run.id for run in late]
        await self.until(
            lambda item_id: all(self._knows(run) for run in late if run.id == item_id),
            ids,
            "workers to know that their results came too late",
        )

    def _knows(self, run: Run) -> bool:
        """Whether a handler was told that its work is of no use, or else its worker was, or can be told nothing."""
        return run.killed or run.said == "cancelled" or (run.id, run.attempts) in self._no_use

    def killed(self, ids: Iterable[str]) -> None:
        """The worker that runs these is killed now."""
        for item_id in ids:
            for run in self.runs(item_id):
                run.killed = True

    def stays(self, ids: Iterable[str]) -> None:
        """Nothing that happens to these from now on may cost them an attempt."""
        self._unmoved.update(ids)

    # ── What is known ──

    def runs(self, item_id: str) -> Iterable[Run]:
        """All runs at this item until now."""
        return self._runs.get(item_id, {}).values()

    async def held(self, ids: Sequence[str], by: str) -> None:
        """Waits until a handler works on each of these, and the server shows it: what comes now, comes to these."""
        await self.until(self._is_held, ids, f"handlers of {by} to begin")
        for item_id in ids:
            view = self.views[item_id]
            self._held[item_id] = (view["attempts"], view["losses"])

    def _is_held(self, item_id: str) -> bool:
        view, runs = self.views.get(item_id), self._runs.get(item_id, {})
        return view is not None and view["status"] == "processing" and view["attempts"] in runs

    def given_up(self, item_id: str) -> bool:
        """Whether the attempt that was held is over for the server."""
        view = self.views[item_id]
        return bool(view["status"] != "processing" or view["attempts"] > self._held[item_id][0])

    def ended(self, item_id: str) -> bool:
        """Whether it has ended, and each of its handlers too."""
        view = self.views.get(item_id)
        return view is not None and view["status"] in TERMINAL and all(run.over for run in self.runs(item_id))

    # ── The judgement ──

    def judge(self, view: dict[str, Any]) -> None:
        """At the end: an item as the server shows it, and the runs at it."""
        self.seen(view)
        item_id, attempts = view["id"], view["attempts"]
        self._hold(view["status"] == "finished", item_id, f"is {view['status']} in the end")
        self._hold(view["failures"] == 0, item_id, f"was charged {view['failures']} failures")
        self._hold(view["losses"] < max(attempts, 1), item_id, f"has {view['losses']} losses in {attempts} attempts")
        if item_id in self._unmoved:
            before, after = self._held[item_id], (attempts, view["losses"])
            self._hold(before == after, item_id, f"a restart cost it: attempts and losses {before}, then {after}")
        self._judge_result(view)
        self.counts[f"items finished by attempt {attempts}"] += 1

    def _judge_result(self, view: dict[str, Any]) -> None:
        item_id, number = view["id"], (view["result"] or {"attempts": 0})["attempts"]
        self._hold(number == view["attempts"], item_id, f"has a result of attempt {number} (I3)")
        by = self._runs.get(item_id, {}).get(number)
        self._hold(by is not None and by.said == "returned", item_id, "has a result that no handler returned")
        if by is not None and by.word == PROGRESS:
            self._hold(view["progress"] == number, item_id, f"has lost its last progress: {view['progress']}")
        for run in self.runs(item_id):
            if run is not by:
                self._judge_no_use(run)

    def _judge_no_use(self, run: Run) -> None:
        """A run whose result is not the item's: its handler was told, or its worker was."""
        self.counts["handlers told that their item is gone"] += run.said == "cancelled"
        self._hold(self._knows(run), run.id, f"attempt {run.attempts} {run.said}: its worker believes it counts (I2)")

    def _hold(self, promise: bool, item_id: str, broken: str) -> None:
        if not promise:
            self.promises.violations.append(f"{item_id} {broken}")

    # ── Within ──

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A handler comes to the gates."""
        _, item_id, attempts = (await reader.readline()).decode().split()
        run = Run(item_id, int(attempts), writer)
        twice = run.attempts in self._runs.setdefault(item_id, {})
        self._hold(not twice, item_id, f"attempt {attempts} was begun twice (I4)")
        self._runs[item_id][run.attempts] = run
        if item_id in self._free:
            run.let_go(self._word())
        self._changed()
        try:
            run.said = (await reader.readline()).decode().strip()
            await reader.read()
        except ConnectionError:  # Its worker was killed.
            pass
        run.over = True
        writer.close()
        self._changed()

    def _told(self, ids: Iterable[str]) -> str:
        """All that is known of these, for people."""
        lines = []
        for item_id in ids:
            view = self.views.get(item_id, {})
            facts = {name: view.get(name) for name in ("status", "attempts", "losses", "worker", "result")}
            runs = [f"{run.attempts}: {run.said or ('gone' if run.over else 'runs')}" for run in self.runs(item_id)]
            lines.append(f"{item_id} {facts}, runs {runs}")
        return "\n".join(lines)

    def _word(self) -> bytes:
        return self._dice.choice([PROGRESS, _RESULT_ONLY])

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
