"""Why an item waits, told from facts: every reason that holds, and no other."""

from dataclasses import replace
from typing import Any, Final

import pytest

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.model import HTTP, NOBODY, Item
from leaseway_server.core.why import MOST_AHEAD, MOST_EFFORT, Facts, Worker, why
from support.model import NOW, SOCKET, held, pending

JPG: Final[Json] = {"format": "jpg", "size": {"width": 64}}
QUIET: Final = Facts(NOW, paused=False, ahead=0, asked=(), workers=())


def asks(criteria: Json) -> Criteria:
    return Criteria.parse(criteria)


def codes(item: Item, facts: Facts, value: Json = JPG) -> list[str]:
    return [reason.code for reason in why(item, value, facts)]


def message(item: Item, facts: Facts, value: Json = JPG) -> str:
    (reason,) = why(item, value, facts)
    assert 0 < len(reason.message) <= 200
    return reason.message


BOX: Final = Worker("box-1", asks({"format": "jpg"}), holds=0)
BUSY: Final = replace(BOX, name="box-2", holds=3)
OTHER: Final = Worker("box-3", asks({"format": "png"}), holds=0)
NEW: Final = Worker("box-4", None, holds=0)


@pytest.mark.protocol("5.105", "5.106")
@pytest.mark.parametrize(
    ("workers", "asked", "found"),
    [
        ([], [], ["no-worker"]),
        ([NEW], [], ["no-worker"]),
        ([BOX], [], ["no-worker"]),
        ([BOX, BUSY], [], ["no-worker"]),
        ([BUSY], [], ["busy"]),
        ([BUSY, OTHER, NEW], [], ["busy"]),
        ([OTHER], [], ["no-match"]),
        ([OTHER, NEW], [], ["no-match"]),
        ([], [asks({"format": "png"})], ["no-match"]),
        ([NEW], [asks({"format": "png"})], ["no-match"]),
        ([BUSY], [asks({"format": "png"})], ["busy"]),
        ([], [asks({"format": "jpg"})], []),
        ([OTHER, BUSY], [asks({"format": "png"}), asks(None)], []),
    ],
)
def test_what_workers_have_to_do_with_it(workers: list[Worker], asked: list[Criteria], found: list[str]) -> None:
    assert codes(pending(), replace(QUIET, workers=workers, asked=asked)) == found


@pytest.mark.protocol("5.130")
def test_what_workers_have_to_do_with_it_is_not_known_where_others_have_some() -> None:
    assert codes(pending(), replace(QUIET, workers=[OTHER], elsewhere=True)) == []
    assert codes(pending(), replace(QUIET, paused=True, elsewhere=True)) == ["paused"]


@pytest.mark.protocol("5.104")
def test_all_reasons_that_hold_are_told() -> None:
    later = replace(pending(), ready=0, due_at=NOW + 90_000, attempts=2)
    facts = replace(QUIET, paused=True, ahead=3, workers=[OTHER])
    assert codes(later, facts) == ["not-due", "paused", "ahead", "no-match"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"due_at": NOW + 1}, "it is due in 1 s"),
        ({"due_at": NOW + 119_000}, "it is due in 119 s"),
        ({"due_at": NOW + 120_001, "attempts": 2}, "it is due in 3 min, after attempt 2"),
        ({"due_at": NOW + 3 * 86_400_000}, "it is due in 3 d"),
    ],
)
def test_when_it_is_due(changes: dict[str, Any], told: str) -> None:
    item = replace(pending(), ready=0, **changes)
    assert message(item, replace(QUIET, asked=[asks(None)])) == told


def test_what_was_seen_to_be_due_stays_so() -> None:
    assert codes(replace(pending(), ready=1, due_at=NOW + 5), replace(QUIET, asked=[asks(None)])) == []


@pytest.mark.protocol("5.107")
def test_how_many_come_first() -> None:
    facts = replace(QUIET, asked=[asks(None)])
    assert message(pending(), replace(facts, ahead=7)).startswith("7 ready items come first")
    assert message(pending(), replace(facts, ahead=MOST_AHEAD)).startswith("at least 10000 ready items")


