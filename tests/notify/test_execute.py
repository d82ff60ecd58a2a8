"""Attempts at deliveries, with a real store and a real mail server: what is looked at before, and what comes of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from leaseway_notify import caps
from leaseway_notify.classify import Kind
from leaseway_notify.delivery import Delivery
from leaseway_notify.execute import Again, Done, Failed, Wait
from leaseway_notify.policy import MINUTE
from leaseway_notify.profile import Mute, Preferences, QuietHours
from leaseway_notify.rules import Rules
from leaseway_notify.settings import HOUR
from leaseway_notify.stores import deliveries
from leaseway_notify.unsubscribe import Unsubscribe
from leaseway_notify.vapid import new_key
from support.browser_keys import Browser
from support.execution_scene import Scene, execution_scene
from support.faulty_notify_store import Faulty
from support.notify_stores import profile
from support.web_service import always, web_service

SENT = Done("sent")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Without tables of its own."""
    async with execution_scene(tmp_path) as scene:
        yield scene


async def batch(scene: Scene, many: int, kind: str = "mention", **members: Any) -> list[Delivery]:
    """Deliveries with one batch key, all of them due."""
    found = []
    for number in range(many):
        found.append(await scene.plan(type=kind, title=f"Title {number}", **members))
        scene.now += 1_000
    scene.now += HOUR
    return found


def titles(scene: Scene, number: int = -1) -> list[str]:
    """Those of a mail, in order."""
    body = scene.mails[number].get_body(("plain",))
    assert body is not None
    return [line for line in body.get_content().splitlines() if line.startswith("Title")]


# ── On each channel ──


async def test_an_inbox_gets_a_notification_once_and_open_pages_are_told(scene: Scene) -> None:
    delivery = await scene.plan("in_app")
    assert await scene.attempt(delivery) == Done("delivered")
    assert [entry.notification.id for entry in scene.announced] == [delivery.notification_id]
    assert await scene.store.unread("ada") == 1
    assert await scene.attempt(delivery) == Done("delivered")
    assert await scene.store.unread("ada") == 1


async def test_a_mail_is_sent_and_what_the_server_said_is_kept(scene: Scene) -> None:
    delivery = await scene.plan(type="system", payload={"url": "/t/1"})
    assert await scene.attempt(delivery) == SENT
    (mail,) = scene.mails
    assert mail["Message-ID"] == f"<{delivery.id}@app.example>"
    assert (await scene.of(delivery)).detail == "OK: taken"
    assert await scene.attempt(delivery) == SENT
    assert len(scene.mails) == 1
    assert mail["List-Unsubscribe"].startswith("<http://127.0.0.1:8790/u/")
    body = mail.get_body(("html",))
    assert body is not None
    assert 'href="http://127.0.0.1:8790/t/1"' in body.get_content()
    assert "<img" not in body.get_content()


@pytest.mark.parametrize("url", ["/t/1", "https://elsewhere.example/x"])
async def test_tracking_leads_by_way_of_the_service_and_ends_after_its_time(tmp_path: Path, url: str) -> None:
    async with execution_scene(tmp_path, email={"tracking": True}) as scene:
        delivery = await scene.plan(type="system", payload={"url": url})
        await scene.attempt(delivery)
        body = scene.mails[0].get_body(("html",))
        assert body is not None
        html = body.get_content()
        tokens = {path: html.partition(f"http://127.0.0.1:8790/{path}/")[2][:32] for path in ("o", "c")}
        opened, clicked = [await scene.store.use_token(token, scene.now) for token in tokens.values()]
        assert opened is not None
        assert (opened.kind, opened.delivery_id) == ("open", delivery.id)
        assert clicked is not None
        assert clicked.target == (url if "://" in url else f"http://127.0.0.1:8790{url}")
        assert clicked.expires_at == opened.expires_at
        assert await scene.store.use_token(tokens["c"], clicked.expires_at) is None


async def test_a_channel_that_is_not_configured_fails_at_once(scene: Scene) -> None:
    delivery = await scene.plan("push")
    ending = await scene.attempt(delivery)
    assert isinstance(ending, Failed)
    assert ending.fault.kind is Kind.BAD_CONFIGURATION
    assert (await scene.of(delivery)).status == "failed"


