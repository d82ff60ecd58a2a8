"""The service on either store: what programs and recipients ask, from the request to the database and back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from leaseway_notify.delivery import Change
from leaseway_notify.profile import Mute, Preferences
from leaseway_notify.stores.base import Token, TokenKind
from support.browser_keys import Browser
from support.notify_service import PUSH, Service, nobody_takes_mails, notify_service, problem, push_settings
from support.notify_stores import DAY, notify_store
from support.stores import KINDS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One for all tests of the file, which have recipients of their own."""
    folder = tmp_path_factory.mktemp("service")
    async with (
        notify_store(request.param, folder, lambda: request.getfixturevalue("postgres")) as (_, opener),
        notify_service(
            folder, opener, push=push_settings(folder), email=nobody_takes_mails(), worker={"in_flight": 1}
        ) as service,
    ):
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def bea(service: Service, request: pytest.FixtureRequest) -> str:
    """Somebody whom only this test has."""
    name = request.node.originalname
    await service.person(name)
    return str(name)


# ── Other programs ──


async def test_an_event_is_notified_and_said_what_became_of_it(service: Service, bea: str) -> None:
    said = await service.notify(recipient=bea, id="event-1")
    assert said["id"] == "event-1"
    assert {one["channel"]: (one["status"], one["reason"]) for one in said["deliveries"]} == {
        "in_app": ("pending", ""),
        "push": ("skipped", "suppressed"),
        "email": ("pending", ""),
    }
    again = await service.notify(recipient=bea, id="event-1")
    assert again["deliveries"][0]["id"] == said["deliveries"][0]["id"]
    assert (await service.notify(recipient=bea))["duplicateOf"] == "event-1"


async def test_an_array_is_taken_as_a_whole_or_not_at_all(service: Service, bea: str) -> None:
    events: list[dict[str, Any]] = [{"type": "system", "recipient": bea, "title": str(one)} for one in range(3)]
    answer = await service.programs.post("/notify", json=events)
    assert (answer.status_code, len(answer.json())) == (201, 3)
    del events[1]["title"]
    problem(await service.programs.post("/notify", json=events), 422, "schema", "1.title")
    listed = await service.programs.get("/deliveries", params={"recipient": bea, "channel": "in_app"})
    assert len(listed.json()["deliveries"]) == 3


async def test_a_profile_is_saved_and_preferences_stay(service: Service, bea: str) -> None:
    await service.store.change_preferences(bea, lambda _: Preferences(collaborating=True))
    said = {"address": "new@example.com", "name": "Bea", "zone": "Europe/Berlin"}
    answer = await service.programs.put(f"/profiles/{bea}", json=said)
    found = {**said, "id": bea, "browsers": 0}
    shown = answer.json()
    assert shown.pop("preferences")["collaborating"] is True
    assert shown == found
    assert (await service.programs.get(f"/profiles/{bea}")).json()["zone"] == "Europe/Berlin"


async def test_a_recipient_is_forgotten(service: Service, bea: str) -> None:
    await service.notify(recipient=bea)
    assert (await service.programs.delete(f"/profiles/{bea}")).status_code == 204
    problem(await service.programs.delete(f"/profiles/{bea}"), 404, "not-found")
    assert (await service.programs.get("/deliveries", params={"recipient": bea})).json() == {"deliveries": []}
    said = {"type": "system", "recipient": bea, "title": "x"}
    problem(await service.programs.post("/notify", json=said), 422, "unknown-recipient", "recipient")


async def test_that_somebody_is_at_work_is_kept(service: Service, bea: str) -> None:
    until = service.clock() + 60_000
    answer = await service.programs.put(f"/profiles/{bea}/work", json={"context": "doc-1", "until": until})
    assert answer.status_code == 204
    profile = await service.store.profile(bea)
    assert profile is not None
    assert profile.working_on == {"doc-1": until}
    problem(await service.programs.put(f"/profiles/{bea}/work", json={"context": "doc-1"}), 422, "schema", "until")
    there_is_none = await service.programs.put("/profiles/nobody/work", json={"context": "doc-1", "until": until})
    problem(there_is_none, 404, "not-found")


async def test_the_log_is_narrowed_and_paged(service: Service, bea: str) -> None:
    for number in range(3):
        await service.notify(recipient=bea, title=str(number))

    async def log(**asked: Any) -> list[Any]:
        answer = await service.programs.get("/deliveries", params={"recipient": bea, **asked})
        return list(answer.json()["deliveries"])

    first = await log(channel="email", limit=2)
    assert [one["title"] for one in first] == ["2", "1"]
    assert [one["title"] for one in await log(channel="email", before=first[-1]["id"])] == ["0"]
    assert {one["channel"] for one in await log(status="skipped")} == {"push"}
    assert len(await log(notification=first[0]["notificationId"])) == 3


