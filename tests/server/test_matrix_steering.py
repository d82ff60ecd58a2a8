"""Arrays of posts, and what an administrator does to one item × every kind of caller × every kind of queue.

Tables written by hand from PROTOCOL.md §2, §3 and §5, as in `test_matrix.py`: what is refused has changed nothing.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from support.matrix import ACCESS, Caller, Closed, Stage, rows, stage, talk
from support.wire import check_response, check_server

QUEUES: Final = ("public", "drop", "members", "lists", "own", "nowhere")

POST: Final = """
who              public drop members lists own  nowhere
nobody           ok     ok   401     401   401  401
invalid          401    401  401     401   401  401
alice            ok     ok   ok      404   ok   404
alice:post       ok     ok   ok      404   ok   404
alice:fetch      ok     ok   403     404   403  404
alice:work       ok     ok   403     404   404  404
alice:admin      ok     ok   ok      404   ok   404
alice:elsewhere  ok     ok   404     404   404  404
poster           ok     ok   ok      ok    ok   404
reader           ok     ok   ok      403   ok   404
worker           ok     ok   ok      403   ok   404
root             ok     ok   ok      ok    ok   404
root:fetch       ok     ok   403     403   403  404
root:admin       ok     ok   ok      ok    ok   404
"""

ADMIN: Final = """
who              public drop members lists own  nowhere
nobody           ok     401  401     401   401  401
invalid          401    401  401     401   401  401
alice            ok     403  403     404   403  404
alice:post       ok     403  403     404   403  404
alice:fetch      ok     403  403     404   403  404
alice:work       ok     403  403     404   404  404
alice:admin      ok     403  403     404   403  404
alice:elsewhere  ok     403  404     404   404  404
poster           ok     403  403     403   403  404
reader           ok     403  403     403   403  404
worker           ok     403  403     403   403  404
root             ok     ok   ok      ok    ok   404
root:post        ok     403  403     403   403  404
root:fetch       ok     403  403     403   403  404
root:work        ok     403  403     403   403  404
root:admin       ok     ok   ok      ok    ok   404
"""

# What a monitor hears that posts an array: `-` is one that may not even connect.
MONITOR: Final = """
who              public drop   members     lists       own         nowhere
nobody           posted posted -           -           -           -
invalid          -      -      -           -           -           -
alice            posted posted posted      -           posted      -
alice:post       posted posted -           -           -           -
alice:fetch      posted posted not-allowed -           not-allowed -
reader           posted posted posted      not-allowed posted      -
root             posted posted posted      posted      posted      -
root:fetch       posted posted not-allowed not-allowed not-allowed -
"""


async def requests(on: Stage, queue: str, caller: Caller, item_id: str) -> list[tuple[str, int]]:
    """Each administrator's request on the item, and the status of its answer."""
    answers = []
    for method, path, body in (
        ("PATCH", f"/items/{item_id}", {"priority": 1}),
        ("POST", f"/items/{item_id}/retry", None),
        ("DELETE", f"/items/{item_id}", None),
    ):
        answer = await on.line.ask(method, f"/{queue}{path}", caller, body)
        if answer.status != 204:
            check_response(method, path, answer.status, answer.json)
        answers.append((f"{method} {path[23:]}", answer.status))
    return answers


@pytest.mark.parametrize("queue", QUEUES)
async def test_who_may_steer(queue: str, tmp_path: Path) -> None:
    """A pending item is changed; a retry and a delete of it are a conflict, for who may ask for them at all."""
    wrong = []
    async with stage(tmp_path, ACCESS) as on:
        home = "members" if queue == "nowhere" else queue
        for kind, cells in rows(ADMIN):
            for name, caller in on.cast.callers[kind].items():
                item_id = await on.item(home, "bob")
                expected = [200, 409, 409] if cells[queue] == "ok" else [int(cells[queue])] * 3
                found = await requests(on, queue, caller, item_id)
                if [status for _, status in found] != expected:
                    wrong.append(f"/{queue}: {kind} ({name}): {found}, and the table says {cells[queue]}")
                assert await on.rev(home, item_id) == 1 + (cells[queue] == "ok")
    assert not wrong, "\n".join(wrong)


async def waiting(on: Stage, queue: str) -> int:
    """How many items can be claimed; they are claimed by that."""
    root = on.cast.callers["root"][""]
    return len((await on.line.ask("POST", f"/{queue}/claim", root, {"count": 1_000})).json) - 1


@pytest.mark.parametrize("queue", QUEUES)
async def test_who_may_post_arrays(queue: str, tmp_path: Path) -> None:
    wrong, posted = [], 0
    body = [{"item": 1}, {"item": 2}]
    async with stage(tmp_path, ACCESS) as on:
        for kind, cells in rows(POST):
            for name, caller in on.cast.callers[kind].items():
                answer = await on.line.ask("POST", f"/{queue}/items", caller, body)
                check_response("POST", "/items", answer.status, answer.json)
                posted += 2 * (answer.status == 201)
                if str(answer.status) != cells[queue].replace("ok", "201"):
                    wrong.append(f"/{queue}: {kind} ({name}): {answer.status}, and the table says {cells[queue]}")
        if queue != "nowhere":
            assert await waiting(on, queue) == posted
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("queue", QUEUES)
async def test_who_may_post_arrays_on_a_monitor(queue: str, tmp_path: Path) -> None:
    wrong, posted = [], 0
    messages: list[Any] = [{"post": [{"item": 1}, {"item": 2}]}]
    async with stage(tmp_path, ACCESS) as on:
        for kind, cells in rows(MONITOR):
            for name, caller in on.cast.callers[kind].items():
                heard = await talk(on.server.ws_url, f"/{queue}/monitor", caller, messages)
                said = "-" if isinstance(heard, Closed) else heard[0].get("code", heard[0]["type"])
                if not isinstance(heard, Closed):
                    check_server("monitor", heard[0])
                posted += 2 * (said == "posted")
                if said != cells[queue]:
                    wrong.append(f"/{queue}: {kind} ({name}): {said}, and the table says {cells[queue]}")
        if queue != "nowhere":
            assert await waiting(on, queue) == posted
    assert not wrong, "\n".join(wrong)