# ── What is looked at before ──


async def test_a_push_without_a_subscription_is_skipped(scene: Scene) -> None:
    delivery = await scene.plan("push")
    await scene.store.save_profile(profile(subscriptions=()))
    assert await scene.attempt(delivery) == Done("skipped", "push_subscription_revoked")


async def test_quiet_hours_that_were_set_meanwhile_hand_it_back_until_they_end(scene: Scene) -> None:
    delivery = await scene.plan(type="system")
    quiet = Preferences(quiet_hours=QuietHours(time(23), time(7)))
    await scene.store.save_profile(profile(preferences=quiet))
    assert await scene.attempt(delivery) == Wait(7 * 3600.0)
    assert await scene.told(delivery) == ("scheduled", "quiet_hours")
    assert not scene.mails
    assert await scene.attempt(delivery) == Wait(7 * 3600.0)
    scene.now += 7 * HOUR
    assert await scene.attempt(delivery) == SENT


async def test_what_is_urgent_and_an_inbox_know_no_quiet_hours(scene: Scene) -> None:
    urgent, inbox = await scene.plan(type="security"), await scene.plan("in_app", title="another")
    quiet = Preferences(quiet_hours=QuietHours(time(23), time(7)))
    await scene.store.save_profile(profile(preferences=quiet))
    assert await scene.attempt(urgent) == SENT
    assert await scene.attempt(inbox) == Done("delivered")


async def test_it_is_not_sent_before_it_is_due(scene: Scene) -> None:
    delivery = await scene.plan(type="mention")
    assert await scene.attempt(delivery) == Wait(120.0)
    assert await scene.told(delivery) == ("scheduled", "batch")
    scene.now += 120_000
    assert await scene.attempt(delivery) == SENT


@pytest.mark.parametrize(("kind", "sent"), [("chat", False), ("mention", False), ("comment", True)])
async def test_a_mail_about_what_was_read_is_skipped_for_some_types(scene: Scene, kind: str, sent: bool) -> None:
    (delivery,) = await batch(scene, 1, kind)
    inbox = await scene.store.delivery(f"{delivery.notification_id}-in_app")
    assert inbox is not None
    await scene.attempt(inbox.delivery)
    await scene.store.mark_inbox("ada", "read", [delivery.notification_id], scene.now)
    assert await scene.attempt(delivery) == (SENT if sent else Done("skipped", "already_read"))
    assert len(scene.mails) == sent


async def test_one_chat_mail_an_hour_whoever_is_quicker(scene: Scene) -> None:
    rooms = [(await batch(scene, 1, "chat", context=f"room-{number}"))[0] for number in range(4)]
    endings = await asyncio.gather(*map(scene.attempt, rooms))
    assert sorted(str(ending) for ending in endings) == sorted(map(str, [SENT, *[Done("skipped", "hourly_cap")] * 3]))
    assert len(scene.mails) == 1
    scene.now += HOUR
    (later,) = await batch(scene, 1, "chat", context="room-9")
    assert await scene.attempt(later) == SENT


async def test_a_retry_keeps_its_place_in_the_hour(scene: Scene) -> None:
    (delivery,) = await batch(scene, 1, "chat")
    scene.room.answer = lambda: "451 later"
    assert isinstance(await scene.attempt(delivery), Again)
    scene.room.answer = lambda: "250 OK"
    assert await scene.attempt(delivery) == SENT


async def test_what_something_newer_was_sent_after_is_skipped(scene: Scene) -> None:
    older = await scene.plan(type="system", context="doc-1", title="one")
    inbox = await scene.store.delivery(f"{older.notification_id}-in_app")
    scene.now += 1
    newer = await scene.plan(type="system", context="doc-1", title="two")
    other = await scene.plan(type="system", context="doc-2", title="two")
    assert await scene.attempt(newer) == SENT
    assert await scene.attempt(older) == Done("skipped", "superseded")
    assert await scene.attempt(other) == SENT
    assert inbox is not None
    newer_inbox = await scene.store.delivery(f"{newer.notification_id}-in_app")
    assert newer_inbox is not None
    await scene.attempt(newer_inbox.delivery)
    assert await scene.attempt(inbox.delivery) == Done("delivered")