@pytest.mark.protocol("5.20")
@pytest.mark.parametrize(
    ("criteria", "value", "told"),
    [
        ({"format": "png"}, JPG, 'box-3 asks for "png" at /format'),
        ({"format": ["png", "gif"]}, JPG, 'box-3 asks for ["png","gif"] at /format'),
        ({"size": {"width": {"$lte": 32}}}, JPG, 'box-3 asks for {"$lte":32} at /size/width'),
        ({"colour": "red"}, JPG, 'box-3 asks for "red" at /colour'),
        ({"format": "jpg"}, [1], 'box-3 asks for {"format":"jpg"} at the whole item'),
    ],
)
def test_the_criterion_that_fails_is_named(criteria: Json, value: Json, told: str) -> None:
    facts = replace(QUIET, workers=[Worker("box-3", asks(criteria), holds=0)])
    assert message(pending(), facts, value) == f"no claim matches: {told}"


def test_a_few_claims_are_told_and_the_others_counted() -> None:
    workers = [Worker(f"box-{n}", asks({"format": f"f{n % 5}"}), holds=0) for n in range(10)]
    told = message(pending(), replace(QUIET, workers=workers, asked=[asks({"format": "f0"})]))
    assert told == (
        'no claim matches: box-0 asks for "f0" at /format; box-1 asks for "f1" at /format; '
        'box-2 asks for "f2" at /format; and 2 more'
    )


@pytest.mark.protocol("5.118")
def test_of_very_many_claims_the_first_are_looked_at_and_it_is_told() -> None:
    facts = replace(QUIET, asked=[asks({"format": f"f{n}"}) for n in range(MOST_EFFORT + 100)])
    told = message(pending(), facts)
    looked = MOST_EFFORT + 1
    assert told.startswith(
        f"of {len(facts.asked)} claims {looked} were looked at: no claim matches: a waiting claim asks"
    )
    facts.asked[looked:] = [asks(None)] * 99  # type: ignore[index]
    assert codes(pending(), facts) == ["no-match"]
    facts.asked[looked - 1] = asks(None)  # type: ignore[index]
    assert codes(pending(), facts) == []


