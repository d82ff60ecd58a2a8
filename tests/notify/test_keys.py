"""Keys: the same in every process and version. Golden values bind: with others, every duplicate would pass."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaseway_notify.event import Event
from leaseway_notify.keys import batch_key, canonical, dedupe_key, digest_key, fnv1a, group_key, key_of, storm_key

EVENT = Event(
    type="mention",
    recipient="ada",
    actor="bob",
    context="doc-1",
    title="Bob mentioned you ✓",
    body="two\nlines",
    payload={"b": [1, 2.5, None, True], "a": {"ü": "\0", "A": 1.0}},
)


def test_fnv_1a_as_its_authors_give_it() -> None:
    assert [f"{fnv1a(text):016x}" for text in (b"", b"a", b"foobar")] == [
        "cbf29ce484222325",
        "af63dc4c8601ec8c",
        "85944171f73967e8",
    ]


def test_golden_values() -> None:
    assert dedupe_key(EVENT) == "ba796a30cfcf8177"
    assert group_key(EVENT) == "139698de36c98101"
    assert [batch_key(EVENT, channel) for channel in ("in_app", "push", "email")] == [
        "77859bf922879348",
        "b7437826611dcf0b",
        "d6d949733bd4681f",
    ]
    assert digest_key("ada", "digest", "email") == "e86f045474c300d9"
    assert storm_key("ada", "email") == "e62d8ee8c0828860"
    assert key_of() == "09612b07b5ecb5a5"
    assert group_key(Event(type="mention", recipient="ada", title="t")) == ""


def test_another_process_with_another_seed_gets_the_same() -> None:
    code = (
        "from leaseway_notify.event import Event; from leaseway_notify.keys import dedupe_key;"
        "print(dedupe_key(Event(type='x', recipient='ada', title='t', payload={'b': 1, 'a': {'d': 1, 'c': 2}})))"
    )
    said = Event(type="y", recipient="ada", title="t", payload={"a": {"c": 2, "d": 1.0}, "b": 1})
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == dedupe_key(said)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, -0.0, 1.5, 1e300]}, '{"a":[1,0,1.5,1e+300],"b":1}'),
        ({"ä": "ä\u2028", "a": "\x1f"}, '{"a":"\\u001f","ä":"ä\u2028"}'),
        ([None, True, False, 2**63], "[null,true,false,9223372036854775808]"),
    ],
)
def test_canonical_json(value: object, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize("member", ["recipient", "actor", "context", "title", "body"])
def test_each_member_counts_and_none_runs_into_the_next(member: str) -> None:
    said = {"type": "x", "recipient": "a", "actor": "b", "context": "c", "title": "d", "body": "e"}
    changed = dedupe_key(Event(**said | {member: said[member] + "!"}))  # type: ignore[arg-type]
    assert changed != dedupe_key(Event(**said))  # type: ignore[arg-type]
    assert key_of("a", "bc") != key_of("ab", "c")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), json_values, min_size=2, max_size=4))
@settings(max_examples=40)
def test_the_order_of_members_does_not_count(payload: dict[str, object]) -> None:
    assert key_of(payload) == key_of(dict(reversed(payload.items())))