# ── What the recipient says meanwhile ──


@pytest.mark.parametrize(
    "preferences",
    [
        Preferences(disabled=frozenset({"email"})),
        Preferences(mutes=(Mute(type="system"),)),
        Preferences(mutes=(Mute(context="doc-1", channel="email"),)),
    ],
)
async def test_an_unsubscribe_counts_at_once(scene: Scene, preferences: Preferences) -> None:
    delivery, urgent = await scene.plan(type="system"), await scene.plan(type="security", title="A new login")
    await scene.store.change_preferences("ada", lambda _: preferences)
    assert await scene.attempt(delivery) == Done("skipped", "unsubscribed")
    disabled = bool(preferences.disabled)
    assert await scene.attempt(urgent) == (Done("skipped", "unsubscribed") if disabled else SENT)


async def test_the_link_of_a_mail_unsubscribes_whenever_it_is_followed(scene: Scene) -> None:
    await scene.attempt(await scene.plan(type="system"))
    token = scene.mails[0]["List-Unsubscribe"].rpartition("/")[2].rstrip(">")
    secret, later = await scene.store.secret(), scene.now + 360 * 24 * HOUR
    assert Unsubscribe.read(token, secret, later + 6 * 24 * HOUR) is None
    said = Unsubscribe.read(token, secret, later)
    assert said is not None
    assert (said.recipient, said.type, said.channel) == ("ada", "system", "email")
    for _ in range(2):
        preferences = await scene.store.change_preferences("ada", said.mute)
        assert preferences is not None
        assert preferences.mutes == (Mute(type="system", channel="email"),)
    assert await scene.attempt(await scene.plan(type="system", title="another")) == Done("skipped", "unsubscribed")
    await scene.store.change_preferences("ada", said.unmute)
    assert await scene.attempt(await scene.plan(type="system", title="a third")) == SENT
    other = scene.mails[1]["List-Unsubscribe"].rpartition("/")[2].rstrip(">")
    assert other == token


async def test_a_mail_that_nobody_can_refuse_has_no_link_to_unsubscribe_by(scene: Scene) -> None:
    assert await scene.attempt(await scene.plan(type="security")) == SENT
    (mail,) = scene.mails
    assert "List-Unsubscribe" not in mail
    assert "List-Unsubscribe-Post" not in mail
    assert "No more mails" not in str(mail)
    assert "All settings" in str(mail)


@pytest.mark.parametrize(
    "spoil", [lambda token: token[1:], lambda token: f"{token[:-1]}x", lambda _: "", lambda _: "ü.ü"]
)
async def test_a_link_that_is_none_of_ours_unsubscribes_nobody(spoil: Callable[[str], str]) -> None:
    token = Unsubscribe("ada", "system", "email", 2**52).token(b"secret")
    assert Unsubscribe.read(token, b"secret", 0) is not None
    assert Unsubscribe.read(spoil(token), b"secret", 0) is None
    assert Unsubscribe.read(token, b"other", 0) is None


async def test_an_unsubscribe_counts_while_a_send_is_under_way(scene: Scene) -> None:
    """The server takes its time and then wants to be asked again: it is not."""
    delivery = await scene.plan(type="system")
    unsubscribed = asyncio.Event()

    async def answer() -> str:
        await unsubscribed.wait()
        return "451 later"

    scene.room.answer = answer
    sending = asyncio.create_task(scene.attempt(delivery))
    await scene.room.arrived.wait()
    await scene.store.change_preferences("ada", lambda _: Preferences(mutes=(Mute(type="system"),)))
    unsubscribed.set()
    assert isinstance(await sending, Again)
    assert await scene.attempt(delivery) == Done("skipped", "unsubscribed")
    assert len(scene.mails) == 1


