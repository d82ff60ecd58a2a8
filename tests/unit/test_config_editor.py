"""`config.json`, the JSON Schema of `leaseway.toml` for editors, and `load_config` say the same."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator, meta

from leaseway_server.config import Config, ConfigRefused, load_config

SCHEMA: dict[str, Any] = json.loads((files("leaseway_schemas") / "config.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)

BEYOND = re.compile(
    r"\(cap\)|\(ping_interval \+ ping_timeout\)|\(a tenth of max_message_bytes\)|while anyone may post"
    r"|expected a folder to read|none is in|expected a duration of at most 36500d"
)
"""What only `load_config` knows: what one key means beside another, what is on the disk, how long a duration is."""

ONLY_REFUSED_WHEN_READ = [
    ("server.listen", "127.0.0.256:80"),
    ("server.listen", "[:::]:80"),
    ("server.limits.trusted_proxies", [":::"]),
    ("server.limits.trusted_proxies", ["10.0.0.1/8"]),
    ("server.max_message_bytes", 1_048_576.0),
    ("queues.a.retry.max_attempts", 5.0),
]
"""What JSON Schema cannot say, or not in a line that anybody could read; whole floats are integers to it."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what it refers to."""
    for part in [*schema.get("allOf", ()), schema]:
        if "$ref" in part:
            schema = resolved(SCHEMA["$defs"][part["$ref"].removeprefix("#/$defs/")]) | schema
    return schema


