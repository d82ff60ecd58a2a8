"""Pushes, sent to a push service of the tests that reads them as a browser does, and checks who signed them."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from leaseway_notify import vapid
from leaseway_notify.channels.push import GONE, PLAIN_BYTES, Push, PushOptions, encrypt, outcome_of, payload
from leaseway_notify.classify import Fault, Kind, NotSent
from leaseway_notify.message import Message, Notes, Skipped
from leaseway_notify.outbound import Answer, Outbound, is_open
from leaseway_notify.profile import Profile, PushSubscription
from leaseway_notify.vapid import RENEWED, VALID, BadKey, VapidKey, new_key
from support.browser_keys import Browser, claims
from support.mail_server import scripted_server
from support.notify_stores import planned
from support.web_service import Answering, always, web_service

SUBJECT = "mailto:ops@app.example"
ENTRY = planned(1_800_000_000_000, id="n1", body="Look at this", payload={"url": "/t/1"}).notification
MESSAGE = Message("n1-push", "mention", "g1", "immediate", (ENTRY,), 1)


@dataclass
class Sender:
    """A channel, and what it did besides sending."""

    push: Push
    key: VapidKey
    removed: list[str] = field(default_factory=list)
    noted: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, *to: PushSubscription, last: Any = None) -> str:
        async def note(said: dict[str, Any]) -> None:
            self.noted.append(said)

        return await self.push.send(MESSAGE, Profile("ada", subscriptions=to), Notes(last, note))


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> VapidKey:
    path = tmp_path_factory.mktemp("vapid") / "key.pem"
    new_key(path)
    return VapidKey.read(path, SUBJECT)


async def sending(key: VapidKey, body: Callable[[Sender], Awaitable[None]], **options: Any) -> Sender:
    """Runs `body` with a channel that may call this machine, unless `options` say something else."""
    async with Outbound(**{"loopback": True, **options}) as outbound:
        removed: list[str] = []

        async def remove(endpoint: str) -> None:
            removed.append(endpoint)

        sender = Sender(Push(key, outbound, remove, PushOptions(timeout=2.0)), key, removed)
        await body(sender)
        return sender


async def refused(sender: Sender, *to: PushSubscription, last: Any = None) -> Fault:
    with pytest.raises(NotSent) as caught:
        await sender.send(*to, last=last)
    return caught.value.fault


# ── What arrives ──


async def test_a_browser_reads_what_was_encrypted_for_it_and_signed_for_its_service(key: VapidKey) -> None:
    browser = Browser()

    async def body(sender: Sender) -> None:
        await sender.send(browser.subscription(f"{service.url}/s/1"))

    async with web_service(always(201)) as service:
        await sending(key, body)
    (asked,) = service.asked
    assert browser.read(asked) == {
        "id": "n1-push",
        "type": "mention",
        "tag": "g1",
        "title": "Bob mentioned you",
        "body": "Look at this",
        "url": "/t/1",
        "at": 1_800_000_000_000,
        "total": 1,
    }
    assert b"mentioned" not in asked.body
    said = claims(asked, key.public)
    assert (said["aud"], said["sub"]) == (service.url, SUBJECT)
    assert (asked.headers["ttl"], asked.headers["urgency"]) == ("86400", "high")
    assert len(asked.headers["topic"]) == 32


@pytest.mark.parametrize("padding", ["", "="])
def test_keys_may_be_padded(padding: str) -> None:
    browser = Browser()
    plain = browser.subscription("https://push.example/s")
    padded = replace(plain, p256dh=plain.p256dh + padding, auth=plain.auth + 2 * padding)
    assert browser.decrypt(encrypt(b"hello", padded)) == b"hello"


async def test_a_repeated_attempt_replaces_what_waits(key: VapidKey) -> None:
    browser = Browser()

    async def body(sender: Sender) -> None:
        for _ in range(2):
            await sender.send(browser.subscription(f"{service.url}/s/1"))

    async with web_service(always(201)) as service:
        await sending(key, body)
    first, second = service.asked
    assert first.headers["topic"] == second.headers["topic"]
    assert first.body != second.body


@pytest.mark.parametrize("text", ["x" * 10_000, "東" * 10_000, "🎉" * 9_999, '"\\\n' * 3_000])
def test_a_long_body_is_cut_to_what_every_service_takes(text: str) -> None:
    entry = replace(ENTRY, body=text)
    plain = payload(replace(MESSAGE, notifications=(entry,)))
    assert PLAIN_BYTES - 6 <= len(plain) <= PLAIN_BYTES
    said = orjson.loads(plain)
    assert said["body"].endswith("…")
    assert text.startswith(said["body"][:-1])


def test_the_largest_event_still_fits() -> None:
    for letter, title in (("x", "🎉" * 300), ("東", "\\" * 300)):
        url = "https://app.example/" + letter * 1_980
        entry = replace(ENTRY, body="🎉" * 10_000, payload={"url": url}, created_at=2**52)
        assert len(payload(replace(MESSAGE, notifications=(replace(entry, title=title),)))) <= PLAIN_BYTES


def test_only_what_sends_pushes_loads_what_encrypts_them() -> None:
    code = "import leaseway_notify.serving, leaseway_notify.working, sys; print({'pywebpush'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


# ── What services say ──


def by_path(answers: dict[str, tuple[int, str]]) -> Answering:
    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        status, text = answers[request.path]
        return web.Response(status=status, text=text)

    return answer


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_has_ended_is_removed(key: VapidKey, status: int) -> None:
    async def body(sender: Sender) -> None:
        with pytest.raises(Skipped) as caught:
            await sender.send(Browser().subscription(f"{service.url}/s/1"))
        assert caught.value.reason == "push_subscription_revoked"

    async with web_service(always(status)) as service:
        sender = await sending(key, body)
    assert sender.removed == [f"{service.url}/s/1"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, Kind.RATE_LIMITED), (500, Kind.UNAVAILABLE), (403, Kind.BAD_CONFIGURATION), (413, Kind.REFUSED)],
)
async def test_any_other_fault_keeps_the_subscription(key: VapidKey, status: int, kind: Kind) -> None:
    async def body(sender: Sender) -> None:
        fault = await refused(sender, Browser().subscription(f"{service.url}/s/1"))
        assert (fault.kind, fault.retry_after) == (kind, 30.0)

    async with web_service(always(status, headers={"Retry-After": "30"})) as service:
        sender = await sending(key, body)
    assert not sender.removed


APPLE = "https://web.push.apple.com/abc"


@pytest.mark.parametrize(
    ("endpoint", "status", "reason", "gone"),
    [
        (APPLE, 403, "Forbidden", True),
        (APPLE, 403, "DeviceTokenNotForTopic", True),
        (APPLE, 400, "BadDeviceToken", True),
        (APPLE, 410, "Unregistered", True),
        (APPLE, 403, "BadJwtToken", False),
        (APPLE, 403, "", False),
        (APPLE, 429, "TooManyRequests", False),
        ("https://fcm.googleapis.com/abc", 403, "Forbidden", False),
        ("https://web.push.apple.com.eve.example/abc", 403, "Forbidden", False),
        ("https://evilpush.apple.com.example/abc", 403, "Forbidden", False),
    ],
)
def test_apple_says_by_a_reason_what_has_ended(endpoint: str, status: int, reason: str, gone: bool) -> None:
    found = outcome_of(endpoint, Answer(status, orjson.dumps({"reason": reason}), None), 0.0, 60.0)
    assert (found is GONE) == gone


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"reason": ["Forbidden"]}'])
def test_what_apple_does_not_say_keeps_the_subscription(body: bytes) -> None:
    assert isinstance(outcome_of(APPLE, Answer(403, body, None), 0.0, 60.0), Fault)


async def test_who_took_it_is_noted_and_gets_it_once(key: VapidKey) -> None:
    answers = {"/a": (201, ""), "/b": (503, ""), "/c": (410, "")}
    browsers = {path: Browser() for path in answers}

    async def body(sender: Sender) -> None:
        to = [browser.subscription(f"{service.url}{path}", path) for path, browser in browsers.items()]
        assert (await refused(sender, *to)).kind is Kind.UNAVAILABLE
        assert sender.removed == [f"{service.url}/c"]
        (noted,) = sender.noted
        answers["/b"] = (201, "")
        assert await sender.send(*to[:2], last=noted) == "browsers: 2"

    async with web_service(by_path(answers)) as service:
        await sending(key, body)
    assert sorted(asked.path for asked in service.asked) == ["/a", "/b", "/b", "/c"]
    assert service.url not in str(service.asked[0].body)


async def test_one_browser_is_enough_where_the_others_never_can(key: VapidKey) -> None:
    async def body(sender: Sender) -> None:
        to = [Browser().subscription(f"{service.url}{path}", path) for path in answers]
        assert await sender.send(*to) == "browsers: 1"

    answers = {"/a": (201, ""), "/b": (400, "bad"), "/c": (410, "")}
    async with web_service(by_path(answers)) as service:
        await sending(key, body)


async def test_without_any_subscription_there_is_nobody_to_send_to(key: VapidKey) -> None:
    async def body(sender: Sender) -> None:
        with pytest.raises(Skipped):
            await sender.send()

    await sending(key, body)


COMPRESSED = "A2sX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW"
"""A point of the curve in 33 bytes, with which no browser could read what was encrypted for it."""


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [("", "x"), ("AAAA", "AAAA"), ("B" * 87, "A" * 22), ("!" * 87, "A" * 22), ("ü", "ü"), (COMPRESSED, "A" * 22)],
)
async def test_keys_that_are_none_are_refused_before_anything_is_sent(key: VapidKey, p256dh: str, auth: str) -> None:
    async def body(sender: Sender) -> None:
        subscription = replace(Browser().subscription(f"{service.url}/s"), p256dh=p256dh or "x", auth=auth)
        assert (await refused(sender, subscription)).kind is Kind.BAD_ADDRESS

    async with web_service(always(201)) as service:
        await sending(key, body)
    assert not service.asked


async def test_a_service_that_hangs_costs_the_timeout(key: VapidKey) -> None:
    never = asyncio.Event()

    async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    async with web_service(hang) as service, Outbound(loopback=True) as outbound:
        with pytest.raises(NotSent) as caught:
            await outbound.post(service.url, b"", {}, 0.1)
        never.set()
    assert caught.value.fault.kind is Kind.TIMEOUT


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    never = asyncio.Event()

    async def flood(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x" * 100_000)
        await never.wait()
        return response

    async with web_service(flood) as service, Outbound(loopback=True) as outbound:
        answer = await outbound.post(service.url, b"", {}, 5.0)
        never.set()
    assert (answer.status, len(answer.body)) == (200, 4096)


# ── Where nobody may be led ──


class Lying(AbstractResolver):
    """A name server whose answers change from one question to the next."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0)
            for one in address.split(",")
        ]

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("address", "open_"),
    [
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104  it is refused
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff0e::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::a00:1", False),
        ("::10.0.0.1", False),
        ("::ffff:0:10.0.0.1", False),
        ("fec0::2", False),
        ("4000::1", False),
        ("2002:a00:1::", False),
        ("nonsense", False),
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
    ],
)
def test_which_addresses_are_open(address: str, open_: bool) -> None:
    assert is_open(address, loopback=False) is open_
    assert is_open(address, loopback=True) is (open_ or address in ("127.0.0.1", "::1"))


