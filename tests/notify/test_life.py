"""Random lives of deliveries in one batch: whatever workers, people and the queue do to them, the rules hold."""

from random import Random
from typing import Final

from leaseway_notify.delivery import BEFORE, ENDED, Change, Delivery, Status
from leaseway_notify.plan import Plan
from leaseway_notify.stores.store import SqlStore
from support.notify_stores import NOW, written

LIVES: Final = 25
STEPS: Final = 20
CHANGES: Final = (
    Change("sent"),
    Change("pending", error="421"),
    Change("scheduled", "quiet_hours", due_at=NOW),
    Change("skipped", "already_read"),
    Change("failed", error="550"),
    Change("dead", error="421"),
)


async def batch_of(store: SqlStore, context: str) -> list[str]:
    plans: list[Plan] = [
        await written(store, type="chat", context=context, title=f"{number}", id=f"{context}-{number}")
        for number in range(3)
    ]
    return [plan.deliveries[2].id for plan in plans]


async def now_in(store: SqlStore, ids: list[str]) -> dict[str, Delivery]:
    found = [await store.delivery(one) for one in ids]
    return {one.delivery.id: one.delivery for one in found if one}


async def step(store: SqlStore, chance: Random, ids: list[str]) -> tuple[str, str, bool]:
    """Something that happens to one of them: what, to which, and whether it was done."""
    one, fence = chance.choice(ids), chance.randint(1, 4)
    what = chance.choice(["begin", "begin", "begin", "change", "change", "change", "cancel", "give_up", "reopen"])
    if what == "begin":
        begun = await store.begin(one, fence, NOW)
        return what, one, begun is not None and not begun.led
    if what == "change":
        only = chance.choice([None, None, [one], ids[:2]])
        return what, one, await store.change(one, fence, chance.choice(CHANGES), NOW, only)
    if what == "cancel":
        return what, one, await store.cancel(one, NOW)
    if what == "give_up":
        return what, one, chance.random() < 0.3 and await store.give_up(one, "gone", NOW + 1, NOW)
    return what, one, await store.reopen(one, NOW) is not None


def check(before: dict[str, Delivery], after: dict[str, Delivery], what: str, one: str, *, done: bool) -> None:
    if not done:
        assert after == before
        return
    for name, was in before.items():
        now = after[name]
        freed = was.lead not in ("", name) or was.lead == one  # It was taken along, and may wait again.
        assert now.status == was.status or was.status in allowed(now.status, reopened=what == "reopen", freed=freed)
        assert now.fence >= was.fence or (what == "reopen" and name == one)
        assert was.status not in ENDED or now == was or (what == "reopen" and name == one)
        assert now.failures >= was.failures or now.round > was.round
    leads = {now.lead for now in after.values() if now.lead}
    assert len(leads) <= 1, "two messages would be made of one batch"
    for lead in leads:
        assert after[lead].lead == lead
        assert after[lead].status not in ENDED
    for now in after.values():
        assert not now.lead or now.status not in ENDED
        assert now.status != "processing" or now.lead, "nobody would ever settle it"


def allowed(status: Status, *, reopened: bool, freed: bool) -> tuple[Status, ...]:
    more: tuple[Status, ...] = ("failed", "dead") if reopened else ()
    return BEFORE[status] + more + (("scheduled",) if freed and status == "pending" else ())


async def test_whatever_happens_the_rules_hold(store: SqlStore) -> None:
    done: dict[str, int] = {}
    for life in range(LIVES):
        chance, ids = Random(life), await batch_of(store, f"life-{life}")  # noqa: S311  Not a secret.
        before = await now_in(store, ids)
        for _ in range(STEPS):
            what, one, was_done = await step(store, chance, ids)
            after = await now_in(store, ids)
            check(before, after, what, one, done=was_done)
            done[what] = done.get(what, 0) + was_done
            before = after
    assert min(done[what] for what in ("begin", "change", "cancel", "give_up", "reopen")) > 3, done
