"""Events and profiles: what is taken, and what is refused with the member that it is about."""

from datetime import UTC, time
from typing import Any

import pytest

from leaseway_notify.errors import Refused
from leaseway_notify.event import Event, new_id
from leaseway_notify.profile import Mute, Preferences, Profile, PushSubscription, QuietHours

SAID: dict[str, Any] = {"type": "mention", "recipient": "ada", "title": "t"}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"type": "Mention"}, "type: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        ({"type": None}, "type: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        ({"recipient": ""}, "recipient: expected 1 to 200 characters, found 0"),
        ({"recipient": 7}, "recipient: expected a text, found int"),
        ({"actor": "a\nb"}, "actor: expected no control characters"),
        ({"context": "c" * 201}, "context: expected 0 to 200 characters, found 201"),
        ({"title": ""}, "title: expected 1 to 300 characters, found 0"),
        ({"title": "a\r\nBcc: eve@example.com"}, "title: expected no control characters"),
        ({"title": "a\u2028Bcc: eve@example.com"}, "title: expected no control characters"),
        ({"title": "a\x85b"}, "title: expected no control characters"),
        ({"body": "a\x85b"}, "body: expected no control characters"),
        ({"title": "\ud800"}, "title: half of a surrogate pair is no character"),
        ({"body": "b" * 10_001}, "body: expected 0 to 10000 characters, found 10001"),
        ({"body": "a\0b"}, "body: expected no control characters"),
        ({"priority": "high"}, "priority: expected one of low, normal, immediate"),
        ({"id": "a b"}, "id: expected 1 to 64 of A-Z, a-z, 0-9, _ and -"),
        ({"payload": []}, "payload: expected an object, found list"),
        ({"payload": {"a": float("nan")}}, "payload: a number is not finite"),
        ({"payload": {"a": [{"b": float("inf")}]}}, "payload: a number is not finite"),
        ({"payload": {"a": {1}}}, "payload: cannot be written as JSON: Type is not JSON serializable: set"),
        ({"payload": {1: 2}}, "payload: cannot be written as JSON: Dict key must be str"),
        ({"payload": {"text": "x" * 1_048_576}},
         "payload: has 1,048,587 bytes as JSON, and at most 65,536 are taken; refer to it instead"),
        ({"payload": {"url": "javascript:alert(1)"}},
         "payload.url: expected an http or https URL, or a path that begins with one slash"),
        ({"payload": {"url": "//evil.example"}},
         "payload.url: expected an http or https URL, or a path that begins with one slash"),
        ({"payload": {"url": "http://[::1"}},
         "payload.url: expected an http or https URL, or a path that begins with one slash"),
        ({"payload": {"url": 7}}, "payload.url: expected a text, found int"),
        ({"colour": "red"},
         "colour: unknown member; known here: type, recipient, title, body, actor, context, payload, priority, id"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_bad_event_is_refused_with_its_member(members: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as refused:
        Event.of(SAID | members)
    assert str(refused.value) == message
    assert refused.value.path == message.partition(":")[0]


def test_what_is_missing_or_no_event_at_all_is_refused() -> None:
    with pytest.raises(Refused, match=r"^title: is missing$"):
        Event.of({"type": "mention", "recipient": "ada"})
    with pytest.raises(Refused, match=r"^expected an object$"):
        Event.of([SAID])


def test_a_payload_of_any_depth_is_taken_or_refused() -> None:
    assert Event.of(SAID | {"payload": nested(100)}).payload == nested(100)
    with pytest.raises(Refused, match=r"^payload: cannot be written as JSON"):
        Event.of(SAID | {"payload": nested(100_000)})


def test_a_payload_is_a_copy_and_as_json_says_it() -> None:
    payload: dict[str, Any] = {"tuple": (1, 2), "url": "https://example.com/a?b"}
    event = Event.of(SAID | {"payload": payload})
    payload["more"] = 1
    assert event.payload == {"tuple": [1, 2], "url": "https://example.com/a?b"}


def test_a_body_has_lines_and_a_link_may_be_a_path() -> None:
    said = SAID | {"body": "a\n\tb\r\nc\u2028d", "payload": {"url": "/doc/1?a=b#c"}}
    assert Event.of(said).body == said["body"]


def test_ids_are_new_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert [one[:12] for one in ids] == sorted(one[:12] for one in ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Profile(""), "id: expected 1 to 200 characters, found 0"),
        (lambda: Profile("ada", zone="Mars/Base"),
         "zone: there is no time zone 'Mars/Base'; expected an IANA name such as Europe/Berlin"),
        (lambda: Profile("ada", zone=7),  # type: ignore[arg-type]
         "zone: expected a text, found int"),
        (lambda: Profile("ada", address="a\nb"), "address: expected no control characters"),
        (lambda: Profile("ada", working_on={"": 1}), "working_on: expected 1 to 200 characters, found 0"),
        (lambda: Profile("ada", working_on={"a": -1}), "working_on.a: expected a time in ms since the epoch"),
        (lambda: Mute(channel="fax"),  # type: ignore[arg-type]
         "mutes.channel: expected one of in_app, push, email"),
        (lambda: Mute(until=True), "mutes.until: expected a time in ms since the epoch"),
        (lambda: Mute(type="A"),
         "mutes.type: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        (lambda: QuietHours(time(1, tzinfo=UTC), time(2)),
         "quiet_hours.start: expected a time of the day without a zone"),
        (lambda: PushSubscription("1", "ftp://a", "k", "a"),
         "subscription.endpoint: expected an http or https URL"),
        (lambda: PushSubscription("1", "/own", "k", "a"), "subscription.endpoint: expected an http or https URL"),
        (lambda: PushSubscription("1", "https://a:0/", "k", "a"),
         "subscription.endpoint: expected an http or https URL"),
        (lambda: PushSubscription("1", "https://a:b/", "k", "a"),
         "subscription.endpoint: expected an http or https URL"),
        (lambda: Preferences(disabled=frozenset({"fax"})),  # type: ignore[arg-type]
         "disabled: expected one of in_app, push, email"),
    ],
)  # fmt: skip
def test_a_bad_profile_is_refused(make: Any, message: str) -> None:
    with pytest.raises(Refused) as refused:
        make()
    assert str(refused.value) == message