@pytest.mark.parametrize("private", ["127.0.0.1", "10.0.0.1,127.0.0.1", "127.0.0.1,169.254.169.254"])
async def test_a_name_that_leads_to_a_private_address_is_refused(key: VapidKey, private: str) -> None:
    async def body(sender: Sender) -> None:
        port = service.url.rpartition(":")[2]
        fault = await refused(sender, Browser().subscription(f"https://push.example:{port}/s"))
        assert (fault.kind, fault.transient) == (Kind.FORBIDDEN_ENDPOINT, False)

    async with web_service(always(201)) as service:
        await sending(key, body, loopback=False, resolver=Lying(private))
    assert not service.asked


async def test_a_name_that_is_bound_anew_between_look_and_call_is_refused(key: VapidKey) -> None:
    """The first answer is public and nobody is there; the next leads into this machine."""
    names = Lying("192.0.0.9", "127.0.0.1")

    async def body(sender: Sender) -> None:
        subscription = Browser().subscription(f"https://push.example:{service.url.rpartition(':')[2]}/s")
        faults = [await refused(sender, subscription) for _ in range(2)]
        assert faults[-1].kind is Kind.FORBIDDEN_ENDPOINT

    async with web_service(always(201)) as service:
        await sending(key, body, loopback=False, resolver=names)
    assert names.asked == 2
    assert not service.asked


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433", "127.1"])
async def test_an_address_in_whatever_spelling_is_refused(key: VapidKey, host: str) -> None:
    async def body(sender: Sender) -> None:
        fault = await refused(sender, Browser().subscription(f"https://{host}:{service.url.rpartition(':')[2]}/s"))
        assert fault.kind in (Kind.FORBIDDEN_ENDPOINT, Kind.CONNECTION)

    async with web_service(always(201)) as service:
        await sending(key, body, loopback=False)
    assert not service.asked


