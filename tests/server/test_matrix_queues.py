"""The requests about a queue as a whole × every kind of caller × every kind of queue, and the list of queues, against
tables written by hand from PROTOCOL.md §2 and §5. See `test_matrix.py`, which has the requests about items.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from support.matrix import ACCESS, LIMITS, PUBLIC, Caller, Stage, rows, stage
from support.wire import check_response

COLUMNS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "facts": [("GET", "")],
    "schema": [("GET", f"/schemas/{kind}.json") for kind in ("item", "progress", "result")],
    "rule": [("GET", "/rates"), ("POST", "/pause"), ("POST", "/pause"), ("POST", "/unpause")],
}

# `part` are the facts without the counts, which tell of what others posted.
TABLES: Final = {
    "public": """
    who              facts schema rule
    nobody           ok    ok     ok
    invalid          401   401    401
    alice            ok    ok     ok
    alice:post       ok    ok     ok
    alice:elsewhere  ok    ok     ok
    root             ok    ok     ok
    """,
    "drop": """
    who              facts schema rule
    nobody           ok    ok     401
    invalid          401   401    401
    alice            ok    ok     403
    alice:post       ok    ok     403
    alice:fetch      ok    ok     403
    alice:work       ok    ok     403
    alice:elsewhere  ok    ok     403
    root             ok    ok     ok
    root:post        ok    ok     403
    root:admin       ok    ok     ok
    """,
    "members": """
    who              facts schema rule
    nobody           401   401    401
    invalid          401   401    401
    alice            ok    ok     403
    alice:post       403   ok     403
    alice:fetch      ok    ok     403
    alice:work       403   ok     403
    alice:admin      ok    ok     403
    alice:elsewhere  404   404    404
    root             ok    ok     ok
    root:post        403   ok     403
    root:fetch       ok    ok     403
    root:work        403   ok     403
    root:admin       ok    ok     ok
    """,
    "lists": """
    who              facts schema rule
    nobody           401   401    401
    invalid          401   401    401
    alice            404   404    404
    alice:admin      404   404    404
    alice:elsewhere  404   404    404
    poster           403   ok     403
    poster:post      403   ok     403
    poster:fetch     404   404    404
    reader           ok    ok     403
    worker           403   ok     403
    root             ok    ok     ok
    root:post        403   ok     403
    root:fetch       ok    ok     403
    root:work        403   ok     403
    root:admin       ok    ok     ok
    """,
    "own": """
    who              facts schema rule
    nobody           401   401    401
    invalid          401   401    401
    alice            part  ok     403
    alice:post       403   ok     403
    alice:fetch      part  ok     403
    alice:elsewhere  404   404    404
    worker           ok    ok     403
    worker:fetch     part  ok     403
    worker:work      403   ok     403
    root             ok    ok     ok
    root:post        403   ok     403
    root:fetch       part  ok     403
    """,
    "nowhere": """
    who              facts schema rule
    nobody           401   401    401
    invalid          401   401    401
    alice            404   404    404
    alice:elsewhere  404   404    404
    root             404   404    404
    root:admin       404   404    404
    """,
}
ALL_OPEN: Final = """
    who              facts schema rule
    nobody           404   404    404
    invalid          401   401    401
    alice            404   404    404
"""
"""A queue that does not exist, on a server all of whose queues are open."""

# Which rights `/_queues` tells, by their first letters; `-` is a queue that is not told of, `0` one without any right.
LISTED: Final = """
    who              public drop members lists own
    nobody           pfwa   pf   -       -     -
    alice            pfwa   pfw  pfw     -     pf
    alice:post       pfwa   pf   p       -     p
    alice:fetch      pfwa   pf   f       -     f
    alice:work       pfwa   pfw  w       -     -
    alice:admin      pfwa   pfw  pfw     -     pf
    alice:elsewhere  pfwa   pf   -       -     -
    poster           pfwa   pfw  pfw     p     pf
    reader           pfwa   pfw  pfw     f     pf
    worker           pfwa   pfw  pfw     w     pfw
    root             pfwa   pfwa pfwa    pfwa  pfwa
    root:work        pfwa   pfw  w       w     w