async def test_failed_and_dead_are_shown_apart_and_begun_anew(service: Service, bea: str) -> None:
    ids = [(await service.notify(recipient=bea, title=title))["deliveries"][2]["id"] for title in ("a", "b")]
    for delivery, status in zip(ids, ("failed", "dead"), strict=True):
        await service.store.begin(delivery, 1, service.clock())
        await service.store.change(delivery, 1, Change(status, error=f"{status} it is"), service.clock())  # type: ignore[arg-type]
    shown = (await service.programs.get("/attention")).json()
    assert [[one["id"] for one in shown[status]] for status in ("failed", "dead")] == [[ids[0]], [ids[1]]]
    assert (shown["counts"], shown["dead"][0]["error"]) == ({"failed": 1, "dead": 1}, "dead it is")
    assert (await service.programs.post(f"/attention/{ids[1]}/retry")).json() == {"id": ids[1], "status": "pending"}
    problem(await service.programs.post(f"/attention/{ids[1]}/retry"), 409, "conflict")
    assert (await service.programs.get("/attention")).json()["counts"] == {"failed": 1, "dead": 0}
    assert (await service.programs.post(f"/attention/{ids[0]}/retry")).status_code == 200


# ── Recipients ──


async def test_the_inbox_is_listed_marked_and_counted(service: Service, bea: str) -> None:
    headers = service.headers(bea)
    ids = [(await service.notify(recipient=bea, title=str(one)))["id"] for one in range(3)]
    await service.drain()

    async def inbox(**asked: Any) -> Any:
        return (await service.http.get("/inbox", params=asked, headers=headers)).json()

    first = await inbox(limit=2)
    assert ([one["title"] for one in first["entries"]], first["unread"], first["known"]) == (["2", "1"], 3, True)
    assert [one["title"] for one in (await inbox(before=first["before"]))["entries"]] == ["0"]

    async def mark(verb: str, **said: Any) -> Any:
        return (await service.http.post(f"/inbox/{verb}", json=said, headers=headers)).json()

    assert await mark("read", ids=ids[:2]) == {"changed": 2, "unread": 1}
    assert [one["title"] for one in (await inbox(unread="true"))["entries"]] == ["2"]
    assert await mark("unread", ids=ids[:1]) == {"changed": 1, "unread": 2}
    assert await mark("archive", all=True) == {"changed": 3, "unread": 0}
    assert len((await inbox(archived="true"))["entries"]) == 3
    assert await mark("unarchive", ids=[ids[2]]) == {"changed": 1, "unread": 1}
    assert [one["id"] for one in (await inbox())["entries"]] == [ids[2]]
    headers = service.headers("nobody")
    assert await inbox() == {"entries": [], "unread": 0, "before": None, "known": False}


async def test_nobody_sees_or_marks_another_ones_inbox(service: Service, bea: str) -> None:
    said = await service.notify(recipient=bea)
    await service.drain()
    await service.person("eve")
    headers = service.headers("eve")
    assert (await service.http.get("/inbox", headers=headers)).json()["entries"] == []
    marked = await service.http.post("/inbox/read", json={"ids": [said["id"]]}, headers=headers)
    assert marked.json()["changed"] == 0
    assert await service.store.unread(bea) == 1


async def test_preferences_are_changed_by_their_owner(service: Service, bea: str) -> None:
    headers = service.headers(bea)
    wanted = {
        "disabled": ["push"],
        "mutes": [{"type": "chat", "context": "", "channel": "email", "until": 0}],
        "quietHours": {"start": "22:00", "end": "07:00"},
        "collaborating": True,
    }
    assert (await service.http.put("/preferences", json=wanted, headers=headers)).json() == wanted
    assert (await service.http.get("/preferences", headers=headers)).json() == wanted
    bad = await service.http.put("/preferences", json={"quietHours": {"start": "25:00"}}, headers=headers)
    problem(bad, 422, "schema", "quietHours.start")
    problem(
        await service.http.get("/preferences", headers=service.headers("no1")), 422, "unknown-recipient", "recipient"
    )
    problem(
        await service.http.put("/preferences", json={}, headers=service.headers("no1")),
        422,
        "unknown-recipient",
        "recipient",
    )


