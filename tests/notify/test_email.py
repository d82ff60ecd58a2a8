"""Mails, sent to real servers: what they hold, what may not get into them, and what a server's answers mean."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from leaseway_notify.channels.email import Email, From
from leaseway_notify.channels.mail_provider import MailProvider, Provider
from leaseway_notify.channels.smtp import Smtp, SmtpServer
from leaseway_notify.classify import Kind, NotSent
from leaseway_notify.links import Links, MessageLinks
from leaseway_notify.message import Message, Notes
from leaseway_notify.outbound import Outbound
from leaseway_notify.profile import Profile
from leaseway_notify.templates import Templates
from leaseway_notify.unsubscribe import Unsubscribe
from support.addresses import NO_ADDRESSES
from support.mail_server import Mailroom, mail_server, scripted_server
from support.notify_stores import planned
from support.web_service import always, web_service

FROM = From("bell@app.example", "The App", "The App, 1 Example Street")
TO = Profile("ada", "ada@example.org", "Ada")
ENTRY = planned(
    1_800_000_000_000, id="n1", body="Look at <b>this</b> & that", payload={"url": "https://app.example/t/1"}
).notification
MESSAGE = Message("n1-email", "mention", "g1", "normal", (ENTRY,), 1)


class Given(Links):
    """The links that a test wants, whatever the message."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    async def of(self, message: Message) -> MessageLinks:
        """The notifications' own, where the test says nothing else."""
        return replace(MessageLinks("", "", "", tuple(one.url for one in message.notifications)), **self._given)


async def never(said: dict[str, Any]) -> None:
    """A mail leaves no notes."""
    raise AssertionError(said)


NOTES = Notes(None, never)


async def smtp_send(room: Mailroom, message: Message = MESSAGE, to: Profile = TO, **given: Any) -> EmailMessage:
    """Sends over SMTP, and gives what arrived."""
    server = SmtpServer(room.host, room.port, "none", timeout=5.0)
    await Email(FROM, Templates(), Given(**given), Smtp(server)).send(message, to, NOTES)
    return room.mails[-1]


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert isinstance(body, EmailMessage)
    return str(body.get_content())


def unchecked(profile: Profile, name: str, value: str) -> Profile:
    """A profile that was never checked, as an application's own store may give one."""
    changed = replace(profile)
    object.__setattr__(changed, name, value)
    return changed


async def refused(sending: Callable[[], Any]) -> NotSent:
    with pytest.raises(NotSent) as caught:
        await sending()
    return caught.value


# ── What a mail holds ──


async def test_a_mail_has_text_and_html_in_which_everything_is_escaped() -> None:
    async with mail_server() as room:
        mail = await smtp_send(room)
    assert mail.get_content_type() == "multipart/alternative"
    assert (mail["From"], mail["To"]) == ("The App <bell@app.example>", "Ada <ada@example.org>")
    assert (mail["Subject"], mail["Message-ID"]) == ("Bob mentioned you", "<n1-email@app.example>")
    assert "Look at <b>this</b> & that" in part(mail, "plain")
    html = part(mail, "html")
    assert "Look at &lt;b&gt;this&lt;/b&gt; &amp; that" in html
    assert 'href="https://app.example/t/1"' in html
    assert "List-Unsubscribe" not in mail
    assert "<img" not in html
    assert room.envelopes[0].mail_from == "bell@app.example"


async def test_the_preheader_is_the_beginning_of_the_body_on_one_line() -> None:
    message = replace(MESSAGE, notifications=(replace(ENTRY, body="one\ntwo  " + "x" * 500),))
    async with mail_server() as room:
        html = part(await smtp_send(room, message), "html")
    hidden = html.partition('<div style="display:none')[2].partition(">")[2].partition("</div>")[0]
    assert hidden.startswith("one two xxx")
    assert len(hidden) == 120


async def test_one_click_unsubscribes() -> None:
    async with mail_server() as room:
        mail = await smtp_send(room, unsubscribe="https://app.example/u/abc", preferences="https://app.example/p/abc")
    assert mail["List-Unsubscribe"] == "<https://app.example/u/abc>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    for kind in ("plain", "html"):
        assert "https://app.example/u/abc" in part(mail, kind)
        assert "https://app.example/p/abc" in part(mail, kind)