def tables(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table that can be written, with the schemas of its keys; the queue is called `a`."""
    schema = resolved(schema)
    named = schema.get("properties") or dict(zip("a", schema.get("patternProperties", {}).values(), strict=False))
    if named:
        yield path, named
        for name, part in named.items():
            yield from tables(part, f"{path}.{name}".strip("."))


TABLES = {path: named for path, named in tables(SCHEMA) if path != "queues"}
LEAVES: dict[str, dict[str, Any]] = {
    f"{path}.{name}": resolved(part)
    for path, named in TABLES.items()
    for name, part in named.items()
    if resolved(part).get("type") != "object"
}


def words(text: str) -> list[str]:
    """What stands between the spaces of a text."""
    return text.split()


ANNOTATIONS = {"description", "default", "examples", "allOf"}
SIMPLE: list[Any] = [True, False, -1, 0, 1, 0.5, "", "x", [], [1], [[]], {}, {"a": 1}]
NUMBERS: list[Any] = [5, 99, 100, 1_000, 10_001, 32_767, 262_144, 1_000_000_000, 0.999, 1.0000001, -0.1]
DURATIONS = ["0s", "1ms", "90s", "05m", "5", "5m ", "5m\n", "36501d", "1234567890123456h", "12345678901234567h"]
WORDS = ["off", "on", "open", "users", "all", "own", "alice", "a\0"]
STORES = [
    "sqlite:x",
    "sqlite:/x",
    "sqlite://x",
    "sqlite:/",
    "sqlite:a\0",
    "postgresql://x",
    "postgres://u:p@[::1]:65535,b/d?x=y",
]
STORES += ["postgresql://", "postgresql:", "postgresql://u:p/w@x", "postgresql://x:65536", "postgresql://x/a b"]
ADDRESSES = words("127.0.0.1:0 [::1]:65535 [::1]:x localhost:65536 localhost:00080 a: :80 ::1:80 *:80 a_b:80 -a:80")
NAMES = ["alice", "", "a\n", "a\u2028", "x" * 200, "x" * 201, "größe", "open", "a.b", "a.", "a..b", "$a", "a.$b", "a$"]
ORIGINS = words("""
    null * https://a.example https://a.example/ https://A.example http://[::1]:3000 http://a:80 http://a:443
    https://a:443 wss://a a.example https://a:65536 https://a:080 app://x file://
""")
NETWORKS = words("""
    127.0.0.1 10.0.0.0/8 10.0.0.0/33 10.0.0.0/08 256.0.0.1 1.2.3 01.2.3.4 ::1 ::/0 ::/129 fd00::/8 localhost
""")
LISTS: list[Any] = [[name] for name in [*NAMES, *ORIGINS, *NETWORKS, *DURATIONS]]
LISTS += [["a", "a"], ["1s", "2s"], [str(number) for number in range(16)], [str(number) for number in range(17)]]
VALUES = [*SIMPLE, *NUMBERS, *DURATIONS, *WORDS, *STORES, *ADDRESSES, *LISTS]
TELLING = [*SIMPLE, "0s", "5m", "off", "open", ["alice"], ["5m"]]
"""Where these and a key's bounds are taken and refused alike, it is most likely the kind of value that it seems."""


def kind(key: str) -> str:
    """What the schema says of a key's value, without what it says to people."""
    return json.dumps({name: said for name, said in LEAVES[key].items() if name not in ANNOTATIONS}, sort_keys=True)


FIRST_OF_KIND = {kind(key): key for key in reversed(LEAVES)}.values()


NEEDS = {"server.listen_url": {"server.store": "postgresql://db"}}
"""Without what no value of a key can be taken."""


def candidates(key: str) -> list[Any]:
    """Values for this key: all there are where it is the first of its kind, and those at its bounds."""
    schema = LEAVES[key]
    bounds = [schema[name] + step for name in ("minimum", "maximum") if name in schema for step in (-1, 0, 1)]
    return [*(VALUES if key in FIRST_OF_KIND else TELLING), *bounds, *schema.get("examples", ())]


@pytest.fixture(autouse=True, scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that is written again and again."""
    return tmp_path_factory.mktemp("config") / "leaseway.toml"


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return "{" + ", ".join(f"{json.dumps(name)} = {toml(member)}" for name, member in value.items()) + "}"


def document(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration that says this, and has a queue."""
    whole: dict[str, Any] = {"queues": {"a": {}}}
    for key, value in keys.items():
        *path, name = key.split(".")
        table = whole
        for step in path:
            table = table.setdefault(step, {})
        table[name] = value
    return whole


def load(file: Path, keys: Mapping[str, Any]) -> Config:
    file.unlink(missing_ok=True)  # Some file systems write a file to the disk at once where it is written over.
    file.write_text("\n".join(f"{name} = {toml(value)}" for name, value in document(keys).items()), encoding="utf-8")
    return load_config(file)


def refused(file: Path, keys: Mapping[str, Any]) -> list[str]:
    """What `load_config` has against it that the schema should have too."""
    try:
        load(file, keys)
    except ConfigRefused as told:
        return [fault.message for fault in told.faults if not BEYOND.search(fault.message)]
    return []


def test_it_is_a_schema_that_explains_each_key() -> None:
    meta.validate(SCHEMA)
    for named in TABLES.values():
        assert not [name for name, part in named.items() if len(part.get("description", "")) < 8]


@pytest.mark.parametrize("path", TABLES)
def test_both_know_the_same_keys(file: Path, path: str) -> None:
    (fault,) = refused(file, {f"{path}.zzzzzzzzzzzz".strip("."): 1})
    known = fault.removeprefix("unknown key; known here: ")
    assert sorted(known.split(", ")) == sorted(TABLES[path])


@pytest.mark.parametrize("key", LEAVES)
def test_both_have_the_same_defaults(file: Path, key: str) -> None:
    if key in ("queues.a.schemas", "server.listen_url"):
        assert "default" not in LEAVES[key]
        return
    unsaid, said = load(file, {}), load(file, {key: LEAVES[key]["default"]})
    assert (said.server, said.queues) == (unsaid.server, unsaid.queues)


@pytest.mark.parametrize("key", LEAVES)
def test_both_give_the_same_verdict_on_a_value(file: Path, key: str) -> None:
    verdicts = set()
    for value in candidates(key):
        keys = {**NEEDS.get(key, {}), key: value}
        valid = VALIDATOR.is_valid(document(keys))
        assert valid == (not refused(file, keys)), (value, refused(file, keys))
        verdicts.add(valid)
    assert verdicts == {True, False}


@given(keys=st.dictionaries(st.sampled_from(list(LEAVES)), st.sampled_from(VALUES), max_size=6))
@settings(max_examples=100, deadline=None)
def test_both_give_the_same_verdict_on_a_file(file: Path, keys: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document(keys)) == (not refused(file, keys))


@pytest.mark.parametrize(
    "whole", ["", "queues = {}", "queues = 1", "queues = {A = {}}", "queues = {a = 1}", "server = 1"]
)
def test_both_refuse_what_has_no_queue(file: Path, whole: str) -> None:
    file.write_text(whole)
    with pytest.raises(ConfigRefused):
        load_config(file)
    assert not VALIDATOR.is_valid(tomllib.loads(whole))


@pytest.mark.parametrize(("key", "value"), ONLY_REFUSED_WHEN_READ)
def test_what_the_schema_cannot_say_is_refused_when_it_is_read(file: Path, key: str, value: Any) -> None:
    assert VALIDATOR.is_valid(document({key: value}))
    assert refused(file, {key: value})