async def test_a_browser_is_subscribed_and_removed_by_its_owner(service: Service, bea: str) -> None:
    headers = service.headers(bea)
    assert (await service.http.get("/push", headers=headers)).json() == {"publicKey": service.served.site.push_key}
    one = Browser().subscription(PUSH)
    said = {"endpoint": PUSH, "expirationTime": None, "keys": {"p256dh": one.p256dh, "auth": one.auth}}
    for _ in range(2):
        answer = await service.http.post("/push/subscriptions", json=said, headers=headers)
        assert answer.status_code == 201
    profile = await service.store.profile(bea)
    assert profile is not None
    assert [(each.endpoint, each.id) for each in profile.subscriptions] == [(PUSH, answer.json()["id"])]

    async def removed(headers: dict[str, str]) -> Any:
        answer = await service.http.post("/push/subscriptions/remove", json={"endpoint": PUSH}, headers=headers)
        return answer.json()["removed"]

    await service.person("eve")
    assert [await removed(service.headers("eve")), await removed(headers), await removed(headers)] == [
        False,
        True,
        False,
    ]


async def test_no_more_browsers_than_the_most(service: Service, bea: str) -> None:
    for number in range(20):
        await service.store.add_subscription(bea, Browser().subscription(f"{PUSH}/{number}", f"b{number}"))
    one = Browser().subscription(PUSH)
    said = {"endpoint": PUSH, "keys": {"p256dh": one.p256dh, "auth": one.auth}}
    problem(await service.http.post("/push/subscriptions", json=said, headers=service.headers(bea)), 409, "limit")


# ── Links of mails ──


async def test_unsubscribing_takes_one_click_and_works_at_once(service: Service, bea: str) -> None:
    link = f"/u/{service.link('system', bea)}"
    asked = await service.http.get(link)
    assert (asked.status_code, "No more of these" in asked.text) == (200, True)
    profile = await service.store.profile(bea)
    assert profile is not None
    assert profile.preferences.mutes == ()  # A GET changes nothing: mail servers follow links.
    body = {"content": b"List-Unsubscribe=One-Click", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}
    assert (await service.http.post(link, **body)).status_code == 200  # type: ignore[arg-type]
    said = await service.notify(recipient=bea)
    assert [(one["status"], one["reason"]) for one in said["deliveries"] if one["channel"] == "email"] == [
        ("skipped", "muted")
    ]
    undone = await service.http.post(f"{link}/undo")
    assert "again" in undone.text
    profile = await service.store.profile(bea)
    assert profile is not None
    assert profile.preferences.mutes == ()


async def test_what_nobody_can_refuse_promises_nothing(service: Service, bea: str) -> None:
    for link in (f"/u/{service.link('security', bea)}", f"/u/{service.link('security', bea)}/undo"):
        answer = await service.http.post(link)
        assert (answer.status_code, "These are always sent" in answer.text) == (409, True)
    asked = await service.http.get(f"/u/{service.link('security', bea)}")
    assert "<form" not in asked.text
    profile = await service.store.profile(bea)
    assert profile is not None
    assert profile.preferences.mutes == ()
    assert (await service.notify(recipient=bea, type="security"))["deliveries"][2]["status"] == "pending"


async def test_who_has_muted_very_much_can_still_unsubscribe(service: Service, bea: str) -> None:
    much = {"mutes": [{"context": f"doc-{number}"} for number in range(1_000)]}
    answer = await service.http.put("/preferences", json=much, headers=service.headers(bea))
    assert answer.status_code == 200
    assert (await service.http.post(f"/u/{service.link('system', bea)}")).status_code == 200
    assert (await service.notify(recipient=bea))["deliveries"][2]["reason"] == "muted"
    much["mutes"].append({"context": "one more"})
    problem(await service.http.put("/preferences", json=much, headers=service.headers(bea)), 422, "schema", "mutes")


async def test_unsubscribing_counts_for_what_is_under_way(service: Service, bea: str) -> None:
    said = await service.notify(recipient=bea)
    email = said["deliveries"][2]["id"]
    await service.store.begin(email, 1, service.clock())
    assert (await service.http.post(f"/u/{service.link('system', bea)}")).status_code == 200
    await service.store.change(email, 1, Change("pending", error="unavailable: 451"), service.clock())
    (retrying,) = (await service.programs.get("/deliveries", params={"recipient": bea, "status": "retrying"})).json()[
        "deliveries"
    ]
    assert retrying["id"] == email
    await service.drain()
    found = await service.store.delivery(email)
    assert found is not None
    assert (found.delivery.status, found.delivery.reason) == ("skipped", "unsubscribed")


