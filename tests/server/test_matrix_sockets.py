"""`mine`, `all`, `stats` and `cancel` of the monitor socket, and `GET /<queue>/workers`, × every kind of caller × every
kind of queue, against tables written by hand from PROTOCOL.md §2, §3 and §5. `test_matrix.py` tells the rest.
"""

from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from leaseway_server.core.commands import Read
from support.matrix import ACCESS, END, Caller, Stage, rows, stage
from support.raw import CLOSE, raw_socket
from support.wire import check_response, check_server

# `mine` and `all`: which of an item that the caller's user posted and of one of bob's a monitor is shown. `cancel` is
# of the first of them, `cancel2` of bob's: `yes`, the reason of a no, or `error`. A number is the close code.
TABLES: Final = {
    # Everything open, admin too. Nobody has nothing of its own.
    "public": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           200     | not-allowed both        stats       yes         yes
    invalid          401     | 4401        4401        4401        4401        4401
    alice            200     | mine        both        stats       yes         yes
    alice:post       200     | mine        both        stats       yes         yes
    alice:elsewhere  200     | mine        both        stats       yes         yes
    root             200     | mine        both        stats       yes         yes
    """,
    "drop": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           401     | not-allowed not-allowed stats       yes         not-allowed
    invalid          401     | 4401        4401        4401        4401        4401
    alice            403     | mine        not-allowed stats       yes         not-allowed
    alice:post       403     | mine        not-allowed stats       yes         not-allowed
    alice:work       403     | mine        not-allowed stats       yes         not-allowed
    alice:elsewhere  403     | mine        not-allowed stats       yes         not-allowed
    root             200     | mine        both        stats       yes         yes
    root:post        403     | mine        not-allowed stats       yes         not-allowed
    root:admin       200     | mine        both        stats       yes         yes
    """,
    "members": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           401     | 4401        4401        4401        4401        4401
    invalid          401     | 4401        4401        4401        4401        4401
    alice            403     | mine        not-allowed stats       yes         not-allowed
    alice:post       403     | 4403        4403        4403        4403        4403
    alice:fetch      403     | mine        not-allowed stats       error       error
    alice:work       403     | 4403        4403        4403        4403        4403
    alice:admin      403     | mine        not-allowed stats       yes         not-allowed
    alice:elsewhere  404     | 4404        4404        4404        4404        4404
    root             200     | mine        both        stats       yes         yes
    root:post        403     | 4403        4403        4403        4403        4403
    root:fetch       403     | mine        not-allowed stats       error       error
    root:work        403     | 4403        4403        4403        4403        4403
    root:admin       200     | mine        both        stats       yes         yes
    """,
    "lists": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           401     | 4401        4401        4401        4401        4401
    invalid          401     | 4401        4401        4401        4401        4401
    alice            404     | 4404        4404        4404        4404        4404
    alice:admin      404     | 4404        4404        4404        4404        4404
    poster           403     | 4403        4403        4403        4403        4403
    reader           403     | mine        not-allowed stats       error       error
    worker           403     | 4403        4403        4403        4403        4403
    root             200     | mine        both        stats       yes         yes
    root:fetch       403     | mine        not-allowed stats       error       error
    root:admin       200     | mine        both        stats       yes         yes
    """,
    # `visibility = "own"`: bob's item does not exist but for who has work or admin; the figures are for admin alone.
    "own": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           401     | 4401        4401        4401        4401        4401
    invalid          401     | 4401        4401        4401        4401        4401
    alice            403     | mine        not-allowed not-allowed yes         unknown
    alice:post       403     | 4403        4403        4403        4403        4403
    alice:fetch      403     | mine        not-allowed not-allowed error       error
    alice:elsewhere  404     | 4404        4404        4404        4404        4404
    worker           403     | mine        not-allowed not-allowed yes         not-allowed
    worker:fetch     403     | mine        not-allowed not-allowed error       error
    root             200     | mine        both        stats       yes         yes
    root:post        403     | 4403        4403        4403        4403        4403
    root:fetch       403     | mine        not-allowed not-allowed error       error
    """,
    "nowhere": """
    who              workers | mine        all         stats       cancel      cancel2
    nobody           401     | 4401        4401        4401        4401        4401
    invalid          401     | 4401        4401        4401        4401        4401
    alice            404     | 4404        4404        4404        4404        4404
    root             404     | 4404        4404        4404        4404        4404
    """,
}


async def hears(on: Stage, queue: str, caller: Caller, message: dict[str, Any]) -> list[Any] | int:
    """All that a monitor is told of a message, or with which code it was closed."""
    async with raw_socket(on.server.ws_url + caller.at(f"/{queue}/monitor"), caller.named_headers) as socket:
        heard: list[Any] = []
        socket.say(message)
        for _ in range(2):  # Behind the first answer the message was taken, and behind a turn it was done.
            socket.say({"ref": END})
            while True:
                frame = await socket.next()
                if frame.opcode == CLOSE:
                    return frame.close_code
                answer = orjson.loads(frame.data)
                check_server("monitor", answer)
                if answer.get("ref") == END:
                    break
                heard.append(answer)
            await on.server.engine(queue).ask(Read(()))
        return heard


class Cells:
    """Runs one table's cells. `wrong` names those that are not as the table says."""

    def __init__(self, on: Stage, queue: str) -> None:
        self.wrong: list[str] = []
        self._on = on
        self._queue = queue
        self._home = "members" if queue == "nowhere" else queue  # Where the items are.

    async def run(self, kind: str, cells: dict[str, str]) -> None:
        user = self._on.cast.user(kind)
        for name, caller in self._on.cast.callers[kind].items():
            mine, other = await self._on.item(self._home, user), await self._on.item(self._home, "bob")
            answer = await self._on.line.ask("GET", f"/{self._queue}/workers", caller)
            check_response("GET", "/workers", answer.status, answer.json)
            found = {"workers": str(answer.status)}
            messages: dict[str, dict[str, Any]] = {
                "mine": {"subscribe": {"mine": True}},
                "all": {"subscribe": {"all": True}},
                "stats": {"stats": True},
                "cancel": {"cancel": [mine]},
                "cancel2": {"cancel": [other]},
            }
            for column, message in messages.items():
                heard = await hears(self._on, self._queue, caller, message)
                found[column] = str(heard) if isinstance(heard, int) else told(column, heard, mine, other)
            await self._check_changes({mine: found["cancel"], other: found["cancel2"]})
            self.wrong += [
                f"/{self._queue}: {kind} ({name}): {column}: {found[column]}, and the table says {cell}"
                for column, cell in cells.items()
                if found[column] != cell
            ]

    async def _check_changes(self, cancels: dict[str, str]) -> None:
        """What was refused has changed nothing."""
        for item_id, cell in cancels.items():
            rev = await self._on.rev(self._home, item_id)
            if rev != 1 + (cell == "yes"):
                self.wrong.append(f"/{self._queue}: an item has changed {rev - 1} times, and the answer was {cell}")


def told(column: str, heard: list[Any], mine: str, other: str) -> str:
    """What a cell says of what was heard."""
    if column in ("mine", "all") and heard[0]["type"] == "status":
        seen = {message["id"] for message in heard}
        return {(True, True): "both", (True, False): "mine"}[mine in seen, other in seen]
    (answer,) = heard
    if answer["type"] == "error":
        return "error" if column.startswith("cancel") else str(answer["code"])
    if answer["type"] == "stats":
        return "stats"
    return "yes" if answer["accepted"] else str(answer["reason"])


@pytest.mark.parametrize("queue", TABLES)
async def test_each_caller_gets_what_the_table_says(queue: str, tmp_path: Path) -> None:
    async with stage(tmp_path, ACCESS) as on:
        cells = Cells(on, queue)
        for kind, row in rows(TABLES[queue]):
            await cells.run(kind, row)
        assert not cells.wrong, "\n".join(cells.wrong)
