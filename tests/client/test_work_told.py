"""What `leaseway work` says of an end: what the server made of it, whatever the program said."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest

from client.scripted_peer import A
from leaseway.attempt import Attempt
from leaseway.cli.program import NotStarted
from leaseway.cli.work_told import Told
from leaseway.errors import HandlerSignal, Permanent, Retry
from leaseway.leases import Ending, Lease


class Says:
    """A program that says this at once."""

    def __init__(self, said: HandlerSignal | None) -> None:
        self.said = said

    async def run(self, item: Any, _job: Attempt) -> Any:
        if self.said is not None:
            raise self.said
        return item


async def _no_progress(_value: bytes) -> None:
    raise AssertionError


async def ran(told: Told, said: HandlerSignal | None) -> Lease:
    lease = Lease(A, 1, {}, None, None, 300.0, 0.0, math.inf)
    handler = told.telling(Says(said))  # type: ignore[arg-type]
    with suppress(HandlerSignal):
        await handler({}, Attempt(lease, _no_progress))
    return lease


@pytest.mark.parametrize(
    ("said", "ending", "end", "error"),
    [
        (None, Ending("result", "finished", "", ""), "result", None),
        (
            None,
            Ending("fail", "failed", "", "the result was refused: schema"),
            "failed",
            "the result was refused: schema",
        ),
        (None, Ending("result", "processing", "fence", ""), "discarded", "fence"),
        (None, None, "discarded", "the item was taken away"),
        (Retry("no space left"), Ending("fail", "pending", "", "no space left"), "retry", "no space left"),
        (Retry("no space left"), Ending("fail", "dead", "", "no space left"), "dead", "no space left"),
        (Permanent("it is no picture"), Ending("fail", "failed", "", "it is no picture"), "failed", "it is no picture"),
        (NotStarted("cannot start it"), Ending("release", "pending", "", ""), "released", "cannot start it"),
    ],
)
async def test_an_end_is_what_the_server_made_of_it(
    said: HandlerSignal | None,
    ending: Ending | None,
    end: str,
    error: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = Told(as_json=True)
    told.settled(await ran(told, said), ending)
    document = json.loads(capsys.readouterr().out)
    assert (document["id"], document["end"], document["error"]) == (A, end, error)
    told.sum_up()
    assert capsys.readouterr().err.endswith(": 1\n")


async def test_what_was_never_answered_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(as_json=True)
    await ran(told, None)
    assert capsys.readouterr().out == "", "nothing is known yet"
    told.sum_up()
    heard = capsys.readouterr()
    assert json.loads(heard.out)["end"] == "unanswered"
    assert heard.err.endswith("without an answer: 1\n")