async def test_without_an_address_and_without_a_profile_nothing_is_sent(scene: Scene) -> None:
    delivery = await scene.plan(type="system")
    await scene.store.save_profile(profile(address=""))
    assert await scene.attempt(delivery) == Done("skipped", "no_address")
    await scene.store.save_profile(profile("eve"))
    nobody = await scene.plan(type="system", recipient="eve")
    await scene.store._database.do(lambda session: session.run("forget_recipient", "eve"))
    assert await scene.attempt(nobody) == Done("skipped", "unsubscribed")
    await scene.store.save_profile(profile(address="no address"))
    ending = await scene.attempt(await scene.plan(type="system", title="another"))
    assert isinstance(ending, Failed)
    assert ending.fault.kind is Kind.BAD_ADDRESS


async def test_a_cancel_counts_while_a_send_is_under_way(scene: Scene) -> None:
    delivery = await scene.plan(type="system")

    async def answer() -> str:
        await scene.store.cancel(delivery.id, scene.now)
        return "250 OK"

    scene.room.answer = answer
    assert await scene.attempt(delivery) == Done("cancelled")
    assert (await scene.of(delivery)).status == "cancelled"


# ── Batches ──


async def test_a_batch_is_one_mail_and_settles_all_of_it(scene: Scene) -> None:
    members = await batch(scene, 3)
    assert await scene.attempt(members[1]) == SENT
    assert [await scene.attempt(one) for one in members] == [SENT] * 3
    assert len(scene.mails) == 1
    assert titles(scene) == ["Title 0", "Title 1", "Title 2"]
    assert scene.mails[0]["Subject"] == "3 new: Title 2"


async def test_what_comes_after_a_batch_is_another_mail(scene: Scene) -> None:
    await scene.attempt((await batch(scene, 2))[0])
    (later,) = await batch(scene, 1, body="later")
    assert await scene.attempt(later) == SENT
    assert titles(scene) == ["Title 0"]


async def test_who_is_taken_along_waits_for_who_takes_it(scene: Scene) -> None:
    first, second = await batch(scene, 2)
    taken = asyncio.Event()

    async def answer() -> str:
        await taken.wait()
        return "250 OK"

    scene.room.answer = answer
    sending = asyncio.create_task(scene.attempt(first))
    await scene.room.arrived.wait()
    assert await scene.attempt(second) == Wait(60.0)
    taken.set()
    assert await sending == SENT
    assert await scene.attempt(second) == SENT
    assert len(scene.mails) == 1


@pytest.mark.parametrize("read", [[0], [1], [2], [0, 1], [1, 2]])
@pytest.mark.parametrize("leader", [0, 2])
async def test_what_was_read_meanwhile_is_left_out_of_a_batch(scene: Scene, read: list[int], leader: int) -> None:
    members = await batch(scene, 3)
    for number in read:
        inbox = await scene.store.delivery(f"{members[number].notification_id}-in_app")
        assert inbox is not None
        await scene.attempt(inbox.delivery)
        await scene.store.mark_inbox("ada", "read", [members[number].notification_id], scene.now)
    await scene.attempt(members[leader])
    assert titles(scene) == [f"Title {number}" for number in range(3) if number not in read]
    for number, member in enumerate(members):
        assert await scene.told(member) == (("skipped", "already_read") if number in read else ("sent", ""))
    assert len(scene.mails) == 1


async def test_a_batch_that_may_have_been_sent_stays_as_it_is(scene: Scene) -> None:
    """Under its key a provider takes a mail once: what came since would be lost in it."""
    first, second = await batch(scene, 2)
    scene.room.answer = lambda: "451 later"
    assert isinstance(await scene.attempt(first), Again)
    late = await scene.plan(type="mention", title="Title 9")
    scene.now += HOUR
    inbox = await scene.store.delivery(f"{second.notification_id}-in_app")
    assert inbox is not None
    await scene.attempt(inbox.delivery)
    await scene.store.mark_inbox("ada", "read", [second.notification_id], scene.now)
    scene.room.answer = lambda: "250 OK"
    assert await scene.attempt(first) == SENT
    assert titles(scene, 0) == titles(scene, 1) == ["Title 0", "Title 1"]
    assert scene.mails[0]["Message-ID"] == scene.mails[1]["Message-ID"]
    assert await scene.attempt(second) == SENT
    assert await scene.attempt(late) == SENT
    assert titles(scene, 2) == ["Title 9"]


