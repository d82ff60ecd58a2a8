"""What is given on a command line: lengths of time, JSON, and items, which come as they are or from elsewhere.

Raises `click.UsageError`, which names what was wrong; nothing is sent from here.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import orjson
from click.shell_completion import CompletionItem

from leaseway.errors import Rejected
from leaseway.protocol import MAX_MS, encode_value

BOM: Final = b"\xef\xbb\xbf"
"""What some programs put before a text in UTF-8. It says nothing."""
_UNITS: Final = {"": 1_000, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")


class Word(click.types.StringParamType):
    """An address or an item. Shells complete the name of a file behind `@`."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The files and folders that begin so."""
        if not incomplete.startswith("@"):
            return []
        folder, slash, begin = incomplete[1:].rpartition("/")
        with suppress(OSError):
            found = sorted(each for each in Path(folder + slash).iterdir() if each.name.startswith(begin))
            return [CompletionItem(f"@{folder}{slash}{each.name}{'/' * each.is_dir()}") for each in found]
        return []


def milliseconds(text: str) -> int:
    """A length of time such as `90s`, `5m` or `1.5h`; a bare number is seconds."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no length of time; say it as 90s, 5m, 1.5h or 7d")
    told = float(found[1]) * _UNITS[found[2] or ""]
    if told > MAX_MS:
        raise click.BadParameter("it is longer than any time that can be said")
    return round(told)


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
        encode_value(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"it is not JSON: {error}") from None
    except Rejected as refused:
        raise click.BadParameter(f"it cannot be sent as it is: {refused.errors[0]['message']}") from None
    if not isinstance(value, dict):
        raise click.BadParameter('it must be a JSON object, such as {"format": "jpg"}')
    return value


def item_text(word: str) -> bytes:
    """The JSON text of an item: `word` itself, of a file where it is `@FILE`, of the standard input where it is `-`.

    It is sent as it was written: a number keeps all of its digits.
    """
    text = _read(word).removeprefix(BOM)
    try:
        orjson.loads(text)
    except ValueError as error:
        where = {"-": "what stands on the standard input"}.get(word, word[1:] if word.startswith("@") else "the item")
        raise click.UsageError(f"{where} is not JSON: {error}; a text needs its quotes: '\"like this\"'") from None
    return text.strip()


def _read(word: str) -> bytes:
    if word == "-":
        return sys.stdin.buffer.read()
    if not word.startswith("@"):
        return word.encode("utf-8", "surrogateescape")
    try:
        return Path(word[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {word[1:]}: {error.strerror}") from None


def post_body(item: bytes, options: dict[str, Any]) -> bytes:
    """The body of a post (PROTOCOL.md §5): the item's text as it is, and the options that were given."""
    told = orjson.dumps({name: value for name, value in options.items() if value is not None})
    return b'{"item":' + item + (b"}" if told == b"{}" else b"," + told[1:])
