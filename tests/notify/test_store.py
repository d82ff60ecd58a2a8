"""What the interfaces of the store promise, on both databases."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from leaseway_notify.delivery import BEFORE, ENDED, OPEN, Change, Delivery, Status
from leaseway_notify.errors import Refused, UnknownRecipient
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Mute, Preferences
from leaseway_notify.stores.base import DeliveryFilter, Store, Token
from leaseway_notify.stores.store import SqlStore
from support.notify_stores import DAY, NOW, Opener, planned, profile, subscription, written

LATER = NOW + 1_000


def channel(plan: Plan, name: str) -> Delivery:
    (found,) = (one for one in plan.deliveries if one.channel == name)
    return found


async def status_of(store: SqlStore, delivery_id: str) -> tuple[str, str]:
    found = await store.delivery(delivery_id)
    assert found is not None
    return found.delivery.label, found.delivery.reason


def test_the_store_has_all_that_the_parts_ask_for(store: SqlStore) -> None:
    asked: Store = store
    assert asked is store


# ── Profiles ──


async def test_a_profile_comes_back_as_it_was_saved(store: SqlStore) -> None:
    saved = profile(
        "grace",
        name="Grace Hopper",
        zone="America/New_York",
        subscriptions=(subscription(2), subscription(3)),
        working_on={"doc-1": NOW},
        preferences=Preferences.of(
            {
                "disabled": ["push"],
                "mutes": [{"type": "chat", "context": "c", "channel": "email", "until": NOW}, {}],
                "quietHours": {"start": "22:00", "end": "07:30"},
                "collaborating": True,
            }
        ),
    )
    await store.save_profile(saved)
    assert await store.profile("grace") == saved
    assert await store.profiles(["grace", "nobody", "ada"]) == {"grace": saved, "ada": profile()}
    await store.save_profile(profile("grace"))
    assert await store.profile("grace") == replace(profile("grace"), subscriptions=(subscription(),))
    assert await store.profile("ada") == profile(subscriptions=())  # The browser is grace's by now.


async def test_nobody_has_a_profile_that_was_not_saved(store: SqlStore) -> None:
    assert await store.profile("nobody") is None
    assert await store.change_preferences("nobody", lambda before: before) is None
    with pytest.raises(UnknownRecipient):
        await store.add_subscription("nobody", subscription(9))
    assert not await store.remove_subscription(subscription(9).endpoint)


async def test_changes_of_preferences_at_once_all_count(store: SqlStore) -> None:
    def muting(number: int) -> Mute:
        return Mute(context=f"doc-{number}")

    def adding(number: int, before: Preferences) -> Preferences:
        return replace(before, mutes=(*before.mutes, muting(number)))

    await asyncio.gather(
        *(store.change_preferences("ada", lambda before, n=number: adding(n, before)) for number in range(8))  # type: ignore[misc]
    )
    found = await store.profile("ada")
    assert found is not None
    assert set(found.preferences.mutes) == {muting(number) for number in range(8)}


async def test_subscriptions_come_and_go(store: SqlStore) -> None:
    await store.add_subscription("ada", subscription(2))
    await store.add_subscription("ada", subscription(2))
    assert await store.remove_subscription(subscription(1).endpoint)
    await store.set_working_on("ada", "doc-7", NOW)
    await store.set_working_on("ada", "doc-7", LATER)
    assert await store.profile("ada") == profile(subscriptions=(subscription(2),), working_on={"doc-7": LATER})


# ── Writing plans ──


async def test_a_plan_is_kept_as_it_was_made(store: SqlStore) -> None:
    plan = planned(payload={"url": "/doc/1", "deep": [1, None, "\0ä\n", {"a": 1.5}]}, body="two\nlines")
    assert await store.write([plan], now=NOW, held_until=NOW + DAY) == [plan]
    assert await store.notification(plan.notification.id) == plan
    assert await store.notification("nothing") is None


async def test_an_equal_event_within_the_window_is_a_duplicate_and_reasons_are_recorded(store: SqlStore) -> None:
    first = await written(store)
    second = await written(store, now=NOW + DAY - 1)
    assert second.duplicate
    assert second.notification.duplicate_of == first.notification.id
    assert {(one.status, one.reason) for one in second.deliveries} == {("skipped", "deduplicated")}
    assert await store.notification(second.notification.id) == second
    third = await written(store, now=NOW + DAY)
    assert not third.duplicate
    assert (await written(store, now=NOW + DAY + 1)).notification.duplicate_of == third.notification.id


async def test_equal_events_of_one_call_give_one_notification(store: SqlStore) -> None:
    plans = [planned(), planned(title="another"), planned()]
    first, other, last = await store.write(plans, now=NOW, held_until=NOW + DAY)
    assert sorted([first.duplicate, last.duplicate]) == [False, True]
    assert not other.duplicate


async def test_the_same_event_again_is_the_same_notification(store: SqlStore) -> None:
    plan = await written(store, id="event-1")
    await store.mark_posted([plan.deliveries[0].id], LATER)
    again = await written(store, now=LATER, id="event-1")
    assert again.notification == plan.notification
    assert again.deliveries == (replace(plan.deliveries[0], posted_at=LATER), *plan.deliveries[1:])


async def test_another_event_under_the_same_id_is_refused_and_nothing_of_the_call_is_written(store: SqlStore) -> None:
    plan = await written(store, id="event-1")
    others: list[dict[str, Any]] = [{"title": "other"}, {"type": "chat"}]
    for other in others:
        new = planned(title="new")
        with pytest.raises(Refused, match=r"^id: another notification has the id 'event-1'"):
            await store.write([new, planned(id="event-1", **other)], now=NOW, held_until=NOW + DAY)
        assert await store.notification(new.notification.id) is None
    assert await store.notification("event-1") == plan
    assert not (await written(store, title="new")).duplicate


async def test_plans_written_at_once_from_two_stores_are_one_notification(place: tuple[str, Opener]) -> None:
    async with await place[1]() as one, await place[1]() as other:
        await one.save_profile(profile())
        for number in range(5):
            plans = [planned(title=f"{number} {which}") for which in range(4)]
            again = [planned(title=f"{number} {which}") for which in reversed(range(4))]
            kept = await asyncio.gather(
                one.write(plans, now=NOW, held_until=NOW + DAY), other.write(again, now=NOW, held_until=NOW + DAY)
            )
            holders = [plan.notification.id for plans in kept for plan in plans if not plan.duplicate]
            assert len(holders) == 4
            assert {plan.notification.duplicate_of for plans in kept for plan in plans} == {"", *holders}


async def test_the_same_event_written_at_once_from_two_stores_is_written_once(place: tuple[str, Opener]) -> None:
    async with await place[1]() as one, await place[1]() as other:
        await one.save_profile(profile())
        for number in range(5):
            plan = planned(title=f"{number}")
            kept = await asyncio.gather(
                *(store.write([plan], now=NOW, held_until=NOW + DAY) for store in (one, other, one))
            )
            assert kept == [[plan]] * 3


# ── The outbox ──


async def test_what_waits_and_is_not_marked_is_to_be_posted(store: SqlStore) -> None:
    plan = await written(store)
    await written(store)  # A duplicate: nothing of it waits.
    ids = sorted(one.id for one in plan.deliveries)
    assert [one.id for one in await store.unposted(10)] == ids
    assert [one.id for one in await store.unposted(1)] == ids[:1]
    assert [one.id for one in await store.unposted(10, after=ids[0])] == ids[1:]
    await store.mark_posted(ids[:2], LATER)
    (left,) = await store.unposted(10)
    assert left.id == ids[2]
    await store.cancel(left.id, LATER)
    assert await store.unposted(10) == []


async def test_what_was_due_and_unheard_of_is_silent_until_it_is_heard_of(store: SqlStore) -> None:
    plan = await written(store)
    now, later = channel(plan, "in_app"), channel(plan, "email")
    await store.mark_posted([one.id for one in plan.deliveries], NOW)
    await store.cancel(channel(plan, "push").id, NOW)
    assert [one.id for one in await store.silent(LATER, 10)] == [now.id]
    assert {one.id for one in await store.silent(later.due_at + 1, 10)} == {now.id, later.id}
    await store.mark_posted([now.id], LATER)
    assert await store.silent(LATER, 10) == []
    assert not await store.give_up(now.id, "gone", NOW, LATER)
    assert await store.give_up(now.id, "gone", LATER, LATER)
    assert await status_of(store, now.id) == ("dead", "")
    assert not await store.give_up(now.id, "gone", LATER + 1, LATER)


# ── The life of a delivery ──


async def begun(store: SqlStore, fence: int = 1, **members: Any) -> Delivery:
    plan = await written(store, **members)
    delivery = channel(plan, "push")
    found = await store.begin(delivery.id, fence, LATER)
    assert found is not None
    assert found.along == ()
    assert (found.sending.notification, found.sending.delivery.status) == (plan.notification, "processing")
    return found.sending.delivery


@pytest.mark.parametrize("status", BEFORE)
async def test_from_processing_it_goes_where_its_life_allows(store: SqlStore, status: Status) -> None:
    delivery = await begun(store)
    assert await store.change(delivery.id, 1, Change(status), LATER)
    assert (await status_of(store, delivery.id))[0] == status
    again = await store.change(delivery.id, 1, Change("sent"), LATER)
    assert again == (status == "processing")
    assert (await store.begin(delivery.id, 2, LATER) is not None) == (again is False and status in OPEN)
    assert await store.cancel(delivery.id, LATER) == (status in OPEN and not again)
    assert set(OPEN) | set(ENDED) == set(BEFORE)


async def test_the_fence_shuts_out_an_attempt_that_was_overtaken(store: SqlStore) -> None:
    delivery = await begun(store, fence=3)
    assert await store.begin(delivery.id, 2, LATER) is None
    assert not await store.change(delivery.id, 2, Change("sent"), LATER)
    assert await store.begin(delivery.id, 4, LATER) is not None
    assert not await store.change(delivery.id, 3, Change("failed"), LATER)
    assert await store.change(delivery.id, 4, Change("sent"), LATER)
    assert await store.begin("nothing", 1, LATER) is None


async def test_a_failure_for_a_time_is_told_as_retrying(store: SqlStore) -> None:
    delivery = await begun(store)
    waits = Change("pending", error="421 later", due_at=LATER + 5)
    assert await store.change(delivery.id, 1, waits, LATER)
    found = await store.delivery(delivery.id)
    assert found is not None
    kept = found.delivery
    assert (kept.label, kept.failures, kept.error, kept.due_at) == ("retrying", 1, "421 later", LATER + 5)
    (listed,) = await store.deliveries(DeliveryFilter(label="retrying"), 10)
    assert listed == found
    assert kept.id not in [one.delivery.id for one in await store.deliveries(DeliveryFilter(label="pending"), 10)]
    assert await store.begin(delivery.id, 2, LATER) is not None
    assert await store.change(delivery.id, 2, Change("sent"), LATER)
    assert await status_of(store, delivery.id) == ("sent", "")


async def test_a_success_leaves_its_detail(store: SqlStore) -> None:
    delivery = await begun(store)
    assert await store.change(delivery.id, 1, Change("sent", detail="id 7"), LATER)
    found = await store.delivery(delivery.id)
    assert found is not None
    assert found.delivery.detail == "id 7"


async def test_quiet_hours_hand_it_back_without_a_failure(store: SqlStore) -> None:
    delivery = await begun(store)
    assert await store.change(delivery.id, 1, Change("scheduled", "quiet_hours", due_at=LATER + 9), LATER)
    assert await status_of(store, delivery.id) == ("scheduled", "quiet_hours")


async def test_what_failed_or_died_wants_attention_and_can_be_begun_anew(store: SqlStore) -> None:
    for number, status in enumerate(("failed", "dead", "sent")):
        delivery = await begun(store, fence=5, title=str(number))
        assert await store.change(delivery.id, 5, Change(status, error="no" * (status != "sent")), LATER + number)  # type: ignore[arg-type]
    dead, failed = await store.attention(10)
    assert (dead.delivery.status, failed.delivery.status) == ("dead", "failed")
    assert await store.attention(1) == [dead]
    assert await store.attention(10, before=dead.delivery.id) == [failed]
    assert await store.counts() == {"dead": 1, "failed": 1, "pending": 3, "scheduled": 3}
    await store.mark_posted([dead.delivery.id], LATER)
    anew = await store.reopen(dead.delivery.id, LATER + 9)
    assert anew == replace(
        dead.delivery, status="pending", error="", fence=0, round=1, due_at=LATER + 9, updated_at=LATER + 9
    )
    assert anew in await store.unposted(10)
    assert await store.reopen(dead.delivery.id, LATER) is None
    assert await store.begin(dead.delivery.id, 1, LATER) is not None
    assert not await store.change(dead.delivery.id, 5, Change("sent"), LATER)


async def test_a_newer_one_of_the_group_and_type_that_was_sent_supersedes(store: SqlStore) -> None:
    old = await begun(store)
    newer = await written(store, now=LATER, title="newer")
    sending = await store.delivery(old.id)
    assert sending is not None
    assert not await store.newer_sent(sending)
    sent = channel(newer, "push")
    await store.begin(sent.id, 1, LATER)
    await store.change(sent.id, 1, Change("sent"), LATER)
    assert await store.newer_sent(sending)
    itself = await store.delivery(sent.id)
    assert itself is not None
    assert not await store.newer_sent(itself)
    others: list[dict[str, Any]] = [{"context": "doc-2"}, {"type": "chat"}, {"context": ""}]
    for other in others:
        found = await store.delivery(channel(await written(store, title="x", **other), "push").id)
        assert found is not None
        assert not await store.newer_sent(found)
    in_app = await store.delivery(f"{sending.notification.id}-in_app")
    assert in_app is not None
    assert not await store.newer_sent(in_app)


# ── Batches ──


async def batch(store: SqlStore, many: int = 3) -> list[str]:
    """The emails of as many messages in a chat."""
    plans = [await written(store, now=NOW + at, type="chat", title=f"message {at}") for at in range(many)]
    return [channel(plan, "email").id for plan in plans]


async def labels(store: SqlStore, ids: list[str]) -> list[str]:
    return [(await status_of(store, one))[0] for one in ids]


async def test_the_first_that_is_begun_takes_its_batch_along(store: SqlStore) -> None:
    ids = await batch(store)
    await batch_of_another(store)
    found = await store.begin(ids[1], 1, LATER)
    assert found is not None
    assert [one.delivery.id for one in found.along] == [ids[0], ids[2]]
    assert await labels(store, ids) == ["processing"] * 3
    other = await store.begin(ids[0], 1, LATER)
    assert other is not None
    assert other.led
    assert not found.led
    assert not await store.change(ids[0], 1, Change("sent"), LATER)
    assert await store.change(ids[1], 1, Change("sent"), LATER)
    assert await labels(store, ids) == ["sent"] * 3
    assert await store.begin(ids[0], 1, LATER) is None


async def of_eve(store: SqlStore, like: Plan, now: int) -> Plan:
    """A notification of Eve's whose context is so made that its keys are those of Ada's: they are short hashes."""
    mine = planned(now, recipient="eve", type=like.notification.type, title="Eve's own")
    theirs = {one.channel: one.batch_key for one in like.deliveries}
    forged = Plan(
        replace(mine.notification, group_key=like.notification.group_key),
        tuple(replace(one, batch_key=theirs[one.channel]) for one in mine.deliveries),
    )
    (kept,) = await store.write([forged], now=now, held_until=now + DAY)
    return kept


async def test_nobody_elses_goes_along_or_is_superseded_whatever_the_keys_are(store: SqlStore) -> None:
    await store.save_profile(profile("eve"))
    adas = await written(store, type="chat")
    eves = channel(await of_eve(store, adas, LATER), "email")
    found = await store.begin(eves.id, 1, LATER)
    assert found is not None
    assert found.along == ()
    assert await store.change(eves.id, 1, Change("sent"), LATER)
    own = await store.begin(channel(adas, "email").id, 1, LATER)
    assert own is not None
    assert not own.led
    assert not await store.newer_sent(own.sending)


async def batch_of_another(store: SqlStore) -> None:
    await store.save_profile(profile("grace", subscriptions=()))
    await written(store, type="chat", recipient="grace")
    await written(store, type="chat", context="doc-2")


async def test_those_of_a_batch_that_are_begun_at_once_have_one_lead(place: tuple[str, Opener]) -> None:
    async with await place[1]() as one, await place[1]() as other:
        await one.save_profile(profile())
        ids = await batch(one, 6)
        begun = await asyncio.gather(*((one, other)[at % 2].begin(ids[at], 1, LATER) for at in range(6)))
        assert all(begun)
        (lead,) = (found for found in begun if found and not found.led)
        assert len(lead.along) == 5


async def test_a_batch_is_retried_as_one_and_takes_along_what_came_meanwhile(store: SqlStore) -> None:
    first, second = await batch(store, 2)
    await store.begin(first, 1, LATER)
    assert await store.change(first, 1, Change("pending", error="421", due_at=LATER), LATER)
    assert await labels(store, [first, second]) == ["retrying"] * 2
    led = await store.begin(second, 1, LATER)
    assert led is not None
    assert led.led
    third = channel(await written(store, type="chat", title="third"), "email").id
    found = await store.begin(first, 2, LATER)
    assert found is not None
    assert {one.delivery.id for one in found.along} == {second, third}
    assert await store.change(first, 2, Change("dead", error="421"), LATER)
    assert await labels(store, [first, second, third]) == ["dead"] * 3


async def test_some_of_a_batch_can_be_left_out(store: SqlStore) -> None:
    first, second, third = await batch(store)
    await store.begin(first, 1, LATER)
    assert await store.change(first, 1, Change("skipped", "already_read"), LATER, only=[second])
    assert await labels(store, [first, second, third]) == ["processing", "skipped", "processing"]
    assert await store.change(first, 1, Change("skipped", "already_read"), LATER, only=[first])
    assert await labels(store, [first, second, third]) == ["skipped", "skipped", "pending"]
    found = await store.begin(third, 1, LATER)
    assert found is not None
    assert found.along == ()


async def test_one_of_a_batch_that_is_withdrawn_meanwhile_stays_so(store: SqlStore) -> None:
    first, second, third = await batch(store)
    await store.begin(first, 1, LATER)
    assert await store.cancel(second, LATER)
    assert await store.change(first, 1, Change("sent"), LATER)
    assert await labels(store, [first, second, third]) == ["sent", "cancelled", "sent"]


@pytest.mark.parametrize("end", ["cancel", "give_up", "quiet"])
async def test_a_batch_that_loses_its_lead_waits_again_each_for_itself(store: SqlStore, end: str) -> None:
    first, second = await batch(store, 2)
    await store.begin(first, 1, LATER)
    if end == "cancel":
        assert await store.cancel(first, LATER)
    elif end == "give_up":
        assert await store.give_up(first, "gone", LATER + 1, LATER + 1)
    else:
        assert await store.change(first, 1, Change("scheduled", "quiet_hours", due_at=LATER), LATER)
    found = await store.begin(second, 1, LATER)
    assert found is not None
    assert not found.led


async def test_a_storm_moves_a_delivery_into_a_batch(store: SqlStore) -> None:
    one, other = await begun(store, title="1"), await begun(store, title="2")
    for delivery in (one, other):
        assert await store.change(delivery.id, 1, Change("scheduled", "storm", due_at=LATER, batch_key="storm"), LATER)
    found = await store.begin(one.id, 2, LATER)
    assert found is not None
    assert [along.delivery.id for along in found.along] == [other.id]


# ── The log ──


async def test_the_log_lists_newest_first_and_filters(store: SqlStore) -> None:
    await batch_of_another(store)
    plan = await written(store, now=LATER)
    listed = await store.deliveries(DeliveryFilter(), 100)
    assert len(listed) == 9
    assert [one.delivery.created_at for one in listed[:3]] == [LATER] * 3
    pages, last = [], ""
    while page := await store.deliveries(DeliveryFilter(), 4, before=last):
        pages += page
        last = page[-1].delivery.id
    assert pages == listed
    for wanted, many in (
        (DeliveryFilter(recipient="grace"), 3),
        (DeliveryFilter(channel="push"), 3),
        (DeliveryFilter(notification_id=plan.notification.id), 3),
        (DeliveryFilter(label="scheduled"), 3),
        (DeliveryFilter(label="scheduled", channel="push"), 0),
    ):
        assert len(await store.deliveries(wanted, 100)) == many


# ── The inbox ──


async def test_an_inbox_counts_what_is_neither_read_nor_archived(store: SqlStore) -> None:
    plans = [await written(store, title=f"{number}") for number in range(3)]
    entries = [await store.put_in_inbox(plan.notification, NOW) for plan in plans]
    assert await store.put_in_inbox(plans[0].notification, LATER) == entries[0]
    assert await store.inbox("ada", 10) == entries[::-1]
    numbers = [entry.number for entry in entries if entry]
    assert await store.inbox("ada", 1, before=numbers[2]) == [entries[1]]
    ids = [plan.notification.id for plan in plans]
    assert await store.mark_inbox("grace", "read", ids, NOW) == 0
    assert await store.mark_inbox("ada", "read", [ids[0], "x"], LATER) == 1
    assert await store.mark_inbox("ada", "read", [ids[0]], LATER) == 0
    assert await store.unread("ada") == 2
    assert await store.is_read(ids[0])
    assert not await store.is_read(ids[1])
    assert await store.mark_inbox("ada", "archive", [ids[1]], LATER) == 1
    assert await store.is_read(ids[1])
    assert [entry.notification.id for entry in await store.inbox("ada", 10)] == [ids[2], ids[0]]
    assert [entry.notification.id for entry in await store.inbox("ada", 10, unread=True)] == [ids[2]]
    assert [entry.archived_at for entry in await store.inbox("ada", 10, archived=True)] == [LATER]
    assert await store.mark_inbox("ada", "read", None, LATER) == 2
    assert await store.mark_inbox("ada", "archive", None, LATER) == 2
    assert await store.unread("ada") == 0
    assert await store.mark_inbox("ada", "unarchive", None, LATER) == 3
    assert await store.mark_inbox("ada", "unread", None, LATER) == 3
    assert await store.unread("ada") == 3
    assert await store.unread("grace") == 0


# ── Caps and tokens ──


async def test_places_under_a_cap_are_taken_and_never_given_twice(place: tuple[str, Opener]) -> None:
    async with await place[1]() as one, await place[1]() as other:
        took = await asyncio.gather(
            *((one, other)[number % 2].take_place("ada/chat/email", 7, 3, f"d{number}") for number in range(8))
        )
        assert sum(took) == 3
        assert [await one.take_place("ada/chat/email", 7, 3, f"d{number}") for number in range(8)] == took
        assert await one.take_place("ada/chat/email", 8, 1, "d9")
        assert await one.take_place("grace/chat/email", 7, 1, "d9")
        assert not await one.take_place("grace/chat/email", 9, 0, "d9")


async def test_a_token_counts_its_uses_until_its_time_is_over(store: SqlStore) -> None:
    token = Token("t1", "click", "d1", "ada", "chat", "email", LATER, target="https://example.com")
    await store.add_tokens([token, replace(token, token="t2", kind="open", target="")])
    await store.add_tokens([replace(token, target="https://evil.example")])
    assert await store.use_token("t1", NOW) == replace(token, used_at=NOW, uses=1)
    assert await store.use_token("t1", NOW + 1) == replace(token, used_at=NOW, uses=2)
    assert await store.use_token("t1", LATER) is None
    assert await store.use_token("t3", NOW) is None


# ── Keeping house ──


async def test_what_is_kept_long_enough_goes_in_portions(store: SqlStore) -> None:
    plans = [await written(store, context=f"{number}") for number in range(3)]
    for number, status in enumerate(("failed", "dead", "sent")):
        for delivery in plans[number].deliveries:
            await store.begin(delivery.id, 1, NOW)
            assert await store.change(delivery.id, 1, Change(status), NOW)  # type: ignore[arg-type]
    await store.put_in_inbox(plans[2].notification, NOW)
    assert await store.drop("dead", NOW, 100) == 0
    assert [await store.drop("dead", NOW + 1, 4) for _ in range(3)] == [4, 2, 0]
    assert await store.notification(plans[0].notification.id) is None
    assert await store.drop("settled", NOW + 1, 100) == 3
    assert await store.inbox("ada", 10) != []
    assert await store.drop("inbox", NOW + 1, 100) == 1
    assert await store.notification(plans[2].notification.id) is None
    assert await store.drop("keys", NOW + DAY + 1, 2) == 2
    assert await store.drop("keys", NOW + DAY + 1, 2) == 1


async def test_tokens_places_and_work_go_when_their_time_is_over(store: SqlStore) -> None:
    await store.set_working_on("ada", "doc-1", NOW)
    assert [await store.drop("work", before, 9) for before in (NOW, NOW + 1)] == [0, 1]
    found = await store.profile("ada")
    assert found is not None
    assert found.working_on == {}
    await store.add_tokens([Token("t1", "open", "d1", "ada", "chat", "email", NOW)])
    assert [await store.drop("tokens", before, 9) for before in (NOW, NOW + 1)] == [0, 1]
    hour = NOW // 3_600_000
    await store.take_place("ada", hour, 1, "d1")
    assert [await store.drop("places", before, 9) for before in (NOW + 3_599_999, NOW + 3_600_000)] == [0, 1]