"""
LISTED_TO_ADMINS: Final = """
    who              public drop members lists own
    nobody           pfwa   pf   -       -     -
    alice            pfwa   pfw  pfw     0     pf
    alice:admin      pfwa   pfw  pfw     0     pf
    alice:post       pfwa   pf   p       -     p
    alice:elsewhere  pfwa   pf   -       -     -
    bob              pfwa   pfw  pfw     -     pf
"""
"""Where `[server] admins` are alice: she is told of all, but not by a token that is narrowed to less."""


@asynccontextmanager
async def schooled(folder: Path, access: str = ACCESS) -> AsyncIterator[Stage]:
    """The stage, with schemas for every queue."""
    schemas = folder / "schemas"
    schemas.mkdir()
    for kind in ("item", "progress", "result"):
        (schemas / f"{kind}.json").write_text("{}")
    async with stage(folder, access.replace("\naccess = ", f'\nschemas = "{schemas}"\naccess = ')) as on:
        yield on


async def mistakes(on: Stage, queue: str, table: str) -> list[str]:
    """The cells that are not as the table says."""
    wrong = []
    for kind, cells in rows(table):
        for name, caller in on.cast.callers[kind].items():
            for column, requests in COLUMNS.items():
                found = [await told(on, caller, method, f"/{queue}", path) for method, path in requests]
                if found != [cells[column]] * len(requests):
                    wrong.append(f"/{queue}: {kind} ({name}): {requests}: {found}, and the table says {cells[column]}")
    return wrong


async def told(on: Stage, caller: Caller, method: str, queue: str, path: str) -> str:
    """The cell of one answer."""
    answer = await on.line.ask(method, queue + path, caller)
    if "/schemas/" not in path:
        check_response(method, path, answer.status, answer.json)
    if answer.status != 200:
        return str(answer.status)
    if path == "" and answer.json["counts"] is None:
        assert answer.json["oldestReadyAt"] is None
        return "part"
    return "ok"


@pytest.mark.protocol("5.45", "5.108", "5.120")
@pytest.mark.parametrize("queue", TABLES)
async def test_each_caller_gets_what_the_table_says(queue: str, tmp_path: Path) -> None:
    async with schooled(tmp_path) as on:
        wrong = await mistakes(on, queue, TABLES[queue])
        assert not wrong, "\n".join(wrong)


async def test_where_all_queues_are_open_one_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    async with schooled(tmp_path, LIMITS + PUBLIC) as on:
        wrong = await mistakes(on, "nowhere", ALL_OPEN)
        assert not wrong, "\n".join(wrong)


async def test_who_may_not_pause_pauses_nothing(tmp_path: Path) -> None:
    async with schooled(tmp_path) as on:
        root = on.cast.callers["root"][""]
        for verb, paused in (("pause", False), ("unpause", True)):
            assert (await on.line.ask("POST", f"/lists/{'un' * (not paused)}pause", root)).status == 200
            for kind in ("nobody", "invalid", "alice", "poster", "reader", "worker", "root:work", "root:fetch"):
                for caller in on.cast.callers[kind].values():
                    assert (await on.line.ask("POST", f"/lists/{verb}", caller)).status in (401, 403, 404)
            assert (await on.line.ask("GET", "/lists", root)).json["paused"] is paused


@pytest.mark.protocol("5.50", "5.111")
@pytest.mark.parametrize(("admins", "table"), [("", LISTED), ('admins = ["alice"]', LISTED_TO_ADMINS)])
async def test_each_caller_is_told_of_the_queues_that_it_may_use(admins: str, table: str, tmp_path: Path) -> None:
    letters = {"p": "post", "f": "fetch", "w": "work", "a": "admin"}
    async with stage(tmp_path, ACCESS.replace("[server]\n", f"[server]\n{admins}\n", 1)) as on:
        for kind, cells in rows(table):
            expected = [
                {"queue": queue, "rights": [letters[letter] for letter in cell if letter != "0"]}
                for queue, cell in cells.items()
                if cell != "-"
            ]
            for caller in on.cast.callers[kind].values():
                answer = await on.line.ask("GET", "/_queues", caller)
                check_response("GET", "/_queues", answer.status, answer.json)
                assert answer.json == {"queues": expected}, kind
        answers = {await on.line.ask("GET", "/_queues", caller) for caller in on.cast.callers["invalid"].values()}
        assert [answer.status for answer in answers] == [401]
