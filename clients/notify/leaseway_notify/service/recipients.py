"""What a recipient's pages ask: the inbox, what was read, preferences, and browsers that take pushes."""

from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, get_args

from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import Response

from leaseway_notify.channels.subscription_keys import check_keys
from leaseway_notify.checks import check_id, check_link
from leaseway_notify.classify import NotSent
from leaseway_notify.errors import Refused, UnknownRecipient
from leaseway_notify.outbound import Outbound
from leaseway_notify.profile import Preferences, Profile, PushSubscription
from leaseway_notify.service.problems import Problem, not_found
from leaseway_notify.service.requests import (
    flag_of,
    json_body,
    json_response,
    members_of,
    number_of,
    portion_of,
    recipient,
    wrong,
)
from leaseway_notify.service.shown import entry_shown
from leaseway_notify.service.site import Site
from leaseway_notify.stores.base import InboxVerb
from leaseway_notify.unsubscribe import Unsubscribe

MOST_MARKED: Final = 1_000
MOST_MUTES: Final = 1_000
MOST_BROWSERS: Final = 20
PAGE_HOLDS: Final = 15 * 60_000
"""ms that the link to the page of preferences holds, which an open page asks for."""


async def get_inbox(request: Request) -> Response:
    """`GET /inbox`: entries, newest first; `before` is the number of the last one that was seen.

    `known` is false where nobody has said who the recipient is: nothing can come then.
    """
    site, me = recipient(request, "unread", "archived", "limit", "before")
    limit = portion_of(request)
    entries = await site.store.inbox(
        me,
        limit,
        before=number_of(request, "before", 0, 2**53),
        archived=flag_of(request, "archived"),
        unread=flag_of(request, "unread"),
    )
    more = entries[-1].number if len(entries) == limit else None
    shown = [entry_shown(entry) for entry in entries]
    known = await site.store.profile(me) is not None
    return json_response({"entries": shown, "unread": await site.store.unread(me), "before": more, "known": known})


async def mark(request: Request) -> Response:
    """`POST /inbox/read`, `unread`, `archive` or `unarchive`: `ids` of notifications, or `"all": true`."""
    site, me = recipient(request)
    verb = _verb(request.path_params["verb"])
    ids = _marked(await members_of(request, "ids", "all"))
    changed = await site.store.mark_inbox(me, verb, ids, site.clock())
    site.live.marked(me, verb, ids)
    return json_response({"changed": changed, "unread": await site.store.unread(me)})


def _verb(said: str) -> InboxVerb:
    for verb in get_args(InboxVerb):
        if verb == said:
            return verb  # type: ignore[no-any-return]
    raise not_found(f"an inbox knows {', '.join(get_args(InboxVerb))}")


def _marked(said: dict[str, Any]) -> list[str] | None:
    """The ids, None for all."""
    if said.get("all") is True and "ids" not in said:
        return None
    ids = said.get("ids")
    if "all" in said or not isinstance(ids, list):
        raise wrong("ids", 'expected a list of ids, or "all": true instead')
    for one in ids:
        check_id("ids", one)
    if not 1 <= len(ids) <= MOST_MARKED:
        raise wrong("ids", f"expected 1 to {MOST_MARKED:,} ids, found {len(ids)}")
    return ids


class PreferencesEndpoint(HTTPEndpoint):
    """`/preferences`."""

    async def get(self, request: Request) -> Response:
        """As they are."""
        site, me = recipient(request)
        return json_response((await _profile(site, me)).preferences.as_json())

    async def put(self, request: Request) -> Response:
        """All of them, in place of what there was."""
        site, me = recipient(request)
        wanted = Preferences.of(await json_body(request))
        if len(wanted.mutes) > MOST_MUTES:  # Nobody else is counted: who unsubscribes is never turned away.
            raise wrong("mutes", f"expected a list of at most {MOST_MUTES}, found {len(wanted.mutes)}")
        if await site.store.change_preferences(me, lambda _: wanted) is None:
            raise UnknownRecipient(me)
        return json_response(wanted.as_json())


async def preferences_page(request: Request) -> Response:
    """`POST /preferences/page`: a link to the page of preferences, which needs no token and holds for a while."""
    site, me = recipient(request)
    await _profile(site, me)
    said = Unsubscribe(me, "", "in_app", site.clock() + PAGE_HOLDS)
    return json_response({"url": f"{site.settings.service.public_url}/p/{said.token(site.secret)}"})


async def push_key(request: Request) -> Response:
    """`GET /push`: what a browser subscribes with; null where there are no pushes."""
    site, _ = recipient(request)
    return json_response({"publicKey": site.push_key or None})


async def subscribe(request: Request) -> Response:
    """`POST /push/subscriptions`: what the browser's `PushSubscription` says as JSON."""
    site, me = recipient(request)
    if not site.push_key:
        raise Problem(HTTPStatus.CONFLICT, "conflict", "there are no pushes here: push.keys of notify.toml is not set")
    said = await members_of(request, "endpoint", "keys", "expirationTime")
    subscription = _subscription(said, loopback=site.settings.push.allow_private)
    known = [one.endpoint for one in (await _profile(site, me)).subscriptions]
    if subscription.endpoint not in known and len(known) >= MOST_BROWSERS:
        detail = f"{MOST_BROWSERS} browsers take pushes already, which is the most; remove one"
        raise Problem(HTTPStatus.CONFLICT, "limit", detail)
    await site.store.add_subscription(me, subscription)
    return json_response({"id": subscription.id}, HTTPStatus.CREATED)


async def unsubscribe(request: Request) -> Response:
    """`POST /push/subscriptions/remove`: this browser, one's own, takes no pushes any more."""
    site, me = recipient(request)
    endpoint = (await members_of(request, "endpoint")).get("endpoint")
    check_link("endpoint", endpoint)
    own = {one.endpoint for one in (await _profile(site, me)).subscriptions}
    removed = endpoint in own and await site.store.remove_subscription(str(endpoint))
    return json_response({"removed": removed})


def _subscription(said: dict[str, Any], *, loopback: bool) -> PushSubscription:
    """The subscription, if pushes can be encrypted for it and sent there."""
    keys, endpoint = said.get("keys"), said.get("endpoint")
    if not isinstance(keys, dict):
        raise Refused("keys", "expected an object with p256dh and auth")
    name = sha256(str(endpoint).encode(errors="replace")).hexdigest()[:16]
    read: Any = (name, endpoint, keys.get("p256dh"), keys.get("auth"))
    one = PushSubscription(*read)  # It checks them.
    try:
        Outbound(loopback=loopback).check(one.endpoint)
    except NotSent as error:
        raise Refused("endpoint", error.fault.message) from None
    try:
        check_keys(one)
    except NotSent as error:
        raise Refused("keys", error.fault.message) from None
    return one


async def _profile(site: Site, me: str) -> Profile:
    profile = await site.store.profile(me)
    if profile is None:
        raise UnknownRecipient(me)
    return profile
