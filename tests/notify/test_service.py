"""The service: every path, what it refuses and how, and that nothing of it leads where it should not."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Never

import orjson
import pytest
import pytest_asyncio

from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.profile import Preferences
from leaseway_notify.recipient_token import recipient_token
from leaseway_notify.serving import serving
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.unsubscribe import Unsubscribe
from support.browser_keys import Browser
from support.notify_service import (
    PUSH,
    SECRET,
    TOKEN,
    Service,
    notify_service,
    problem,
    push_settings,
    service_settings,
)
from support.notify_stores import DAY

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One for all tests of the file, which have recipients of their own."""
    folder = tmp_path_factory.mktemp("service")
    async with notify_service(
        folder, push=push_settings(folder), service={"origins": ["https://app.example.com"]}
    ) as service:
        yield service


@pytest.fixture
async def bea(service: Service, request: pytest.FixtureRequest) -> str:
    """Somebody whom only this test has."""
    name = request.node.name
    await service.person(name)
    return str(name)


# ── Other programs ──


def event(**members: Any) -> bytes:
    """An event as a program says it."""
    return orjson.dumps({"type": "system", "recipient": "ada", "title": "x", **members})


@pytest.mark.parametrize(
    ("body", "status", "code", "path"),
    [
        (b"{", 400, "bad-json", ""),
        (b"\xff", 400, "bad-json", ""),
        (b"7", 422, "schema", ""),
        (b"[]", 422, "schema", ""),
        (b'{"type": "system", "recipient": "ada"}', 422, "schema", "title"),
        (b'{"type": "system", "recipient": "nobody", "title": "x"}', 422, "unknown-recipient", "recipient"),
        (b'{"type": "unknown", "recipient": "ada", "title": "x"}', 422, "unknown-type", "type"),
        (b'{"type": "system", "recipient": "ada", "title": "x", "colour": 1}', 422, "schema", "colour"),
        (event(payload={"url": "javascript:1"}), 422, "schema", "payload.url"),
        (event(payload={"a": "b" * 70_000}), 422, "schema", "payload"),
        (b'"' + b"x" * 2**20 + b'"', 413, "too-large", ""),
    ],
)  # fmt: skip
async def test_a_bad_event_is_refused_with_what_and_where(
    service: Service, body: bytes, status: int, code: str, path: str
) -> None:
    problem(await service.programs.post("/notify", content=body), status, code, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/notify"),
        ("GET", "/profiles/ada"),
        ("PUT", "/profiles/ada"),
        ("DELETE", "/profiles/ada"),
        ("PUT", "/profiles/ada/work"),
        ("POST", "/announce"),
        ("GET", "/deliveries"),
        ("GET", "/attention"),
        ("POST", "/attention/x/retry"),
    ],
)
async def test_what_programs_ask_needs_their_token(service: Service, method: str, path: str) -> None:
    for authorization in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {service.token()}"):
        answer = await service.http.request(method, path, headers={"Authorization": authorization})
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("said", "path"),
    [({"zone": "Europe/Atlantis"}, "zone"), ({"address": 7}, "address"), ({"colour": 1}, "colour"), ([], "")],
)
async def test_a_bad_profile_is_refused(service: Service, said: Any, path: str) -> None:
    problem(await service.programs.put("/profiles/somebody", json=said), 422, "schema", path)
    problem(await service.programs.get("/profiles/somebody"), 404, "not-found")


@pytest.mark.parametrize("asked", ["status=open", "channel=fax", "limit=0", "limit=101", "limit=x", "before=%00"])
async def test_a_bad_question_of_the_log_is_refused(service: Service, asked: str) -> None:
    problem(await service.programs.get(f"/deliveries?{asked}"), 422, "schema", asked.partition("=")[0])


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/deliveries", "status, recipient, channel, notification, limit, before"),
        ("/attention", "limit, before"),
        ("/profiles/ada", "none"),
        ("/inbox", "unread, archived, limit, before"),
        ("/preferences", "none"),
        ("/push", "none"),
    ],
)
async def test_a_parameter_that_nobody_knows_is_refused_by_its_name(service: Service, path: str, known: str) -> None:
    http = service.http if path in ("/inbox", "/preferences", "/push") else service.programs
    headers = {} if http is service.programs else service.headers()
    for asked in ("statu=dead", "statu", "Limit=1", "limit=1&statu="):
        answer = await http.get(f"{path}?{asked}", headers=headers)
        name = "limit" if known == "none" and "limit" in asked else "Limit" if "Limit" in asked else "statu"
        assert problem(answer, 422, "schema", name) == f"unknown parameter; known here: {known}"
    for one in [] if known == "none" else known.split(", "):
        answer = await http.get(f"{path}?{one}=x", headers=headers)
        assert "unknown parameter" not in answer.text
    assert (await http.get(path, headers=headers)).status_code == 200
    problem(await service.http.get(f"{path}?statu=dead"), 401, "unauthorized")


