"""What a handler returned or raised, as the report that the server gets."""

import math
from dataclasses import dataclass
from typing import Any
from unittest.mock import ANY

import pytest

from leaseway.errors import HandlerSignal, Permanent, Release, Retry
from leaseway.outcome import Outcome


class Unspeakable(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError


class NoFont(Permanent):
    """A handler's own, which calls nothing of ours."""

    def __init__(self, font: str) -> None:
        self.font = font


class Later(Release):
    """The same."""

    def __init__(self) -> None:
        pass


def nested(levels: int) -> list[Any]:
    """So many arrays within each other."""
    return [nested(levels - 1)] if levels > 1 else []


@pytest.mark.parametrize(
    ("raised", "members"),
    [
        (ValueError("first\nlast\n"), {"message": "ValueError: last", "code": "ValueError"}),
        (KeyError(), {"message": "KeyError", "code": "KeyError"}),
        (ValueError("\udcff"), {"message": "ValueError: ?", "code": "ValueError"}),
        (ValueError("x" * 9999), {"message": ("ValueError: " + "x" * 9999)[:1000], "code": "ValueError"}),
        (Unspeakable(), {"message": "Unspeakable: Unspeakable", "code": "Unspeakable"}),
        (SystemExit(2), {"message": "SystemExit: 2", "code": "SystemExit"}),
        (GeneratorExit(), {"message": "GeneratorExit", "code": "GeneratorExit"}),
        (ExceptionGroup("two", [ValueError()]), {"message": ANY, "code": "ExceptionGroup"}),
        (HandlerSignal(), {"message": "HandlerSignal", "code": "HandlerSignal"}),
    ],
)
def test_an_exception_is_a_retryable_fail_with_its_type_and_last_line(raised: BaseException, members: Any) -> None:
    assert Outcome.raised(raised) == Outcome("fail", {"error": members, "retryable": True})


def test_permanent_and_release_say_what_they_mean() -> None:
    told = Outcome.raised(Permanent("no such font", code="font", detail={"font": "x"}))
    error = {"message": "no such font", "code": "font", "detail": {"font": "x"}}
    assert told == Outcome("fail", {"error": error, "retryable": False})
    assert Outcome.raised(Release(1.5)) == Outcome("release", {"delayMs": 1500})
    assert Outcome.raised(Release(-1)) == Outcome("release", {"delayMs": 0})
    assert Outcome.raised(Release()) == Outcome("release", {})


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (Permanent(ValueError("bad picture")), "bad picture"),
        (Permanent(Unspeakable()), "Permanent"),
        (Permanent(None), "None"),
        (Permanent(""), "no message"),
        (Permanent("\udcff"), "?"),
        (NoFont("Arial"), "Arial"),
    ],
)
def test_permanent_takes_any_message(raised: Permanent, message: str) -> None:
    assert Outcome.raised(raised) == Outcome("fail", {"error": {"message": message}, "retryable": False})


@pytest.mark.parametrize(("code", "told"), [(404, "404"), (Unspeakable(), "Unspeakable"), ("c" * 300, "c" * 100)])
def test_permanent_takes_any_code(code: Any, told: str) -> None:
    assert Outcome.raised(Permanent("x", code=code)).members["error"]["code"] == told


@pytest.mark.parametrize("delay", [math.inf, -math.inf, math.nan, 1e308, "5", [], object()])
def test_a_release_after_what_is_no_time_is_a_retryable_fail(delay: Any) -> None:
    told = Outcome.raised(Release(delay))
    assert (told.verb, told.members["retryable"]) == ("fail", True)
    assert told.members["error"]["code"] in {"OverflowError", "ValueError", "TypeError"}


def test_a_release_of_the_handlers_own_class_is_one() -> None:
    assert Outcome.raised(Later()) == Outcome("release", {})


def test_a_detail_may_be_as_deep_as_the_protocol_allows() -> None:
    assert Outcome.raised(Permanent("x", detail=nested(63))).members["error"]["detail"] == nested(63)


@pytest.mark.parametrize("detail", [object(), "x" * 40_000, nested(64), nested(300), {1: 2}, math.nan, 2**70])
def test_a_detail_that_the_server_would_not_take_is_left_out(detail: Any) -> None:
    told = Outcome.raised(Permanent("no such font", detail=detail))
    assert told.members["error"] == {"message": "no such font"}


@dataclass
class Size:
    """A result of somebody's own."""

    width: int


def test_a_result_is_json_once_and_for_all_and_may_be_made_of_dataclasses() -> None:
    assert Outcome.result([Size(64), None]) == Outcome("result", value=b'[{"width":64},null]')


def test_what_holds_itself_is_no_result() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert Outcome.result(loop).members["error"]["code"] == "bad-json"


def test_retry_is_a_fail_with_a_time_of_its_own() -> None:
    error = {"message": "later", "code": "Retry"}
    assert Outcome.raised(Retry("later")) == Outcome("fail", {"error": error, "retryable": True})
    timed = Outcome("fail", {"error": error, "retryable": True, "retryInMs": 1500})
    assert Outcome.raised(Retry("later", in_=1.5)) == timed
    assert Outcome.raised(Retry("later", in_=-1)).members["retryInMs"] == 0
    assert Outcome.raised(Retry(in_=1e300)).members["error"]["code"] == "OverflowError"
    assert Outcome.raised(Retry(in_=math.nan)).members["error"]["code"] == "ValueError"