@pytest.mark.parametrize("trouble", ["the server", "the store"])
async def test_a_leader_that_was_read_before_leads_the_others_in_every_attempt(
    scene: Scene, faulty: Faulty, trouble: str
) -> None:
    members = await batch(scene, 3)
    inbox = await scene.store.delivery(f"{members[0].notification_id}-in_app")
    assert inbox is not None
    await scene.attempt(inbox.delivery)
    await scene.store.mark_inbox("ada", "read", [members[0].notification_id], scene.now)
    scene.room.answer = lambda: "451 later" if trouble == "the server" else "250 OK"
    faulty.away["change"] = [trouble == "the store"]
    assert isinstance(await scene.attempt(members[0]), Again if trouble == "the server" else Wait)
    scene.room.answer = lambda: "250 OK"
    assert await scene.attempt(members[0]) == Done("skipped", "already_read")
    assert [await scene.told(one) for one in members] == [("skipped", "already_read"), ("sent", ""), ("sent", "")]
    assert titles(scene) == ["Title 1", "Title 2"]
    assert len(scene.mails) == (2 if trouble == "the server" else 1)


async def test_of_very_many_the_newest_are_shown(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, rules=Rules(shown=2)) as scene:
        members = await batch(scene, 5)
        assert await scene.attempt(members[0]) == SENT
        assert titles(scene) == ["Title 3", "Title 4"]
        assert scene.mails[0]["Subject"] == "5 new: Title 4"
        assert {await scene.told(member) for member in members} == {("sent", "")}


async def test_a_digest_is_one_mail_whatever_it_is_about(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 2}) as scene:
        news = [await scene.plan(type="digest", title=f"Title {n}", context=f"doc-{n % 3}") for n in range(6)]
        other = await scene.plan(type="system", title="Of another type", context="doc-0")
        scene.now += 8 * HOUR
        assert [await scene.attempt(one) for one in news] == [SENT] * 6
        assert await scene.attempt(other) == SENT
        assert [mail["Subject"] for mail in scene.mails] == ["6 new: Title 5", "Of another type"]


async def test_what_a_digest_cannot_hold_comes_in_the_next(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MOST_ALONG", 2)
    news = []
    for number in range(5):
        news.append(await scene.plan(type="digest", title=f"Title {number}", context=f"doc-{number % 2}"))
        scene.now += 1_000
    scene.now += 8 * HOUR
    assert await scene.attempt(news[4]) == SENT
    assert titles(scene) == ["Title 0", "Title 1", "Title 4"]
    assert await scene.attempt(news[2]) == SENT
    assert titles(scene) == ["Title 2", "Title 3"]


# ── Storms ──


async def test_a_storm_becomes_a_digest(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 2, "within": "10m", "digest_after": "1h"}) as scene:
        storm = [await scene.plan(type="system", title=f"Title {n}", context=f"doc-{n}") for n in range(6)]
        endings = await asyncio.gather(*map(scene.attempt, storm))
        assert sorted(map(str, endings)) == sorted(map(str, [SENT] * 2 + [Wait(3600.0)] * 4))
        urgent = await scene.plan(type="security", title="A new login")
        assert await scene.attempt(urgent) == SENT
        waiting = [one for one in storm if await scene.told(one) == ("scheduled", "storm")]
        assert len(waiting) == 4
        assert [await scene.attempt(one) for one in waiting] == [Wait(3600.0)] * 4
        scene.now += HOUR
        assert [await scene.attempt(one) for one in waiting] == [SENT] * 4
        assert len(scene.mails) == 4
        assert len(titles(scene)) == 4


