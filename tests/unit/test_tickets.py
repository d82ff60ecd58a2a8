"""Tickets as data (PROTOCOL.md §2): used once, in time, with the end of their token."""

import pytest

from leaseway_server.core import access
from leaseway_server.core.access import TICKET_LIFE, Tickets, Token
from leaseway_server.core.errors import LimitReached

NOW = 1_800_000_000_000


def token(expires_at: int = 0, name: str = "1a2b3c4d5e6f") -> Token:
    return Token(name, "alice", None, None, NOW - 1_000, expires_at)


def test_a_ticket_is_good_once() -> None:
    tickets, alices = Tickets(), token()
    assert tickets.issue("secret", alices, NOW) == NOW + TICKET_LIFE
    assert tickets.redeem("secret", NOW) == alices
    assert tickets.redeem("secret", NOW) is None


@pytest.mark.parametrize("secret", ["", "Secret", "secret ", "secre", "secret\n", "\udc80"])
def test_another_text_is_no_ticket_and_uses_none_up(secret: str) -> None:
    tickets = Tickets()
    tickets.issue("secret", token(), NOW)
    assert tickets.redeem(secret, NOW) is None
    assert tickets.redeem("secret", NOW) == token()


@pytest.mark.parametrize(
    ("expires_at", "ends"),
    [
        (0, NOW + TICKET_LIFE),
        (NOW + 1, NOW + 1),
        (NOW + TICKET_LIFE, NOW + TICKET_LIFE),
        (NOW + TICKET_LIFE + 1, NOW + TICKET_LIFE),
    ],
)
def test_a_ticket_ends_in_its_time_or_with_its_token(expires_at: int, ends: int) -> None:
    for when, good in ((NOW, True), (ends - 1, True), (ends, False), (ends + TICKET_LIFE, False)):
        tickets = Tickets()
        assert tickets.issue("secret", token(expires_at), NOW) == ends
        assert (tickets.redeem("secret", when) is not None) is good


def test_the_tickets_of_one_token_are_different_ones() -> None:
    tickets = Tickets()
    for secret in ("one", "two"):
        tickets.issue(secret, token(), NOW)
    assert tickets.redeem("one", NOW) == tickets.redeem("two", NOW) == token()


def test_so_many_may_wait_and_those_that_are_over_or_used_are_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_TICKETS", 2)
    tickets = Tickets()
    tickets.issue("first", token(), NOW)
    tickets.issue("second", token(), NOW + 1)
    with pytest.raises(LimitReached):
        tickets.issue("third", token(), NOW + 2)
    assert tickets.redeem("third", NOW + 2) is None
    assert tickets.redeem("second", NOW + 2) == token(), "what was there stays"
    tickets.issue("fourth", token(), NOW + 3)
    with pytest.raises(LimitReached):
        tickets.issue("fifth", token(), NOW + TICKET_LIFE - 1)
    tickets.issue("fifth", token(), NOW + TICKET_LIFE)
    assert tickets.redeem("first", NOW + TICKET_LIFE) is None


def test_a_token_takes_nothing_of_what_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of its own user either; and one that has all it may have is told so, whatever others use up."""
    monkeypatch.setattr(access, "MOST_TICKETS", 2)
    tickets = Tickets()
    tokens = [token(name=name) for name in ("one", "two", "three")]
    for each in tokens:
        for number in range(2):
            tickets.issue(f"{each.id} {number}", each, NOW + number)
        for refused in tokens[: tokens.index(each) + 1]:
            with pytest.raises(LimitReached, match="2 tickets of this token wait to be used already"):
                tickets.issue("more", refused, NOW + 2)
    assert tickets.redeem("two 0", NOW + 2) == tokens[1]
    with pytest.raises(LimitReached):
        tickets.issue("more", tokens[0], NOW + 2)
    tickets.issue("two 2", tokens[1], NOW + 2)


def test_a_ticket_of_a_token_that_has_ended_has_its_place_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "MOST_TICKETS", 1)
    tickets = Tickets()
    tickets.issue("first", token(NOW + 1), NOW)
    with pytest.raises(LimitReached):
        tickets.issue("second", token(), NOW + TICKET_LIFE - 1)
    tickets.issue("second", token(), NOW + TICKET_LIFE)
    assert tickets.redeem("second", NOW + TICKET_LIFE) == token()