async def test_what_is_no_list_of_recipients_is_not_announced(service: Service) -> None:
    for said in ({"recipients": "ada"}, {"recipients": [1]}, {}):
        problem(await service.programs.post("/announce", json=said), 422, "schema", "recipients")


# ── Recipients ──


RECIPIENTS = [
    ("GET", "/inbox"), ("POST", "/inbox/read"), ("GET", "/preferences"), ("PUT", "/preferences"),
    ("POST", "/preferences/page"), ("GET", "/push"), ("POST", "/push/subscriptions"),
    ("POST", "/push/subscriptions/remove"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), RECIPIENTS)
async def test_what_recipients_ask_needs_a_token_that_holds(service: Service, method: str, path: str) -> None:
    now = service.clock() / 1000
    good = recipient_token(SECRET, "ada", 900, now)
    other_secret = recipient_token("x" * 32, "ada", 900, now)
    bad = {
        TOKEN: "no JSON Web Token",
        "a.b.c": "no JSON Web Token",
        good[:-2]: "signature",
        other_secret: "signature",
        recipient_token(SECRET, "ada", 900, now - 901): "time is over",
        recipient_token(SECRET, "ada", 3_600, now + 3_600): "too long",
    }
    for token, why in bad.items():
        answer = await service.http.request(method, path, headers={"Authorization": f"Bearer {token}"})
        assert why in problem(answer, 401, "unauthorized")


@pytest.mark.parametrize(
    "said",
    [{}, {"ids": []}, {"ids": "x"}, {"ids": [1]}, {"ids": ["x"], "all": True}, {"all": False}, {"ids": ["x"] * 1_001},
     {"ids": ["a\0"]}],
)  # fmt: skip
async def test_bad_marks_are_refused(service: Service, said: Any) -> None:
    answer = await service.http.post("/inbox/read", json=said, headers=service.headers())
    problem(answer, 422, "schema", "ids")


async def test_an_unknown_verb_is_refused(service: Service) -> None:
    answer = await service.http.post("/inbox/eat", json={"all": True}, headers=service.headers())
    assert "archive" in problem(answer, 404, "not-found")


@pytest.mark.parametrize("asked", ["before=-1", "before=x", "unread=yes", "archived=1", "limit=0"])
async def test_a_bad_question_of_the_inbox_is_refused(service: Service, asked: str) -> None:
    answer = await service.http.get(f"/inbox?{asked}", headers=service.headers())
    problem(answer, 422, "schema", asked.partition("=")[0])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"endpoint": "http://push.example.com/a"}, "endpoint"),
        ({"endpoint": "https://user@push.example.com/a"}, "endpoint"),
        ({"endpoint": 7}, "subscription.endpoint"),
        ({"keys": {"p256dh": "AAAA", "auth": "AAAA"}}, "keys"),
        ({"keys": "none"}, "keys"),
        ({"keys": {}}, "subscription.p256dh"),
        ({"colour": 1}, "colour"),
    ],
)
async def test_a_bad_subscription_is_refused(service: Service, change: dict[str, Any], path: str) -> None:
    one = Browser().subscription(PUSH)
    said = {"endpoint": PUSH, "keys": {"p256dh": one.p256dh, "auth": one.auth}, **change}
    problem(await service.http.post("/push/subscriptions", json=said, headers=service.headers()), 422, "schema", path)


# ── Links of mails ──


@pytest.mark.parametrize("kind", ["u", "p"])
async def test_links_that_are_none_of_ours_lead_nowhere(service: Service, kind: str) -> None:
    over = Unsubscribe("ada", "system", "email", service.clock() - 1).token(service.served.site.secret)
    other = Unsubscribe("ada", "system", "email", service.clock() + DAY).token(b"another secret")
    nobody = service.link("system" if kind == "u" else "", "nobody at all")
    for token in (over, other, nobody, "x", "ü", "a.b", service.link("system")[:-1]):
        for method in ("GET", "POST"):
            if (kind, method, token) != ("u", "GET", nobody):
                answer = await service.http.request(method, f"/{kind}/{token}")
                assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    profile = await service.store.profile("ada")
    assert profile is not None
    assert profile.preferences == Preferences()