def test_preferences_come_back_from_their_json() -> None:
    wanted = Preferences(
        disabled=frozenset({"push", "email"}),
        mutes=(Mute(), Mute("chat", "c", "email", 7)),
        quiet_hours=QuietHours(time(22), time(7, 5)),
        collaborating=True,
    )
    assert Preferences.of(wanted.as_json()) == wanted
    assert Preferences.of({}) == Preferences.of(Preferences().as_json()) == Preferences()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (7, "expected an object"),
        ({"mute": []}, "mute: unknown; known here: collaborating, disabled, mutes, quietHours"),
        ({"mutes": {}}, "mutes: expected a list"),
        ({"mutes": [7]}, "mutes: expected an object"),
        ({"mutes": [{"type": []}]},
         "mutes.type: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        ({"mutes": [{"channel": None}]}, "mutes.channel: expected one of in_app, push, email"),
        ({"mutes": [{"context": None}]}, "mutes.context: expected a text, found NoneType"),
        ({"mutes": [{"who": 1}]}, "mutes.who: unknown; known here: channel, context, type, until"),
        ({"disabled": ["fax"]}, "disabled: expected one of in_app, push, email"),
        ({"disabled": [[]]}, "disabled: expected one of in_app, push, email"),
        ({"collaborating": 1}, "collaborating: expected true or false"),
        ({"quietHours": {"start": "22:00"}}, 'quietHours.end: expected a time of the day such as "22:00"'),
        ({"quietHours": {"start": "24:00", "end": "07:00"}},
         'quietHours.start: expected a time of the day such as "22:00"'),
    ],
)  # fmt: skip
def test_bad_preferences_are_refused(said: object, message: str) -> None:
    with pytest.raises(Refused) as refused:
        Preferences.of(said)
    assert str(refused.value) == message