async def test_a_long_id_stands_in_its_header_as_it_is() -> None:
    sender = replace(FROM, address=f"bell@{'long.' * 20}example")
    async with mail_server() as room:
        server = SmtpServer(room.host, room.port, "none", timeout=5.0)
        await Email(sender, Templates(), Given(), Smtp(server)).send(MESSAGE, TO, NOTES)
    content = room.envelopes[-1].content
    assert isinstance(content, bytes)
    assert f"Message-ID: <n1-email@{sender.domain}>".encode() in content.replace(b"\r\n ", b" ").split(b"\r\n")


@pytest.mark.parametrize("who", ["ada", "a" * 200, "\N{GRINNING FACE}" * 200])
async def test_the_link_of_one_click_stands_in_the_mail_as_it_is(who: str) -> None:
    url = f"https://app.example/u/{Unsubscribe(who, 'mention', 'email', 2**43).token(b'secret')}"
    async with mail_server() as room:
        await smtp_send(room, unsubscribe=url)
    content = room.envelopes[0].content
    assert isinstance(content, bytes)
    head, _, _ = content.partition(b"\r\n\r\n")
    lines = head.replace(b"\r\n ", b"").split(b"\r\n")
    assert f"List-Unsubscribe: <{url}>".encode() in lines
    assert all(len(line) <= 998 for line in head.split(b"\r\n"))


async def test_a_mail_says_when_it_was_written() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    async with mail_server() as room:
        mail = await smtp_send(room)
    assert before <= parsedate_to_datetime(mail["Date"]) <= datetime.now(UTC)


async def test_tracking_is_what_its_links_say() -> None:
    async with mail_server() as room:
        mail = await smtp_send(room, opened="https://app.example/o/1", entries=("https://app.example/c/1",))
    html = part(mail, "html")
    assert '<img src="https://app.example/o/1"' in html
    assert 'href="https://app.example/c/1"' in html
    assert "/t/1" not in html + part(mail, "plain")


@pytest.mark.parametrize(
    ("zone", "said"), [("UTC", "15 January 2027, 08:00 UTC"), ("Europe/Berlin", "15 January 2027, 09:00 CET")]
)
async def test_a_mail_says_when_it_was_by_the_recipients_clock(zone: str, said: str) -> None:
    async with mail_server() as room:
        mail = await smtp_send(room, to=replace(TO, zone=zone))
    for kind in ("plain", "html"):
        assert said in part(mail, kind)


async def test_a_batch_is_one_mail_of_many_entries() -> None:
    entries = tuple(replace(ENTRY, title=f"Title {n}", created_at=ENTRY.created_at + n) for n in range(3))
    message = replace(MESSAGE, notifications=entries, total=7)
    async with mail_server() as room:
        mail = await smtp_send(room, message)
    assert mail["Subject"] == "7 new: Title 2"
    for kind in ("plain", "html"):
        assert all(f"Title {n}" in part(mail, kind) for n in range(3))
        assert "and 4 more" in part(mail, kind)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "/t/1", ""])
async def test_a_link_leads_nowhere_but_to_a_page(url: str | None) -> None:
    async with mail_server() as room:
        html = part(await smtp_send(room, entries=(url,)), "html")
    assert "href" not in html


async def test_words_of_any_language_and_long_lines_arrive_whole() -> None:
    body = "Größe 東京 🎉 " * 200
    message = replace(MESSAGE, notifications=(replace(ENTRY, title="Größe 東京 🎉", body=body),))
    async with mail_server() as room:
        mail = await smtp_send(room, message, Profile("ada", "ada@bücher.example", "Ådå, „the“ <first>"))
    assert mail["Subject"] == "Größe 東京 🎉"
    assert body.strip() in part(mail, "plain")
    assert room.envelopes[0].rcpt_tos == ["ada@xn--bcher-kva.example"]
    assert mail["To"].addresses[0].display_name == "Ådå, „the“ <first>"


# ── What may not get in ──


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\u2028", "\x0b", "\x00"])
@pytest.mark.parametrize("place", ["title", "name", "unsubscribe", "id"])
async def test_nothing_puts_a_header_into_a_mail(place: str, end: str) -> None:
    bad = f"x{end}Bcc: eve@example.net"
    message = replace(MESSAGE, notifications=(replace(ENTRY, title=bad),)) if place == "title" else MESSAGE
    message = replace(message, id=bad) if place == "id" else message
    to = unchecked(TO, "name", bad) if place == "name" else TO
    async with mail_server() as room:
        with contextlib.suppress(NotSent):
            await smtp_send(room, message, to, unsubscribe=bad if place == "unsubscribe" else "")
        assert not room.mails or end not in "\r\n"
        assert not [mail for mail in room.mails if "Bcc" in mail]
        assert not [envelope for envelope in room.envelopes if envelope.rcpt_tos != ["ada@example.org"]]