@pytest.mark.parametrize("endpoint", ["http://push.example/s", "https://user:word@push.example/s", "https://[::1/s"])
async def test_an_endpoint_is_an_https_address_without_a_user(key: VapidKey, endpoint: str) -> None:
    async def body(sender: Sender) -> None:
        subscription = Browser().subscription("https://push.example/s")
        object.__setattr__(subscription, "endpoint", endpoint)
        assert (await refused(sender, subscription)).kind is Kind.FORBIDDEN_ENDPOINT

    await sending(key, body, loopback=False)


async def test_no_redirect_is_followed(key: VapidKey) -> None:
    async def body(sender: Sender) -> None:
        fault = await refused(sender, Browser().subscription(f"{service.url}/s"))
        assert (fault.kind, fault.transient) == (Kind.BAD_CONFIGURATION, False)

    elsewhere = web_service(always(201))
    async with elsewhere as other, web_service(always(307, headers={"Location": other.url})) as service:
        await sending(key, body)
    assert not other.asked


async def test_what_garbage_a_service_says_tells_nobody_the_endpoint(key: VapidKey) -> None:
    async def body(sender: Sender) -> None:
        fault = await refused(sender, Browser().subscription(f"http://127.0.0.1:{port}/a-secret-of-the-browser"))
        assert (fault.kind, fault.transient) == (Kind.GARBAGE, True)
        assert "secret" not in str(fault)

    async with scripted_server(b"", {b"POST": b"this is no HTTP\r\n\r\n"}) as port:
        await sending(key, body)


