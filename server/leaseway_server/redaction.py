"""The second net against tokens and passwords in the log: what looks like one is struck from every record.

The first net is that nobody logs a URL, a header or a body at all. Nothing here knows how a line is written.
"""

import logging
import re
import traceback
from typing import Final

from leaseway_server.core.access import PREFIX

STRUCK: Final = "[struck]"
SECRETS: Final = ("token", "ticket", "authorization", "password")
"""Names of what one says who one is by, to us (PROTOCOL.md §2) and to a database; such fields are struck whole."""
STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""What every record has; all else was given to it as `extra`."""


def _spelled(word: str) -> str:
    """A pattern of the word: each letter as it is, percent-encoded (also more than once), or escaped as code is."""
    return "".join(
        rf"(?:{re.escape(letter)}|(?:%(?:25){{0,8}}|\\{{1,8}}(?:x|u00))(?:{ord(letter.lower()):x}|{ord(letter.upper()):x}))"
        for letter in word
    )


# Each part is bounded where another follows it, so that no text takes more than linear time.
_ENCODED: Final = r"%(?:25){0,8}[0-9a-f]{2}|\\{1,8}(?:x[0-9a-f]{2}|u[0-9a-f]{4})"
_QUOTE: Final = "(?:\\\\{0,8}[\"']|" + _spelled('"') + ")"
_SPACE: Final = r"(?:\s|\+|" + _spelled(" ") + ")"
_EQUALS: Final = f"(?:{_spelled('=')}|{_spelled(':')})"
_BLANKS: Final = r"(?:\s|\\{1,8}[tnr]){0,8}"
_GIVES: Final = rf"(?:{_QUOTE}?{_BLANKS}{_EQUALS}|{_QUOTE}{_BLANKS},){_BLANKS}b?"

_TOKEN: Final = re.compile(rf"{_spelled(PREFIX)}(?:[\w-]|{_ENCODED})+", re.IGNORECASE)
_VALUES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"({_spelled('authorization')}){_GIVES}(?:{_QUOTE}[^\"'\r\n]*|[^\"'\r\n]+)",
        rf"({_spelled('token')}|{_spelled('ticket')}|{_spelled('password')}){_GIVES}(?:{_QUOTE}[^\"'\r\n]*|[^\s\"'&]+)",
        rf"\b(bearer|basic){_SPACE}{{1,8}}[^\s\"'&]+",
    )
)
_PASSWORD: Final = re.compile(r"(://[^\s:/@]{0,256}):[^\s@]{1,1024}@")
"""That of a database, in its URL."""
_QUERY: Final = re.compile(r"\?[^\s\"'?=]*=[^\s\"']*")


def strike(text: str) -> str:
    """The text without our tokens, what follows the name of a secret, passwords in URLs, and any query string."""
    text = _TOKEN.sub(STRUCK, text)
    for pattern in _VALUES:
        text = pattern.sub(_struck, text)
    text = _PASSWORD.sub(rf"\1:{STRUCK}@", text)
    return _QUERY.sub(f"?{STRUCK}", text)


def _struck(found: re.Match[str]) -> str:
    return f"{found[1]}={STRUCK}"


def shown(value: object) -> str:
    """The value as text; whatever it is, this never fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  Anything may be given to a log, and a log must not fail whoever writes to it.
        return f"<{type(value).__name__}, which cannot be shown>"


class Redaction(logging.Filter):
    """Goes through all of a record: the text with its values, the fields, and the traceback, which it writes out."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record, so that no handler sees more than another; lets each pass."""
        record.msg, record.args = strike(_message(record)), ()
        if record.exc_info:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info))
            record.exc_info = None
        record.exc_text = record.exc_text and strike(record.exc_text)
        for name in vars(record).keys() - STANDARD:
            setattr(record, name, _field(name, getattr(record, name)))
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  As above: the text is told without the values that do not fit it.
        return shown(record.msg)


def _field(name: str, value: object) -> object:
    if name.lower() in SECRETS:
        return STRUCK
    return value if isinstance(value, bool | int | float | None) else strike(shown(value))
