"""The links of a message: every attempt makes the same ones, in whatever process and on either store."""

import asyncio
from dataclasses import replace

import pytest

from leaseway_notify.links import LinkOptions, Links
from leaseway_notify.message import Message
from leaseway_notify.stores.store import SqlStore
from leaseway_notify.unsubscribe import Unsubscribe
from support.notify_stores import DAY, NOW, Opener, planned

NOTIFICATION = planned(payload={"url": "/t/1"}).notification
MESSAGE = Message("n1-email", "mention", "", "normal", (NOTIFICATION, replace(NOTIFICATION, payload={})), 2)


async def test_a_store_makes_its_secret_once_whoever_asks_first(place: tuple[str, Opener]) -> None:
    async with await place[1]() as one, await place[1]() as other:
        secrets = await asyncio.gather(one.secret(), other.secret(), one.secret(), other.secret())
    assert len(set(secrets)) == 1
    assert len(secrets[0]) == 32


@pytest.mark.parametrize("tracking", [False, True])
async def test_each_attempt_makes_the_same_links(store: SqlStore, tracking: bool) -> None:
    links = Links(store, await store.secret(), LinkOptions("https://app.example/n", tracking))
    first, second = await links.of(MESSAGE), await links.of(MESSAGE)
    assert first == second
    assert bool(first.opened) is tracking
    assert first.entries[1] == ""
    assert first.entries[0].startswith("https://app.example/n/c/" if tracking else "https://app.example/t/1")
    assert first.unsubscribe.startswith("https://app.example/n/u/")
    assert first.preferences.startswith("https://app.example/n/p/")


async def test_the_link_to_preferences_ends_as_other_tokens_do(store: SqlStore) -> None:
    secret = await store.secret()
    links = await Links(store, secret, LinkOptions("https://app.example")).of(MESSAGE)
    for link, kind, days in ((links.preferences, "", 30), (links.unsubscribe, "mention", 365)):
        token = link.rpartition("/")[2]
        said = Unsubscribe.read(token, secret, NOW + (days - 1) * DAY)
        assert said is not None
        assert (said.recipient, said.type) == ("ada", kind)
        assert Unsubscribe.read(token, secret, NOW + (days + 1) * DAY) is None


async def test_a_link_of_the_first_attempt_ends_when_it_would_have(store: SqlStore) -> None:
    times = iter((NOW / 1000, NOW / 1000 + 3_600))
    links = Links(store, await store.secret(), LinkOptions("https://app.example", True), clock=times.__next__)
    (opened,) = {(await links.of(MESSAGE)).opened.rpartition("/")[2] for _ in range(2)}
    found = await store.use_token(opened, NOW)
    assert found is not None
    assert found.expires_at == NOW + 30 * DAY


def test_what_a_recipients_id_holds_comes_back_from_a_link() -> None:
    for recipient in ("ada", "ada.lovelace@example.org", "東京/1", 'a"b\\c'):
        said = Unsubscribe(recipient, "mention", "email", NOW + DAY)
        assert Unsubscribe.read(said.token(b"secret"), b"secret", NOW) == said
