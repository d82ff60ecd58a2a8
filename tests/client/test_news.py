"""What the library logs while a command runs: told as news, and afterwards logged as before."""

import logging

import pytest

from leaseway.cli.news import telling_news

LIBRARY = logging.getLogger("leaseway")


def interrupted(told: list[str]) -> None:
    with telling_news(told.append):
        LIBRARY.warning("no connection to %s", "there")
        LIBRARY.info("connected")
        raise KeyboardInterrupt


def test_news_are_told_and_nothing_of_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    before = LIBRARY.handlers, LIBRARY.level, LIBRARY.propagate
    with pytest.raises(KeyboardInterrupt):
        interrupted(told)
    assert told == ["no connection to there"]
    assert (LIBRARY.handlers, LIBRARY.level, LIBRARY.propagate) == before
    assert caplog.messages == []
    LIBRARY.warning("as before")
    assert (told, caplog.messages) == (["no connection to there"], ["as before"])
