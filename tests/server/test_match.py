"""Claims for the members that `match` names: the right items in the right order, found at once, on either store."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaseway_server.core.commands import Change, Drop, Empty, Handed, Outcome, Post
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.core.jsontext import Json, write
from leaseway_server.core.match import Match, narrow
from leaseway_server.core.model import START, NewItem
from leaseway_server.runtime import hand_out as hand_out_module
from leaseway_server.store import bounds
from leaseway_server.store.sqlite.rematch import rematch
from leaseway_server.store.sqlite.store import SqliteStore
from support.bench import Bench, claim, open_bench
from support.logged import logged
from support.server import open_queue, running_server

MATCH: Match = ("format", "size.width")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine of a queue that indexes two members, on either store."""
    async with open_bench(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as bench:
        bench.match = MATCH
        await bench.restart()
        yield bench


def bodies(outcomes: list[Outcome]) -> list[str]:
    return [outcome.item.body for outcome in outcomes if isinstance(outcome, Handed)]


async def test_a_claim_gets_what_it_asks_for_in_the_order_of_claims(bench: Bench) -> None:
    await bench.post('{"format":"png","n":1}')
    await bench.post('{"format":"jpg","n":2}')
    await bench.post('{"format":"gif","n":3}', priority=1)
    await bench.post('{"format":"jpg","n":4}', priority=1)
    await bench.post('{"format":["jpg"],"n":5}')
    await bench.post('{"format":"jpg","n":6}')
    found = bodies(await bench.do(claim(2, {"format": ["jpg", "gif"]}, count=9)))
    assert [body[-2] for body in found] == ["3", "4", "2", "6"]
    assert bodies(await bench.do(claim(2, {"format": {"$ne": "png"}}, count=9))) == ['{"format":["jpg"],"n":5}']


async def test_all_else_that_is_asked_counts_too(bench: Bench) -> None:
    for width in (1, 2, 3):
        await bench.post(f'{{"format":"jpg","size":{{"width":{width}}},"n":[{width}]}}')
    asked: list[Json] = [
        {"format": "jpg", "size": {"width": {"$gt": 2}}},
        {"format": "jpg", "n": {"$has": 2}},
        {"size": {"width": 1.0}, "format": "jpg"},
        {"size": {"width": 1}, "format": "png"},
    ]
    found = [bodies(await bench.do(claim(2, criteria))) for criteria in asked]
    assert [[body[-3] for body in each] for each in found] == [["3"], ["2"], ["1"], []]


async def test_long_strings_are_told_apart_behind_their_hash(bench: Bench) -> None:
    await bench.post(f'{{"format":"{"a" * 100}b"}}')
    assert bodies(await bench.do(claim(2, {"format": "a" * 100 + "c"}))) == []
    assert len(bodies(await bench.do(claim(2, {"format": "a" * 100 + "b"})))) == 1


async def test_a_waiting_claim_gets_its_item_when_it_comes(bench: Bench) -> None:
    handed = bench.say(claim(2, {"format": "jpg"}, wait_ms=1_000))
    await bench.engine.step()
    await bench.post('{"format":"png"}')
    assert handed == []
    await bench.post('{"format":"jpg"}')
    assert bodies(handed) == ['{"format":"jpg"}']
    later = bench.say(claim(2, {"format": "gif"}, wait_ms=2_000))
    await bench.post('{"format":"gif"}', delay_ms=500)
    await bench.pass_by(500)
    assert bodies(later) == ['{"format":"gif"}']


async def test_an_item_that_comes_back_is_found_by_its_members(bench: Bench) -> None:
    item = await bench.post('{"format":"jpg"}')
    await bench.do(claim(2, {"format": "jpg"}))
    await bench.do(Drop(2))
    assert bodies(await bench.do(claim(3, {"format": "jpg"}))) == ['{"format":"jpg"}']
    await bench.do(Change(item.id, Cancel()))
    await bench.do(Change(item.id, Retry()))
    assert bodies(await bench.do(claim(3, {"format": "jpg"}))) == ['{"format":"jpg"}']


@pytest.mark.protocol("4.54")
async def test_a_match_behind_many_others_takes_one_turn_and_one_without_its_index_takes_slices(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 10)
    for _ in range(40):
        await bench.post('{"format":"png","kind":"png"}')
    await bench.post('{"format":"jpg","kind":"jpg"}')
    await bench.post('{"format":"jpg","kind":"jpg"}')
    indexed = bench.say(claim(2, {"format": "jpg"}))
    await bench.engine.step()
    assert len(bodies(indexed)) == 1
    searched = bench.say(claim(2, {"kind": "jpg"}))
    await bench.engine.step()
    assert searched == []
    for _ in range(5):
        await bench.engine.step()
    assert len(bodies(searched)) == 1


async def test_a_claim_reads_few_rows_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may match one of the first: then the many behind it are not read."""
    asked = []
    turn_of = bench.engine._store.turn
    async with turn_of(durable=False) as probe:
        pick = type(probe._turn).pick  # type: ignore[attr-defined]

    async def counted(self: Any, after: Any, limit: int, *rest: Any, **named: Any) -> Any:
        asked.append(limit)
        return await pick(self, after, limit, *rest, **named)

    monkeypatch.setattr(type(probe._turn), "pick", counted)  # type: ignore[attr-defined]
    for _ in range(30):
        await bench.post('{"kind":"png"}')
    await bench.post('{"kind":"jpg"}')
    assert len(bodies(await bench.do(claim(2, {"kind": "png"})))) == 1
    assert asked == [hand_out_module.FEW]
    asked.clear()
    assert len(bodies(await bench.do(claim(2, {"kind": "jpg"})))) == 1
    assert asked[:3] == [hand_out_module.FEW, 2 * hand_out_module.FEW, 4 * hand_out_module.FEW]


async def test_criteria_that_nothing_can_meet_are_answered_at_once(bench: Bench) -> None:
    await bench.post('{"format":"jpg"}')
    assert await bench.do(claim(2, {"format": []})) == [Empty()]
    assert await bench.do(claim(2, {"format": {"$in": []}}, wait_ms=0)) == [Empty()]


# ── Other members than before ──


async def test_other_members_are_indexed_at_the_next_start(bench: Bench) -> None:
    ready = await bench.post('{"format":"jpg","kind":1}')
    later = await bench.post('{"format":"jpg","kind":2}', delay_ms=500)
    ended = await bench.post('{"format":"jpg","kind":3}')
    await bench.do(Change(ended.id, Cancel()))
    for match in (("kind",), (), ("kind", "format"), ("format",), MATCH):
        bench.match = match
        with logged() as log:
            await bench.restart()
            await bench.restart()
        assert [entry["event"] for entry in log.entries] == ["store.indexing", "store.indexed"]
        assert log.entries[1]["items"] == 3
        await bench.do(Change(ended.id, Retry()))
        handed = bench.say(
            claim(bench.engine.new_holder(), {"format": "jpg", "kind": [1, 2, 3]}, count=3, wait_ms=1_000)
        )
        await bench.pass_by(1_000)
        assert sorted(bodies(handed)) == [f'{{"format":"jpg","kind":{kind}}}' for kind in (1, 2, 3)]
        for item in (ready, later, ended):
            await bench.do(Change(item.id, Cancel()))
        for item in (ready, later):
            await bench.do(Change(item.id, Retry()))


@pytest.mark.parametrize("slices", [1, 2])
async def test_indexing_that_was_cut_off_begins_again(
    slices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "REMATCH_ROWS", 2)
    async with open_bench("sqlite", tmp_path) as bench:
        for n in range(5):
            await bench.post(f'{{"format":"jpg","n":{n}}}')
        await bench.close()
        store = SqliteStore.open(tmp_path / "queue.db", bench.clock.now)
        under_way = rematch(store.connection, ("format",))
        for _ in range(slices):
            assert next(under_way) == 2
        assert await store.matched() is None
        await store.close()
        bench.match = MATCH
        await bench.start()
        assert len(bodies(await bench.do(claim(2, {"format": "jpg"}, count=9)))) == 5
        await bench.close()
        store = SqliteStore.open(tmp_path / "queue.db", bench.clock.now)
        assert await store.matched() == MATCH
        assert await store.rematch(()) == 5
        texts = store.connection.execute("SELECT DISTINCT match_1, match_2 FROM item").fetchall()
        assert texts == [("", "")]
        await store.close()
        await bench.start()


async def test_a_slice_ends_with_the_body_that_makes_it_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "REMATCH_CHARACTERS", 20)
    async with open_bench("sqlite", tmp_path) as bench:
        for _ in range(3):
            await bench.post('{"format":"aaaaaaaa"}')
        await bench.close()
        store = SqliteStore.open(tmp_path / "queue.db", bench.clock.now)
        assert list(rematch(store.connection, MATCH)) == [1, 1, 1]
        await store.close()
        await bench.start()


# ── Both stores, and no index at all, give the same ──

values: st.SearchStrategy[Json] = st.sampled_from([1, 1.0, "1", True, None, [], {}, "a", "b"])
things = st.fixed_dictionaries(
    {}, optional={"format": values, "size": st.fixed_dictionaries({}, optional={"width": values})}
)
wants: st.SearchStrategy[Json] = st.sampled_from(
    [1, "1", True, None, ["a", 1], ["a", "b", None], {"$in": ["b"]}, {"$ne": 1}, []]
)
asks = st.fixed_dictionaries({}, optional={"format": wants, "size": st.fixed_dictionaries({"width": wants})})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(things, st.integers(-1, 1)), max_size=12),
    st.lists(st.tuples(asks, st.integers(1, 3)), max_size=6),
)
async def test_an_index_changes_nothing_but_the_time(
    tmp_path_factory: pytest.TempPathFactory, posted: list[tuple[Json, int]], asked: list[tuple[Json, int]]
) -> None:
    told = []
    for kind, match in (("memory", ()), ("memory", MATCH), ("sqlite", MATCH)):
        async with open_bench(kind, tmp_path_factory.mktemp("match")) as bench:  # type: ignore[arg-type]
            bench.match = match
            await bench.restart()
            for value, priority in posted:
                await bench.post(write(value), priority=priority)
            told.append([bodies(await bench.do(claim(2, each, count=count))) for each, count in asked])
    assert told[0] == told[1] == told[2]


async def test_items_with_and_without_texts_can_be_posted_in_one_turn(bench: Bench) -> None:
    await bench.do(Post(NewItem('{"n":1}')), Post(NewItem('{"format":"jpg"}', match=('"jpg', ""))))
    assert bodies(await bench.do(claim(2, {"format": "jpg"}))) == ['{"format":"jpg"}']


async def test_without_members_nothing_of_it_is_written(tmp_path: Path) -> None:
    async with open_bench("sqlite", tmp_path) as bench:
        statements: list[str] = []
        bench.engine._store.store.connection.set_trace_callback(statements.append)  # type: ignore[attr-defined]
        await bench.post('{"format":"jpg"}')
        await bench.do(claim(2, {"format": "jpg"}))
        assert not [sql for sql in statements if "match" in sql]


@pytest.mark.protocol("4.54")
async def test_a_server_indexes_what_its_file_names(tmp_path: Path) -> None:
    toml = open_queue(match='["format"]')
    async with (
        running_server(tmp_path, toml) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        for item in ({"format": "png"}, {"format": "jpg"}):
            assert (await http.post("/demo/items", json={"item": item})).status_code == 201
        store = server.engine("demo")._store
        assert await store.matched() == ("format",)
        async with store.turn(durable=False) as turn:
            found = await turn.pick(START, 9, (), narrow(claim(2, {"format": "jpg"}).criteria, ("format",)))
        assert [item.body for item in found] == ['{"format":"jpg"}']
        answer = await http.post("/demo/claim", json={"criteria": {"format": "jpg"}})
        assert answer.json()["item"] == {"format": "jpg"}