# ── The key ──


def test_a_signature_is_used_for_hours_and_made_anew_before_it_ends(key: VapidKey) -> None:
    first = key.authorization("https://a.example/x", 1_000_000.0)
    assert key.authorization("https://a.example/y", 1_000_000.0 + RENEWED - 1) == first
    assert key.authorization("https://a.example/y", 1_000_000.0 + RENEWED) != first
    assert key.authorization("https://b.example/x", 1_000_000.0) != first
    assert RENEWED < VALID <= 24 * 3600


def test_signatures_for_ever_new_services_are_bounded(key: VapidKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vapid, "ORIGINS", 3)
    for number in range(10):
        key.authorization(f"https://{number}.example/x", 1_000_000.0)
        assert len(key._signed) <= 3


def test_a_key_is_its_owners_alone_and_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(BadKey, match="there is a file already"):
        new_key(path)
    assert path.read_bytes() == before
    with pytest.raises(BadKey, match="cannot be written"):
        new_key(tmp_path / "nowhere" / "key.pem")


ED25519 = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""


@pytest.mark.parametrize(("text", "said"), [("", "no private key"), ("key", "no private key"), (ED25519, "P-256")])
def test_a_file_that_holds_no_key_is_told_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(text)
    with pytest.raises(BadKey, match=said) as caught:
        VapidKey.read(path, SUBJECT)
    assert str(path) in str(caught.value)
    with pytest.raises(BadKey, match="cannot be read"):
        VapidKey.read(tmp_path / "none.pem", SUBJECT)


@pytest.mark.parametrize("subject", ["", "ops@app.example", "mailto:ops@localhost", "http://app.example", "https://x"])
def test_a_subject_that_push_services_refuse_is_refused(tmp_path: Path, subject: str) -> None:
    new_key(tmp_path / "key.pem")
    with pytest.raises(ValueError, match="expected a subject"):
        VapidKey.read(tmp_path / "key.pem", subject)