async def test_a_header_that_would_be_two_is_told() -> None:
    message = replace(MESSAGE, notifications=(replace(ENTRY, title="x\r\nBcc: eve@example.net"),))
    async with mail_server() as room:
        error = await refused(lambda: smtp_send(room, message))
    assert (error.fault.kind, error.fault.transient) == (Kind.BAD_MESSAGE, False)


@pytest.mark.parametrize("address", ["", *NO_ADDRESSES])
async def test_what_is_no_address_is_refused(address: str) -> None:
    async with mail_server() as room:
        error = await refused(lambda: smtp_send(room, to=unchecked(TO, "address", address)))
    assert error.fault.kind is Kind.BAD_ADDRESS
    assert not error.fault.transient
    assert not room.mails


@pytest.mark.parametrize(
    ("address", "name"), [("bell", ""), ("", ""), ("bell@app.example", "a\r\nBcc: eve@example.net")]
)
def test_a_sender_that_is_none_is_refused_at_the_start(address: str, name: str) -> None:
    with pytest.raises(ValueError, match="mails cannot be sent from"):
        From(address, name)


# ── Templates ──


async def test_a_sender_may_have_a_domain_in_other_letters() -> None:
    async with mail_server() as room:
        transport = Smtp(SmtpServer(room.host, room.port, "none", timeout=5.0))
        await Email(From("bell@bücher.example"), Templates(), Given(), transport).send(MESSAGE, TO, NOTES)
    (mail,) = room.mails
    assert (mail["From"], mail["Message-ID"]) == ("bell@xn--bcher-kva.example", "<n1-email@xn--bcher-kva.example>")
    assert room.envelopes[0].mail_from == "bell@xn--bcher-kva.example"


def test_a_folder_of_templates_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        Templates(tmp_path / "mail")


async def test_an_operator_has_templates_of_their_own_by_type(tmp_path: Path) -> None:
    (tmp_path / "mention.html.j2").write_text("<p>{{ newest.title }} for {{ name }}</p>")
    (tmp_path / "email.subject.j2").write_text("[App] {{ newest.title }}\n")
    async with mail_server() as room:
        email = Email(FROM, Templates(tmp_path), Given(), Smtp(SmtpServer(room.host, room.port, "none")))
        await email.send(replace(MESSAGE, notifications=(replace(ENTRY, title="<i>"),)), TO, NOTES)
    mail = room.mails[0]
    assert mail["Subject"] == "[App] <i>"
    assert part(mail, "html").strip() == "<p>&lt;i&gt; for Ada</p>"
    assert "Hello Ada" in part(mail, "plain")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\n{{ nothing }}", "mention.html.j2, line 2: 'nothing' is undefined"),
        ("one\n\n{% if %}", "mention.html.j2, line 3: "),
        ("{{ 1 / 0 }}", "mention.html.j2, line 1: ZeroDivisionError"),
        ("{{ newest.title | loud }}", "mention.html.j2, line 1: No filter named 'loud'"),
        ("{% include 'other.j2' %}", "other.j2"),
    ],
)
async def test_a_broken_template_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mention.html.j2").write_text(text)
    async with mail_server() as room:
        email = Email(FROM, Templates(tmp_path), Given(), Smtp(SmtpServer(room.host, room.port, "none")))
        error = await refused(lambda: email.send(MESSAGE, TO, NOTES))
    assert (error.fault.kind, error.fault.transient) == (Kind.BROKEN_TEMPLATE, False)
    assert said in error.fault.message
    assert not room.mails


# ── What an SMTP server says ──


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("451 try later", Kind.UNAVAILABLE),
        ("452 slower", Kind.RATE_LIMITED),
        ("554 spam", Kind.REFUSED),
        ("552 too large", Kind.REFUSED),
    ],
)
async def test_the_reply_to_a_mail_is_classified(reply: str, kind: Kind) -> None:
    async with mail_server() as room:
        room.answer = lambda: reply
        error = await refused(lambda: smtp_send(room))
    assert (error.fault.kind, error.fault.message) == (kind, reply)


@pytest.mark.parametrize(
    ("reply", "kind"), [("550 no such user", Kind.BAD_ADDRESS), ("450 greylisted", Kind.RATE_LIMITED)]
)
async def test_the_reply_to_an_address_is_classified(reply: str, kind: Kind) -> None:
    async with mail_server() as room:
        room.recipient = reply
        error = await refused(lambda: smtp_send(room))
    assert (error.fault.kind, error.fault.message) == (kind, reply)