@pytest.mark.parametrize(("criteria", "most"), [({"$has": 1}, 2), ([1, 2], 500)])
def test_what_arrays_hold_is_looked_for_in_fewer_of_large_items(
    criteria: Json, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_against = []
    matches = Criteria.matches

    def counted(each: Criteria, item: Json) -> bool:
        held_against.append(each)
        return matches(each, item)

    monkeypatch.setattr(Criteria, "matches", counted)
    large = replace(pending(), body='{"a":[' + "0," * 400_000 + "0]}")
    workers = [replace(BOX, name=f"box-{n}", latest=asks({"a": criteria, "n": n})) for n in range(500)]
    assert codes(large, replace(QUIET, workers=workers), parse(large.body)) == ["no-match"]
    assert 0 < len(held_against) <= most


def test_claims_over_http_have_no_name() -> None:
    told = message(pending(), replace(QUIET, asked=[asks({"format": "png"})]))
    assert told == 'no claim matches: a waiting claim asks for "png" at /format'
    nameless = [replace(OTHER, name="")]
    assert message(pending(), replace(QUIET, workers=nameless)).startswith("no claim matches: a worker asks for")


def test_long_names_and_criteria_are_cut() -> None:
    long = Worker("w" * 200, asks({"p" * 300: ["x" * 300] * 9}), holds=0)
    assert "…" in message(pending(), replace(QUIET, workers=[long] * 9))
    assert "…" in message(pending(), replace(QUIET, workers=[replace(long, latest=None)] * 9))
    busy = message(pending(), replace(QUIET, workers=[replace(BUSY, name=f"box-{n}") for n in range(5)]))
    assert busy == "each worker whose claim matches holds work: box-0, box-1, box-2 and 2 more"


SECRET: Final = Worker("box-secret", asks({"format": "secret"}), holds=0)


@pytest.mark.protocol("5.117")
@pytest.mark.parametrize(
    ("item", "facts", "told"),
    [
        (pending(), {}, ("no-worker", "no worker asks for it now")),
        (pending(), {"workers": [replace(SECRET, latest=None)]}, ("no-worker", "no worker asks for it now")),
        (pending(), {"workers": [replace(SECRET, latest=asks(None))]}, ("no-worker", "no worker asks for it now")),
        (pending(), {"workers": [SECRET]}, ("no-match", "no claim matches")),
        (pending(), {"asked": [asks({"format": "secret"})]}, ("no-match", "no claim matches")),
        (
            pending(),
            {"workers": [replace(SECRET, latest=asks(None), holds=1)]},
            ("busy", "each worker whose claim matches holds work"),
        ),
        (replace(held(), worker="box-secret", lease_user="secret"), {}, ("held", "a worker holds it")),
        (replace(held(), holder=HTTP, lease_user="secret"), {}, ("held", "a worker holds it")),
    ],
)
def test_where_nobody_is_named(item: Item, facts: dict[str, Any], told: tuple[str, str]) -> None:
    (reason,) = why(item, JPG, replace(QUIET, names=False, **facts))
    assert (reason.code, reason.message) == told


def test_where_nobody_is_named_what_is_of_the_item_itself_is_told() -> None:
    later = replace(pending(), ready=0, due_at=NOW + 90_000)
    named = replace(QUIET, paused=True, asked=[asks(None)])
    assert why(later, JPG, replace(named, names=False)) == why(later, JPG, named)
    assert [reason.code for reason in why(later, JPG, named)] == ["not-due", "paused"]
    over = replace(pending(), status="finished", ready=0, finished_at=NOW)
    assert why(over, JPG, replace(named, names=False)) == why(over, JPG, named)


@pytest.mark.protocol("5.22")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "worker box-1 of the user box has held it for 5 s, and does for 40 s more unless it is renewed"),
        ({"worker": "", "lease_user": ""}, "a worker without a name has held it for 5 s, and does for 40 s more"),
        ({"holder": HTTP}, "worker box-1 of the user box (over HTTP) has held it"),
        ({"holder": NOBODY}, "worker box-1 of the user box (its socket is gone) has held it"),
        ({"lease_until": NOW - 5}, "and does for 0 s more"),
    ],
)
def test_who_holds_it(changes: dict[str, Any], told: str) -> None:
    times: dict[str, Any] = {
        "worker": "box-1",
        "lease_user": "box",
        "started_at": NOW - 5_000,
        "lease_until": NOW + 40_000,
    }
    item = replace(held(), **(times | changes))
    assert codes(item, replace(QUIET, paused=True, ahead=3)) == ["held"]


@pytest.mark.protocol("5.22")
@pytest.mark.parametrize(
    ("holder", "facts", "ends"),
    [
        (SOCKET, {}, "(40 s) is renewed"),
        (HTTP, {"lease_ends": NOW + 40_000}, "(40 s) is renewed"),
        (NOBODY, {"lease_ends": NOW + 40_000}, "(40 s) is resumed"),
        (SOCKET, {"lease_ends": NOW + 7_000}, "(7 s) makes progress"),
        (SOCKET, {"lease_ends": NOW + 7_000, "orphaned": True}, "(7 s) is resumed"),
        (SOCKET, {"lease_ends": NOW + 90_000, "orphaned": True}, "(90 s) is resumed"),
    ],
)
def test_it_is_told_when_a_lease_ends_and_what_it_waits_for(holder: int, facts: dict[str, Any], ends: str) -> None:
    item = replace(held(), holder=holder, started_at=NOW - 5_000, lease_until=NOW + 40_000)
    until, unless = ends[1:].split(") ")
    text = message(item, replace(QUIET, **facts))
    assert text.endswith(f"and does for {until} more unless it {unless}")
    assert ("(its socket is gone)" in text) == (unless == "is resumed")


@pytest.mark.protocol("5.91")
@pytest.mark.parametrize("status", ["finished", "failed", "dead", "cancelled", "expired"])
def test_how_it_ended(status: Any) -> None:
    item = replace(pending(), status=status, ready=0, finished_at=NOW - 7_200_000, attempts=3)
    assert codes(item, replace(QUIET, paused=True, ahead=3)) == [status]
    assert message(item, QUIET) == f"it has been {status} for 2 h, after 3 attempts"
    failed = replace(item, attempts=1, error='{"message":"no space left","code":"io"}')
    said = ": no space left" if status in ("failed", "dead") else ""
    assert message(failed, QUIET) == f"it has been {status} for 2 h, after 1 attempt{said}"
