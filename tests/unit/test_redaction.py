"""Secrets that do not get through, however they are spelled and wherever they stand."""

import logging
from typing import Final

import pytest

from leaseway_server.log import VALUE_LIMIT, LogFormat
from leaseway_server.redaction import STRUCK, strike
from support.logged import logged

_log = logging.getLogger("leaseway_server.test")


class Kept(logging.Handler):
    """Another handler, behind ours."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps it."""
        self.records.append(record)


SECRET: Final = "Zx9-canary_that-sings-0"
TOKEN: Final = f"lw_{SECRET}"
SPELLINGS: Final = [
    TOKEN,
    f"xx{TOKEN}.",
    f"/demo/{TOKEN}/items",
    TOKEN.upper(),
    f"%6Cw_{SECRET}",
    f"lw%5F{SECRET}",
    f"lw%255f{SECRET}",
    "".join(f"%{byte:02X}" for byte in TOKEN.encode()),
    "".join(f"%25{byte:02x}" for byte in TOKEN.encode()),
    "".join(f"\\u{byte:04x}" for byte in TOKEN.encode()),
    "".join(f"\\\\x{byte:02x}" for byte in TOKEN.encode()),
    f"?token={SECRET}&x=1",
    f"token={SECRET}",
    f"token={SECRET}&token={SECRET}",
    f"a=1&ticket={SECRET}#part",
    f"Token = {SECRET}",
    f"%74oken%3d{SECRET}",
    f"token%253D{SECRET}",
    f"token\\u003d{SECRET}",
    f"access_token={SECRET}",
    f"x-token: {SECRET}",
    f"token:\t\t {SECRET}",
    f"ticket\t=\t'{SECRET} {SECRET}'",
    f'{{"token": "{SECRET}"}}',
    f"{{'ticket': '{SECRET}'}}",
    f'"{{\\"token\\":\\"{SECRET}\\"}}"',
    f"[('token', '{SECRET}')]",
    f"query_string=b'token={SECRET}'",
    f"[(b'host', b'x'), (b'authorization', b'Bearer {SECRET}'), (b'accept', b'*')]",
    f"Authorization: Bearer {SECRET} {SECRET}",
    f"AUTHORIZATION:{SECRET}",
    f"proxy-authorization=Basic {SECRET}",
    f"authorization%3A%20Bearer%20{SECRET}",
    f"bearer   {SECRET}",
    f"Bearer+{SECRET}",
    f"https://x.example/demo/work?other={SECRET}",
    f"postgresql://leaseway:{SECRET}@db.example.com/leaseway",
    f"postgres://:{SECRET}/{SECRET}@db",
    f"cannot use 'postgresql://db/leaseway?password={SECRET}&x=1'",
    f"host=db password={SECRET} user=x",
    f"password: '{SECRET} {SECRET}'",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_struck_however_it_is_spelled(spelling: str) -> None:
    struck = strike(f"before {spelling}")
    assert struck.startswith("before ")
    assert STRUCK in struck
    _silent(struck)
    assert strike(struck) == struck


def test_what_is_none_stays() -> None:
    for text in (
        "serving http://127.0.0.1:8787/",
        "no such ticket, and 3 tokens",
        "token_id=0a1b2c3d4e5f",
        "the server cannot write at the moment (no space?); nothing of this was done",
        "low_water x=1 slow=2",
        "what? a=b",
    ):
        assert strike(text) == text


@pytest.mark.parametrize("log_format", ["json", "terminal"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_struck_wherever_it_stands(spelling: str, log_format: LogFormat) -> None:
    with logged(log_format) as log:
        _log.info(spelling)
        _log.info("%s and %r", spelling, [spelling])
        _log.info("%(value)s", {"value": spelling})
        _log.info("a text", extra={"event": "socket.opened", "user": spelling, "nested": {"a": [(spelling,)]}})
        _log.info("bytes %s", spelling.encode(), extra={"raw": spelling.encode(), "fault": ValueError(spelling)})
        _log.info("%d", spelling)
        _fail(ValueError(spelling))
        _fail(ExceptionGroup(spelling, [KeyError(spelling)]))
    _silent(log.getvalue())
    assert log.getvalue().count(STRUCK) >= 10


def test_nothing_of_a_secret_is_left_in_the_record_for_others() -> None:
    other = Kept()
    with logged():
        logging.getLogger().addHandler(other)
        _log.info("text %s", SPELLINGS, extra={"user": TOKEN})
        _fail(ValueError(TOKEN))
    assert len(other.records) == 2
    for record in other.records:
        _silent(repr(vars(record)))


@pytest.mark.parametrize("name", ["token", "Ticket", "AUTHORIZATION"])
def test_a_field_with_the_name_of_a_secret_is_struck_whole(name: str) -> None:
    with logged() as log:
        _log.info("a text", extra={name: SECRET})
    assert log.entry[name] == STRUCK


def test_a_secret_at_the_place_of_a_cut_is_struck() -> None:
    with logged() as log:
        for before in range(VALUE_LIMIT - len(TOKEN) - 1, VALUE_LIMIT + 1):
            _log.info("a text", extra={"value": "." * before + TOKEN})
    _silent(log.getvalue())
    assert "lw_" not in log.getvalue()


@pytest.mark.parametrize(
    "part",
    ["%", "%25", "\\", "token ", "?", "?a", "lw", "lw_", "%6c", "%6c%77", "token\\\"'", "bearer ", "token=", "token:'"],
)
def test_no_text_takes_long(part: str) -> None:
    """Twice the text would take four times as long, and these minutes, were any pattern not linear."""
    strike(part * (400_000 // len(part)))
    strike(f"token{part}" + " " * 200_000)


def _silent(text: str) -> None:
    """No part of the secret is left, in whatever spelling."""
    assert "canary" not in text.lower()
    assert "sings" not in text.lower()
    for spelled in ("%{:02x}", "%25{:02x}", "u00{:02x}", "x{:02x}"):
        assert spelled.format(ord("g")) not in text.lower()


def _fail(fault: Exception) -> None:
    _log.error("a request failed", exc_info=fault, extra={"event": "request.failed"})