HELLO = {b"EHLO": b"250 mail.test\r\n", b"RSET": b"250 OK\r\n"}
SCRIPTS: dict[str, tuple[bytes, dict[bytes, bytes], Kind]] = {
    "garbage for a greeting": (b"\x00\xffhello\r\n", {}, Kind.GARBAGE),
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", {}, Kind.GARBAGE),
    "turned away": (b"421 too many\r\n", {}, Kind.UNAVAILABLE),
    "turned away for good": (b"554 go away\r\n", {}, Kind.REFUSED),
    "garbage for a reply": (b"220 mail.test\r\n", HELLO | {b"MAIL": b"what?\r\n"}, Kind.GARBAGE),
    "a line without an end": (b"220 mail.test\r\n", HELLO | {b"MAIL": b"250 " + b"x" * 200_000}, Kind.GARBAGE),
    "a bad sender": (b"220 mail.test\r\n", HELLO | {b"MAIL": b"553 not you\r\n"}, Kind.BAD_CONFIGURATION),
    "a sender for later": (b"220 mail.test\r\n", HELLO | {b"MAIL": b"451 not yet\r\n"}, Kind.UNAVAILABLE),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_a_server_should_not_say_is_classified(name: str) -> None:
    greeting, answers, kind = SCRIPTS[name]
    async with scripted_server(greeting, answers) as port:
        smtp = Smtp(SmtpServer("127.0.0.1", port, "none", timeout=2.0))
        error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert error.fault.kind is kind, error


@pytest.mark.parametrize(
    "answers",
    [
        {},
        HELLO,
        HELLO | {b"MAIL": b"250 OK\r\n", b"RCPT": b"250 OK\r\n", b"DATA": b"354 go on\r\n"},
    ],
)
async def test_a_server_that_accepts_and_then_hangs_costs_the_timeout(answers: dict[bytes, bytes]) -> None:
    async with scripted_server(b"220 mail.test\r\n", answers) as port:
        smtp = Smtp(SmtpServer("127.0.0.1", port, "none", timeout=0.1))
        error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert (error.fault.kind, error.fault.transient) == (Kind.TIMEOUT, True)


async def test_a_server_that_is_slow_at_each_step_costs_the_timeout_once() -> None:
    answers = {b"MAIL": b"250 OK\r\n", b"RCPT": b"250 OK\r\n", b"DATA": b"354 go on\r\n", b".": b"250 taken\r\n"}
    async with scripted_server(b"220 mail.test\r\n", HELLO | answers, pause=0.3) as port:
        smtp = Smtp(SmtpServer("127.0.0.1", port, "none", timeout=0.5))
        error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert error.fault.kind is Kind.TIMEOUT


async def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_to_quit() -> None:
    answers = {b"MAIL": b"250 OK\r\n", b"RCPT": b"250 OK\r\n", b"DATA": b"354 go on\r\n", b".": b"250 taken\r\n"}
    async with scripted_server(b"220 mail.test\r\n", HELLO | answers | {b"QUIT": b"500 what?\r\n"}) as port:
        smtp = Smtp(SmtpServer("127.0.0.1", port, "none", timeout=5.0))
        assert await Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES) == "taken"


async def test_a_server_that_is_not_there_is_transient() -> None:
    async with mail_server() as room:
        port = room.port
    smtp = Smtp(SmtpServer("127.0.0.1", port, "none", timeout=5.0))
    error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert (error.fault.kind, error.fault.transient) == (Kind.CONNECTION, True)


async def test_a_server_without_starttls_gets_no_mail() -> None:
    async with mail_server() as room:
        smtp = Smtp(SmtpServer(room.host, room.port, "starttls", timeout=5.0))
        error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert error.fault.kind is Kind.BAD_CONFIGURATION
    assert not room.mails


async def test_a_server_without_logins_gets_no_mail_where_one_is_configured() -> None:
    async with mail_server() as room:
        smtp = Smtp(SmtpServer(room.host, room.port, "none", "app", "secret", timeout=5.0))
        error = await refused(lambda: Email(FROM, Templates(), Given(), smtp).send(MESSAGE, TO, NOTES))
    assert error.fault.kind is Kind.BAD_CONFIGURATION
    assert "secret" not in str(error)