async def test_a_link_to_preferences_unsubscribes_from_nothing(service: Service, bea: str) -> None:
    url = (await service.http.post("/preferences/page", headers=service.headers(bea))).json()["url"]
    assert url.startswith(f"{service.url}/p/")
    assert (await service.http.get(url)).status_code == 200
    assert (await service.http.post(url.replace("/p/", "/u/"))).status_code == 404
    assert (await service.http.get(f"/p/{service.link('system', bea)}")).status_code == 404  # And the other way round.
    service.clock.ahead = 16 * 60_000
    try:
        assert (await service.http.get(url)).status_code == 404
    finally:
        service.clock.ahead = 0


# ── Pages ──


async def test_pages_come_with_a_policy_of_their_own(service: Service) -> None:
    page = await service.http.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "'unsafe" not in policy
    assert "https:" not in policy
    for name in ("bell.js", "live.js", "inbox.js", "push.js", "push-worker.js", "style.css"):
        file = await service.http.get(f"/{name}")
        assert file.status_code == 200
        assert (await service.http.get(f"/{name}", headers={"If-None-Match": file.headers["etag"]})).status_code == 304
    mail = await service.http.get(f"/p/{service.link('')}")
    assert "script-src" not in mail.headers["content-security-policy"]
    assert "default-src 'none'" in mail.headers["content-security-policy"]


async def test_the_service_worker_handles_pushes_and_no_fetches(service: Service) -> None:
    text = (await service.http.get("/push-worker.js")).text
    assert 'addEventListener("push"' in text
    assert 'addEventListener("fetch"' not in text
    assert "onfetch" not in text


@pytest.mark.parametrize(
    "path", ["/inbox.html", "/__init__.py", "/%2e%2e%2fsettings.py", "/nothing", "/notify/", "/a/b"]
)
async def test_what_is_not_there_is_not_found(service: Service, path: str) -> None:
    problem(await service.http.get(path), 404, "not-found")


async def test_other_methods_are_refused_with_those_that_there_are(service: Service) -> None:
    answer = await service.http.delete("/preferences")
    problem(answer, 405, "bad-message")
    assert "GET" in answer.headers["allow"]


async def test_listed_sites_may_ask_and_others_may_not(service: Service) -> None:
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}
    listed = await service.http.options("/inbox", headers={"Origin": "https://app.example.com", **asked})
    assert listed.headers["access-control-allow-origin"] == "https://app.example.com"
    other = await service.http.options("/inbox", headers={"Origin": "https://evil.example", **asked})
    assert "access-control-allow-origin" not in other.headers


async def test_it_is_alive(service: Service) -> None:
    assert (await service.http.get("/_health")).json() == {"status": "ok"}


async def test_without_pushes_no_browser_is_taken(tmp_path: Path) -> None:
    async with notify_service(tmp_path) as service:
        headers = service.headers()
        assert (await service.http.get("/push", headers=headers)).json() == {"publicKey": None}
        problem(await service.http.post("/push/subscriptions", json={}, headers=headers), 409, "conflict")


async def test_a_database_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    async with notify_service(tmp_path) as service:
        said = {"type": "system", "recipient": "ada", "title": "x"}
        with closing(sqlite3.connect(tmp_path / "notify.db")) as other:
            other.execute("ALTER TABLE notification RENAME TO elsewhere")
            answer = await service.programs.post("/notify", json=said)
            problem(answer, 503, "unavailable")
            assert answer.headers["retry-after"] == "5"
            other.execute("ALTER TABLE elsewhere RENAME TO notification")
        assert (await service.programs.post("/notify", json=said)).status_code == 201


async def test_what_fails_beside_the_service_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_self: Housekeeper) -> Never:
        raise ArithmeticError

    monkeypatch.setattr(Housekeeper, "run", fail)
    async with await open_sqlite(tmp_path / "notify.db") as store:
        with pytest.raises(ArithmeticError):
            async with serving(store, service_settings("ws://127.0.0.1:1")) as served:
                await served.ended
