"""docs/configuration.md has every key, with the default, the bounds and the effect of a change that the code has."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docs.snippets import Snippet, shell, snippets
from leaseway_server.commands import serve
from leaseway_server.config import Config, load_config
from leaseway_server.config.changes import FIXED_OF_A_QUEUE, RESTART_KEYS
from leaseway_server.config.load import VARIABLES
from leaseway_server.config.values import LONGEST as LONGEST_DURATION
from leaseway_server.config.values import spell
from leaseway_server.core.access import MOST_TICKETS
from leaseway_server.core.limits import WINDOW_MS
from leaseway_server.core.queue import ENVELOPE, Limits
from leaseway_server.core.schema import Schema
from leaseway_server.core.schema_cost import MOST_CHECKS
from leaseway_server.core.schema_format import ASSERTED, REFUSED
from leaseway_server.core.schema_pattern import LONGEST as LONGEST_TEXT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
SCHEMA_FILE = files("leaseway_schemas") / "config.json"
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


class Row(NamedTuple):
    """One key, as the page tells it."""

    takes: str
    default: str
    means: str
    change: str


def rows() -> Iterator[tuple[str, Row]]:
    """Each key of the page's tables, under its full name; `<name>` stands for any queue."""
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        table = re.match(r"`\[([^]]+)\]`", section)
        assert table, section[:40]
        for name, *cells in re.findall(r"^\| `(\w+)` \|" + r" ?(.*?) \|" * 4 + "$", section, re.MULTILINE):
            yield f"{table[1]}.{name}", Row(*cells)


def keys(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key of the schema that is no table, under its full name."""
    for part in [*schema.get("allOf", ()), schema]:
        if "$ref" in part:
            schema = SCHEMA["$defs"][part["$ref"].removeprefix("#/$defs/")] | schema
    if schema.get("type") != "object":
        yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from keys(part, f"{path}.{name}".strip("."))
    for part in schema.get("patternProperties", {}).values():
        yield from keys(part, f"{path}.<name>")


ROWS = dict(rows())
KEYS = dict(keys(SCHEMA))
SNIPPETS = {snippet.marker: snippet for snippet in snippets(PAGE)}


def configured(snippet: Snippet, folder: Path) -> Config:
    """The configuration of a block, beside a folder of schemas."""
    (folder / "schemas" / "resize").mkdir(parents=True)
    (folder / "schemas" / "resize" / "item.json").write_text("{}")
    (folder / "leaseway.toml").write_text(snippet.text)
    return load_config(folder / "leaseway.toml")


def test_the_page_has_each_key_once() -> None:
    assert [key for key, _ in rows()] == list(ROWS)
    assert sorted(ROWS) == sorted(KEYS)


@pytest.mark.parametrize("key", ROWS)
def test_a_default_is_the_codes(key: str) -> None:
    told = re.fullmatch("`(.*)`", ROWS[key].default)
    assert (tomllib.loads(f"it = {told[1]}")["it"] if told else None) == KEYS[key].get("default")


@pytest.mark.parametrize("key", ROWS)
def test_bounds_are_the_codes(key: str) -> None:
    schema, takes = KEYS[key], ROWS[key].takes
    if schema.get("type") == "integer":
        bounds = (schema["minimum"], schema["maximum"])
        words = "1 to 1,000,000,000" if takes == "a count" else takes
        assert words == f"{bounds[0]:,} to {bounds[1]:,}"
    elif schema.get("pattern", "").endswith("(ms|s|m|h|d)$"):
        assert takes == ("a duration" if schema["pattern"].startswith("^(0|") else "a duration above 0")
    elif "maxItems" in schema:
        assert f"at most {schema['maxItems']} " in takes
    else:
        assert not re.search("[0-9]{2}", takes)


@pytest.mark.parametrize("key", ROWS)
def test_what_a_change_does_is_the_codes(key: str) -> None:
    fixed = RESTART_KEYS | {f"queues.<name>.{name}" for name in FIXED_OF_A_QUEUE}
    assert ROWS[key].change == ("restart" if key in fixed else "at once")


def test_the_smallest_file_is_one(tmp_path: Path) -> None:
    assert list(configured(SNIPPETS["smallest"], tmp_path).queues) == ["resize"]


def test_the_whole_file_has_each_key_and_its_default(tmp_path: Path) -> None:
    said = dict(leaves(tomllib.loads(SNIPPETS["whole"].text)))
    assert sorted({*said, "server.listen_url"}) == sorted(KEYS), "which goes with a database alone"
    different = {key for key, value in said.items() if value != KEYS[key].get("default")}
    assert different == {
        "server.admins",
        "server.allowed_origins",
        "server.limits.trusted_proxies",
        "queues.<name>.schemas",
        "queues.<name>.match",
        "queues.<name>.access.work",
        "queues.<name>.access.admin",
    }
    config = configured(SNIPPETS["whole"], tmp_path)
    assert config.queues["resize"].queue.schemas.item is not None


def leaves(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Each key of a file with its value, as `keys` names it."""
    for name, value in table.items():
        key = f"{path}.{'<name>' if path == 'queues' else name}".strip(".")
        if isinstance(value, dict):
            yield from leaves(value, key)
        else:
            yield key, value


async def test_the_schema_for_editors_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    printed = await shell(SNIPPETS["schema"].text, tmp_path)
    assert printed == f"{SCHEMA_FILE}\n"
    (line,) = re.findall("^#:schema (.+)$", PAGE, re.MULTILINE)
    assert json.loads((ROOT / line).read_text(encoding="utf-8")) == SCHEMA


def test_the_options_and_variables_are_those_that_there_are() -> None:
    options = {option for parameter in serve.params for option in parameter.opts}
    assert set(re.findall(r"`(--[a-z-]+)[ `]", PAGE)) == options
    assert set(re.findall(r"`(LEASEWAY_\w+)`", PAGE)) == set(VARIABLES)


def test_the_formats_are_those_that_the_code_asserts_and_refuses() -> None:
    part = PAGE.partition("**`format` is asserted")[2].partition("**What a document")[0]
    rows = re.findall(r"^\| (`.+?) \|.*\| (`.+?) \|$", part, re.MULTILINE)
    names, examples = (re.findall("`([^`]+)`", ", ".join(column)) for column in zip(*rows, strict=True))
    assert names == list(ASSERTED)
    for name, example in zip(names, examples, strict=True):
        assert not Schema.compile({"format": name}).check(example), name
    assert f"more than {LONGEST_TEXT:,} characters" in part
    assert re.findall("`([a-z-]+)`", part.partition("with `pattern`. ")[2]) == list(REFUSED)
    contract = (ROOT / "schemas" / "PROTOCOL.md").read_text(encoding="utf-8")
    asserted = contract.partition("Formats are asserted or refused: asserted are ")[2].partition(", of strings of")[0]
    assert re.findall("`([a-z0-9-]+)`", asserted) == list(ASSERTED)


def test_the_figures_are_those_of_the_code() -> None:
    assert f"{MOST_CHECKS:,} checks" in PAGE
    assert f"the first {LONGEST_TEXT:,} characters" in PAGE
    assert f"may have {ENVELOPE:,} less" in PAGE
    assert f"a full batch of {Limits().batch:,}" in PAGE
    assert f"{MOST_TICKETS:,} tickets of one token" in PAGE
    assert f'at most `"{spell(LONGEST_DURATION)}"`' in PAGE
    assert f"averaged over {'ten' if WINDOW_MS == 10_000 else WINDOW_MS} seconds" in PAGE