async def test_an_address_in_other_letters_needs_a_server_that_knows_them() -> None:
    to = Profile("ada", "ådå@example.org")
    async with mail_server(enable_SMTPUTF8=True) as room:
        await smtp_send(room, to=to)
        assert room.envelopes[0].rcpt_tos == ["ådå@example.org"]
    async with mail_server(enable_SMTPUTF8=False) as room:
        error = await refused(lambda: smtp_send(room, to=to))
    assert error.fault.kind is Kind.BAD_ADDRESS


# ── A provider ──


async def provider_send(url: str, timeout: float = 5.0, **given: Any) -> str:
    async with Outbound(anywhere=True) as outbound:
        provider = MailProvider(Provider(f"{url}/emails", "key-1", timeout), outbound)
        return await Email(FROM, Templates(), Given(**given), provider).send(MESSAGE, TO, NOTES)


async def test_a_provider_gets_the_mail_and_a_key_that_stays_the_same() -> None:
    async with web_service(always(200, '{"id": "p-1"}')) as service:
        assert await provider_send(service.url, unsubscribe="https://app.example/u") == "p-1"
        await provider_send(service.url, unsubscribe="https://app.example/u")
    first, second = service.asked
    assert (first.path, first.headers["authorization"]) == ("/emails", "Bearer key-1")
    assert first.headers["idempotency-key"] == "n1-email@app.example"
    assert (second.headers["idempotency-key"], second.body) == (first.headers["idempotency-key"], first.body)
    said = orjson.loads(first.body)
    assert (said["from"], said["to"], said["subject"]) == (
        "The App <bell@app.example>",
        ["Ada <ada@example.org>"],
        "Bob mentioned you",
    )
    assert "&lt;b&gt;" in said["html"]
    assert "<b>" in said["text"]
    assert said["headers"] == {
        "Message-ID": "<n1-email@app.example>",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": "<https://app.example/u>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


@pytest.mark.parametrize("said", ["", "no JSON", "[]", '{"id": null}', "x" * 100_000])
async def test_whatever_a_provider_says_with_a_success_the_mail_is_sent(said: str) -> None:
    async with web_service(always(200, said)) as service:
        await provider_send(service.url)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (429, "slow down", Kind.RATE_LIMITED),
        (500, "oops", Kind.UNAVAILABLE),
        (503, "x" * 100_000, Kind.UNAVAILABLE),
        (409, "under way", Kind.CONFLICT),
        (409, '{"name": "concurrent_idempotent_requests"}', Kind.CONFLICT),
        (409, '{"name": "invalid_idempotent_request"}', Kind.REFUSED),
        (401, "bad key", Kind.BAD_CONFIGURATION),
        (422, "bad mail", Kind.REFUSED),
    ],
)
async def test_a_providers_answer_is_classified(status: int, said: str, kind: Kind) -> None:
    async with web_service(always(status, said)) as service:
        error = await refused(lambda: provider_send(service.url))
    assert error.fault.kind is kind
    assert error.fault.message.startswith(f"{status} {said[:20]}")


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        (str(365 * 86_400), 10_800, 10_800),
        (formatdate(4_000_000_000, usegmt=True), 10_800, 10_800),
        (formatdate(0, usegmt=True), 0, 0),
    ],
)
async def test_a_provider_says_when_to_come_again(header: str, least: float, most: float) -> None:
    async with web_service(always(429, headers={"Retry-After": header})) as service:
        error = await refused(lambda: provider_send(service.url))
    assert least <= (error.fault.retry_after or 0) <= most


async def test_a_provider_that_hangs_costs_the_timeout_and_may_be_asked_again() -> None:
    never = asyncio.Event()

    async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    async with web_service(hang) as service:
        error = await refused(lambda: provider_send(service.url, timeout=0.1))
        never.set()
    assert (error.fault.kind, error.fault.transient) == (Kind.TIMEOUT, True)


async def test_no_redirect_of_a_provider_is_followed() -> None:
    elsewhere = web_service(always(200))
    async with elsewhere as other, web_service(always(307, headers={"Location": other.url})) as service:
        error = await refused(lambda: provider_send(service.url))
    assert error.fault.kind is Kind.BAD_CONFIGURATION
    assert not other.asked


async def test_garbage_from_a_provider_is_transient() -> None:
    async with scripted_server(b"\x00\xff nothing of HTTP\r\n\r\n", {}) as port:
        error = await refused(lambda: provider_send(f"http://127.0.0.1:{port}"))
    assert (error.fault.kind, error.fault.transient) == (Kind.GARBAGE, True)
