"""What a handler returned or raised, as the report that the server gets."""

from typing import Any

import pytest

from leaseway.errors import Permanent, Release
from leaseway.outcome import Outcome


@pytest.mark.parametrize(
    ("raised", "members"),
    [
        (ValueError("first\nlast\n"), {"message": "ValueError: last", "code": "ValueError"}),
        (KeyError(), {"message": "KeyError", "code": "KeyError"}),
        (ValueError("\udcff"), {"message": "ValueError: ?", "code": "ValueError"}),
        (ValueError("x" * 9999), {"message": ("ValueError: " + "x" * 9999)[:1000], "code": "ValueError"}),
    ],
)
def test_an_exception_is_a_retryable_fail_with_its_type_and_last_line(raised: Exception, members: Any) -> None:
    assert Outcome.raised(raised) == Outcome("fail", {"error": members, "retryable": True})


def test_permanent_and_release_say_what_they_mean() -> None:
    told = Outcome.raised(Permanent("no such font", code="font", detail={"font": "x"}))
    error = {"message": "no such font", "code": "font", "detail": {"font": "x"}}
    assert told == Outcome("fail", {"error": error, "retryable": False})
    assert Outcome.raised(Release(1.5)) == Outcome("release", {"delayMs": 1500})
    assert Outcome.raised(Release(-1)) == Outcome("release", {"delayMs": 0})
    assert Outcome.raised(Release()) == Outcome("release", {})


@pytest.mark.parametrize("detail", [object(), "x" * 40_000])
def test_a_detail_that_the_server_would_not_take_is_left_out(detail: Any) -> None:
    told = Outcome.raised(Permanent("no such font", detail=detail))
    assert told.members["error"] == {"message": "no such font"}