async def test_a_digest_of_a_storm_holds_only_what_is_still_wanted(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 1, "within": "10m", "digest_after": "1h"}) as scene:
        storm = [await scene.plan(type="system", title=f"Title {n}", context=f"doc-{n}") for n in range(4)]
        for one in storm:
            await scene.attempt(one)
        await scene.store.change_preferences("ada", lambda _: Preferences(mutes=(Mute(context="doc-2"),)))
        scene.now += HOUR
        assert await scene.attempt(storm[1]) == SENT
        assert titles(scene) == ["Title 1", "Title 3"]
        assert await scene.told(storm[2]) == ("skipped", "unsubscribed")


async def test_a_digest_of_a_storm_waits_for_quiet_hours_and_stays_one(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 1, "within": "10m", "digest_after": "1h"}) as scene:
        storm = [await scene.plan(type="system", title=f"Title {n}", context="doc-1") for n in range(3)]
        for one in storm:
            await scene.attempt(one)
        quiet = Preferences(quiet_hours=QuietHours(time(0), time(5)))
        await scene.store.change_preferences("ada", lambda _: quiet)
        scene.now += HOUR
        assert await scene.attempt(storm[1]) == Wait(4 * 3600.0)
        scene.now += 4 * HOUR
        assert await scene.attempt(storm[2]) == SENT
        assert titles(scene) == ["Title 1", "Title 2"]


async def test_a_digest_of_a_storm_is_one_in_each_attempt(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 1, "within": "10m", "digest_after": "1h"}) as scene:
        storm = [await scene.plan(type="system", title=f"Title {n}", context=f"doc-{n}") for n in range(3)]
        for one in storm:
            await scene.attempt(one)
        scene.now += HOUR
        scene.room.answer = lambda: "451 later"
        assert isinstance(await scene.attempt(storm[1]), Again)
        scene.room.answer = lambda: "250 OK"
        scene.now += 10 * MINUTE
        assert await scene.attempt(await scene.plan(type="system", title="The last place")) == SENT
        assert await scene.attempt(storm[1]) == SENT
        assert titles(scene) == ["Title 1", "Title 2"]


async def test_of_a_flood_the_digest_has_what_it_can_hold_and_the_rest_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "DIGEST", 3)
    async with execution_scene(tmp_path, storm={"most": 2, "within": "10m", "digest_after": "1h"}) as scene:
        flood = [await scene.plan(type="system", title=f"Title {n}", context=f"doc-{n}") for n in range(9)]
        for one in flood:
            await scene.attempt(one)
        told = [await scene.told(one) for one in flood]
        assert told == [("sent", "")] * 2 + [("scheduled", "storm")] * 3 + [("skipped", "storm")] * 4