async def test_the_page_of_preferences_keeps_what_its_form_says(service: Service, bea: str) -> None:
    other = Mute(context="doc <1>")
    await service.store.change_preferences(bea, lambda _: Preferences(mutes=(other, Mute(context="doc 2"))))
    page = f"/p/{service.link('', bea)}"
    shown = await service.http.get(page)
    assert "doc &lt;1&gt;" in shown.text
    form = {
        "channel:in_app": "on",
        "channel:email": "on",
        "quiet": "on",
        "start": "22:00",
        "end": "07:00",
        "mute:0": "on",
    }
    form |= {f"{kind}:in_app": "on" for kind in ("mention", "chat", "comment", "digest", "system")}
    form |= {f"{kind}:email": "on" for kind in ("mention", "comment", "digest", "system")}
    form |= {f"{kind}:push": "on" for kind in ("mention", "chat")}
    saved = await service.http.post(page, data=form)
    assert "Saved" in saved.text
    profile = await service.store.profile(bea)
    assert profile is not None
    said = profile.preferences.as_json()
    assert (said["disabled"], said["quietHours"]) == (["push"], {"start": "22:00", "end": "07:00"})
    assert profile.preferences.mutes == (Mute(type="chat", channel="email"), other)
    refused = await service.http.post(page, data={**form, "end": ""})
    assert (refused.status_code, "Nothing was saved" in refused.text) == (422, True)


async def token_of(service: Service, kind: TokenKind, target: str = "", expires_in: int = DAY) -> str:
    """A link of a message that is kept."""
    name = f"{kind}{abs(hash((target, expires_in))):x}"
    expires = service.clock() + expires_in
    await service.store.add_tokens([Token(name, kind, "d", "ada", "system", "email", expires, target)])
    return name


async def test_an_opening_is_counted_and_looks_like_any_other(service: Service) -> None:
    token = await token_of(service, "open")
    answers = [
        await service.http.get(f"/o/{one}")
        for one in (token, "x", await token_of(service, "click", "https://a.example"))
    ]
    assert {(one.status_code, one.headers["content-type"], one.content) for one in answers} == {
        (200, "image/gif", answers[0].content)
    }
    used = await service.store.use_token(token, service.clock())
    assert used is not None
    assert used.uses == 2


async def test_a_click_leads_where_the_message_did_and_nowhere_else(service: Service) -> None:
    token = await token_of(service, "click", "https://app.example.com/doc/1?a=b")
    for asked in (f"/c/{token}", f"/c/{token}?url=https://evil.example&next=//evil.example"):
        answer = await service.http.get(asked)
        assert (answer.status_code, answer.headers["location"]) == (302, "https://app.example.com/doc/1?a=b")
    over = await token_of(service, "click", "https://app.example.com/", -1)
    script = await token_of(service, "click", "javascript:alert(1)")
    for bad in ("x", "https://evil.example", over, script, await token_of(service, "open")):
        answer = await service.http.get(f"/c/{bad}")
        assert answer.status_code == 404
        assert "location" not in answer.headers


# ── What no database holds ──


@pytest.mark.parametrize(
    ("method", "path", "said", "status"),
    [
        ("GET", "/deliveries?recipient=%00", None, 422),
        ("GET", "/deliveries?notification=%00", None, 422),
        ("GET", "/deliveries?before=%00", None, 422),
        ("GET", "/attention?before=%00", None, 422),
        ("POST", "/attention/%00/retry", None, 404),
        ("GET", "/profiles/%00", None, 404),
        ("PUT", "/profiles/%00", {}, 404),
        ("PUT", "/profiles/%00/work", {"context": "doc-1", "until": 1}, 404),
        ("POST", "/notify", {"type": "system", "recipient": "\0", "title": "x"}, 422),
        ("POST", "/notify", {"type": "system", "recipient": "ada", "title": "x", "payload": {"a\0": "b\0"}}, 201),
        ("GET", "/o/%00", None, 404),
        ("GET", "/c/%00", None, 404),
        ("GET", "/u/%00", None, 404),
        ("GET", "/p/%00", None, 404),
    ],
)
async def test_a_character_that_no_database_takes_is_no_fault_of_the_service(
    service: Service, method: str, path: str, said: Any, status: int
) -> None:
    assert (await service.programs.request(method, path, json=said)).status_code == status


@pytest.mark.parametrize(
    ("path", "said", "status"),
    [("inbox/read", {"ids": ["\0"]}, 422), ("push/subscriptions/remove", {"endpoint": "https://a.example/\0"}, 422)],
)
async def test_nor_is_it_where_a_recipients_page_says_it(service: Service, path: str, said: Any, status: int) -> None:
    assert (await service.http.post(f"/{path}", json=said, headers=service.headers())).status_code == status
    assert (await service.http.post(f"/{path}", json=said, headers=service.headers("\0"))).status_code == 401
