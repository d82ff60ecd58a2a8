"""What an answer means: every status and reply falls into one class, and a `Retry-After` is taken for what it is."""

from email.utils import formatdate

import pytest

from leaseway_notify.classify import MESSAGE_LENGTH, TRANSIENT, Kind, NotSent, http_kind, retry_after, smtp_kind, told

NOW = 1_800_000_000.0
CAP = 3 * 3600.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, None),
        (202, None),
        (299, None),
        (100, Kind.GARBAGE),
        (302, Kind.BAD_CONFIGURATION),
        (400, Kind.REFUSED),
        (401, Kind.BAD_CONFIGURATION),
        (403, Kind.BAD_CONFIGURATION),
        (404, Kind.REFUSED),
        (408, Kind.TIMEOUT),
        (409, Kind.CONFLICT),
        (413, Kind.REFUSED),
        (422, Kind.REFUSED),
        (429, Kind.RATE_LIMITED),
        (500, Kind.UNAVAILABLE),
        (503, Kind.UNAVAILABLE),
        (599, Kind.UNAVAILABLE),
        (600, Kind.GARBAGE),
    ],
)
def test_a_status_of_http(status: int, kind: Kind | None) -> None:
    assert http_kind(status) is kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (421, Kind.UNAVAILABLE),
        (450, Kind.RATE_LIMITED),
        (451, Kind.UNAVAILABLE),
        (452, Kind.RATE_LIMITED),
        (501, Kind.BAD_ADDRESS),
        (550, Kind.BAD_ADDRESS),
        (553, Kind.BAD_ADDRESS),
        (530, Kind.BAD_CONFIGURATION),
        (535, Kind.BAD_CONFIGURATION),
        (552, Kind.REFUSED),
        (554, Kind.REFUSED),
        (-1, Kind.GARBAGE),
        (250, Kind.GARBAGE),
    ],
)
def test_a_reply_of_smtp(code: int, kind: Kind) -> None:
    assert smtp_kind(code) is kind


def test_what_may_pass_is_what_is_retried() -> None:
    transient = {status for status in range(200, 600) if http_kind(status) in TRANSIENT}
    assert transient == {408, 409, 425, 429, *range(500, 600)}


def test_every_4xx_of_smtp_is_transient_and_every_5xx_permanent() -> None:
    assert {smtp_kind(code) in TRANSIENT for code in range(400, 500)} == {True}
    assert {smtp_kind(code) in TRANSIENT for code in range(500, 600)} == {False}


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        (str(365 * 86_400), CAP),
        ("9" * 5_000, CAP),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW - 90, usegmt=True), 0.0),
        (formatdate(NOW + 365 * 86_400, usegmt=True), CAP),
        ("Fri, 15 Jan 2027 08:01:30 -0000", 90.0),
        ("Mon, 99 Foo 2027 08:00:00 GMT", None),
        ("Mon, 01 Jan 99999999999 08:00:00 GMT", None),
    ],
)
def test_a_retry_after(said: str | None, seconds: float | None) -> None:
    assert retry_after(said, NOW, CAP) == seconds


def test_a_providers_words_are_cut_and_kept_on_one_line() -> None:
    assert told(b"a\r\nb\x00c\xff") == "a b c�"
    assert len(told("x" * 10_000)) == MESSAGE_LENGTH
    assert str(NotSent(Kind.REFUSED, "no\nway").fault) == "refused: no way"
    assert str(NotSent(Kind.TIMEOUT)) == "timeout"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("550 <ada@example.org>: no such user", "550 <…@example.org>: no such user"),
        ("5.1.1 ada.l+x@a.example, bob@b.example unknown", "5.1.1 …@a.example, …@b.example unknown"),
        (b'no mailbox for "ad\xc3\xa5@example.org"', 'no mailbox for "…@example.org"'),
        ("meet @ noon", "meet @ noon"),
        (f"{'x' * (MESSAGE_LENGTH - 4)} ada@example.org", f"{'x' * (MESSAGE_LENGTH - 4)} …@e"),
    ],
)
def test_whose_address_it_was_is_not_kept(said: str | bytes, kept: str) -> None:
    assert told(said) == kept