async def test_a_batch_takes_along_only_so_many(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MOST_ALONG", 2)
    members = await batch(scene, 5)
    assert await scene.attempt(members[0]) == SENT
    assert titles(scene) == ["Title 0", "Title 1", "Title 2"]
    assert await scene.attempt(members[4]) == SENT
    assert titles(scene) == ["Title 3", "Title 4"]


async def test_each_recipient_has_a_storm_of_their_own(tmp_path: Path) -> None:
    async with execution_scene(tmp_path, storm={"most": 1, "within": "10m", "digest_after": "1h"}) as scene:
        await scene.store.save_profile(profile("eve"))
        assert await scene.attempt(await scene.plan(type="system")) == SENT
        assert await scene.attempt(await scene.plan(type="system", recipient="eve")) == SENT
        scene.now += 10 * MINUTE
        assert await scene.attempt(await scene.plan(type="system", title="later")) == SENT


@pytest.mark.parametrize(("within", "first", "later"), [("2h", 0, 60), ("7m", 57, 5)])
async def test_a_storm_lasts_as_long_as_is_said_also_into_another_hour(
    tmp_path: Path, within: str, first: int, later: int
) -> None:
    async with execution_scene(tmp_path, storm={"most": 1, "within": within, "digest_after": "1h"}) as scene:
        scene.now += first * MINUTE
        assert await scene.attempt(await scene.plan(type="system")) == SENT
        scene.now += later * MINUTE
        assert await scene.attempt(await scene.plan(type="system", title="later")) == Wait(3600.0)


# ── Pushes ──


async def test_a_push_that_some_browsers_took_is_tried_again_at_the_others_alone(tmp_path: Path) -> None:
    answers = {"/a": 201, "/b": 503, "/c": 410}

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.Response(status=answers[request.path])

    new_key(tmp_path / "key.pem")
    push = {"keys": str(tmp_path / "key.pem"), "subject": "mailto:ops@app.example", "allow_private": True}
    async with web_service(answer) as service, execution_scene(tmp_path, push=push) as scene:
        browsers = {path: Browser() for path in answers}
        subscriptions = tuple(one.subscription(service.url + path, path) for path, one in browsers.items())
        await scene.store.save_profile(profile(subscriptions=subscriptions))
        delivery = await scene.plan("push", title="Bob mentioned you")
        assert isinstance(await scene.attempt(delivery), Again)
        left = await scene.store.profile("ada")
        assert left is not None
        assert [one.id for one in left.subscriptions] == ["/a", "/b"]
        answers["/b"] = 201
        assert await scene.attempt(delivery) == SENT
        assert (await scene.of(delivery)).detail == "browsers: 2"
        assert sorted(asked.path for asked in service.asked) == ["/a", "/b", "/b", "/c"]
        assert browsers["/b"].read(service.asked[-1])["title"] == "Bob mentioned you"
        answers.update({"/a": 410, "/b": 404})
        last = await scene.plan("push", title="another")
        assert await scene.attempt(last) == Done("skipped", "push_subscription_revoked")
        assert len(service.asked) == 6


async def test_a_push_to_a_private_address_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    new_key(tmp_path / "key.pem")
    push = {"keys": str(tmp_path / "key.pem"), "subject": "mailto:ops@app.example"}
    async with web_service(always(201)) as service, execution_scene(tmp_path, push=push) as scene:
        endpoint = service.url.replace("http:", "https:")
        await scene.store.save_profile(profile(subscriptions=(Browser().subscription(endpoint),)))
        ending = await scene.attempt(await scene.plan("push"))
    assert isinstance(ending, Failed)
    assert ending.fault.kind is Kind.FORBIDDEN_ENDPOINT
    assert not service.asked


# ── What fails ──


async def test_a_transient_fault_leaves_it_to_the_queue_when_it_is_tried_again(scene: Scene) -> None:
    delivery = await scene.plan(type="system")
    scene.room.answer = lambda: "451 try later"
    for failures in (1, 2):
        ending = await scene.attempt(delivery)
        assert isinstance(ending, Again)
        assert (ending.fault.kind, ending.seconds) == (Kind.UNAVAILABLE, None)
        now = await scene.of(delivery)
        assert (now.status, now.label, now.failures) == ("pending", "retrying", failures)
        assert now.error == "unavailable: 451 try later"
    scene.room.answer = lambda: "250 OK"
    assert await scene.attempt(delivery) == SENT
    assert {mail["Message-ID"] for mail in scene.mails} == {f"<{delivery.id}@app.example>"}


async def test_a_permanent_fault_is_told_at_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    delivery = await scene.plan(type="system")
    scene.room.answer = lambda: "554 no"
    ending = await scene.attempt(delivery)
    assert isinstance(ending, Failed)
    assert caplog.messages == [f"{delivery.id} failed: refused"]
    assert (await scene.of(delivery)).error == "refused: 554 no"
    assert await scene.attempt(delivery) == Done("failed")


async def test_a_broken_template_fails_at_once_and_tells_its_line(tmp_path: Path) -> None:
    (tmp_path / "system.html.j2").write_text("{{ nothing }}")
    async with execution_scene(tmp_path, email={"templates": str(tmp_path)}) as scene:
        delivery = await scene.plan(type="system")
        assert isinstance(await scene.attempt(delivery), Failed)
        told = (await scene.of(delivery)).error
        assert told == "broken_template: system.html.j2, line 1: 'nothing' is undefined"


async def test_what_the_queue_has_given_up_is_dead(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    delivery = await scene.plan(type="system")
    scene.room.answer = lambda: "451 later"
    await scene.attempt(delivery)
    await scene.execution.given_up(delivery.id, 1, "it was tried 8 times")
    now = await scene.of(delivery)
    assert (now.status, now.error) == ("dead", "it was tried 8 times")
    assert caplog.messages == [f"{delivery.id} is dead: its tries are spent"]
    assert await scene.attempt(delivery) == Done("dead")


async def test_a_type_that_nobody_knows_any_more_fails_at_once(tmp_path: Path) -> None:
    async with execution_scene(tmp_path) as scene:
        delivery = await scene.plan(type="system")
    async with execution_scene(tmp_path) as scene:
        del scene.execution._gate._policies._policies["system"]
        ending = await scene.attempt(delivery)
        assert isinstance(ending, Failed)
        assert ending.fault.kind is Kind.UNSUPPORTED_TYPE


@pytest.mark.parametrize(("said", "seconds"), [("60", None), ("600", 600.0), (str(365 * 86_400), 10_800.0)])
async def test_a_provider_may_ask_for_more_patience_than_the_queue_has(
    tmp_path: Path, said: str, seconds: float | None
) -> None:
    async with web_service(always(429, headers={"Retry-After": said})) as service:
        email = {"transport": "provider", "provider": service.url, "provider_key": "key"}
        async with execution_scene(tmp_path, email=email) as scene:
            ending = await scene.attempt(await scene.plan(type="system"))
    assert isinstance(ending, Again)
    assert (ending.fault.kind, ending.seconds) == (Kind.RATE_LIMITED, seconds)


# ── Fences, and a store that is away ──


async def test_an_attempt_that_lost_its_lease_settles_nothing(scene: Scene) -> None:
    delivery = await scene.plan(type="system")

    async def answer() -> str:
        await scene.store.begin(delivery.id, 2, scene.now)
        return "250 OK"

    scene.room.answer = answer
    assert isinstance(await scene.attempt(delivery), Wait)
    assert (await scene.of(delivery)).status == "processing"


async def test_an_attempt_with_an_older_number_waits_until_its_turn_comes(scene: Scene) -> None:
    delivery = await scene.plan(type="system")
    await scene.store.begin(delivery.id, 3, scene.now)
    assert [await scene.attempt(delivery) for _ in range(3)] == [Wait(60.0), Wait(60.0), SENT]


async def test_a_delivery_that_was_forgotten_is_no_fault(scene: Scene) -> None:
    delivery = replace(await scene.plan(type="system"), id="nothing")
    assert await scene.attempt(delivery) == Done("skipped", "forgotten")


@pytest.fixture
async def faulty(scene: Scene) -> Faulty:
    """The scene's store, which can be away."""
    store = Faulty(scene.store)
    execution, gate = scene.execution, scene.execution._gate
    execution._store, gate._store = store, store
    execution._rules = Rules(settle=0)
    return store


@pytest.mark.parametrize("verb", ["begin", "profile"])
async def test_a_store_that_is_away_costs_no_try(scene: Scene, faulty: Faulty, verb: str) -> None:
    delivery = await scene.plan(type="system")
    faulty.away[verb] = [True]
    assert await scene.attempt(delivery) == Wait(30.0)
    assert await scene.attempt(delivery) == SENT
    assert (await scene.of(delivery)).failures == 0
    assert len(scene.mails) == 1


@pytest.mark.parametrize("many", [1, 3])
async def test_what_was_sent_while_the_store_went_away_is_not_sent_again(
    scene: Scene, faulty: Faulty, many: int
) -> None:
    members = await batch(scene, many)
    faulty.away["change"] = [True]
    assert await scene.attempt(members[0]) == Wait(30.0)
    assert await scene.attempt(members[0]) == SENT
    assert {await scene.told(one) for one in members} == {("sent", "")}
    assert len(scene.mails) == 1


async def test_a_store_that_is_away_for_a_moment_is_asked_again(scene: Scene, faulty: Faulty) -> None:
    scene.execution._rules = Rules(settle=60_000)
    delivery = await scene.plan(type="system")
    faulty.away["change"] = [True, True]
    assert await scene.attempt(delivery) == SENT
    assert len(scene.mails) == 1
