"""What other programs ask: notify, say who a recipient is, tell of something new in an inbox, and look for trouble."""

from http import HTTPStatus
from typing import Any, Final, cast

from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import Response

from leaseway_notify.checks import check_name, check_time
from leaseway_notify.delivery import ATTENTION, ENDED, OPEN
from leaseway_notify.errors import Refused, UnknownRecipient
from leaseway_notify.event import Event
from leaseway_notify.mail_address import check_mail_address
from leaseway_notify.profile import Channel, Profile, check_channel
from leaseway_notify.service.problems import Problem, not_found
from leaseway_notify.service.requests import json_body, json_response, members_of, portion_of, program, text_of, wrong
from leaseway_notify.service.shown import plan_shown, sending_shown
from leaseway_notify.service.site import Site
from leaseway_notify.stores.base import DeliveryFilter

MOST_EVENTS: Final = 1_000
_LABELS: Final = (*OPEN, "retrying", *ENDED)


async def notify(request: Request) -> Response:
    """`POST /notify`: an event, or an array of them, which are taken all or none.

    201 with what became of each; an event that is said again under its `id` gets what it got before.
    """
    site = program(request)
    said = await json_body(request)
    if not isinstance(said, list):
        (plan,) = await site.notifier.notify_many([Event.of(said)])
        return json_response(plan_shown(plan), HTTPStatus.CREATED)
    if not 1 <= len(said) <= MOST_EVENTS:
        raise wrong("", f"expected 1 to {MOST_EVENTS} events, found {len(said)}")
    plans = await site.notifier.notify_many([_event(number, one) for number, one in enumerate(said)])
    return json_response([plan_shown(plan) for plan in plans], HTTPStatus.CREATED)


def _event(number: int, said: object) -> Event:
    try:
        return Event.of(said)
    except Refused as refused:
        raise Refused(f"{number}.{refused.path}".rstrip("."), refused.message) from None


class Profiles(HTTPEndpoint):
    """`/profiles/ID`: who a recipient is."""

    async def get(self, request: Request) -> Response:
        """As it is kept."""
        return await _profile(program(request), request)

    async def put(self, request: Request) -> Response:
        """Its address, name and zone; preferences and browsers stay as they are."""
        site = program(request)
        said = await members_of(request, "address", "name", "zone")
        profile = Profile(request.path_params["recipient"], **said)
        check_mail_address(profile.address)
        await site.store.save_contact(profile)
        return await _profile(site, request)

    async def delete(self, request: Request) -> Response:
        """Everything that is kept of the recipient goes, and nothing more is sent to them."""
        if not await program(request).store.forget(request.path_params["recipient"]):
            raise not_found("there is no profile of this recipient")
        return Response(status_code=HTTPStatus.NO_CONTENT)


async def _profile(site: Site, request: Request) -> Response:
    profile = await site.store.profile(request.path_params["recipient"])
    if profile is None:
        raise not_found("there is no profile of this recipient")
    return json_response(
        {
            "id": profile.id,
            "address": profile.address,
            "name": profile.name,
            "zone": profile.zone,
            "preferences": profile.preferences.as_json(),
            "browsers": len(profile.subscriptions),
        }
    )


async def put_work(request: Request) -> Response:
    """`PUT /profiles/ID/work`: the recipient is at work on a context, until a time."""
    site = program(request)
    said = await members_of(request, "context", "until")
    context, until, recipient = said.get("context"), said.get("until"), request.path_params["recipient"]
    check_name("context", context)
    check_time("until", until)
    try:
        await site.store.set_working_on(recipient, str(context), cast(int, until))
    except UnknownRecipient:
        raise not_found("there is no profile of this recipient") from None
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def announce(request: Request) -> Response:
    """`POST /announce`: a worker has put something into these recipients' inboxes."""
    site = program(request)
    recipients = (await members_of(request, "recipients")).get("recipients")
    if not isinstance(recipients, list) or not all(isinstance(one, str) for one in recipients):
        raise wrong("recipients", "expected a list of recipients")
    site.live.announce(recipients)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def deliveries(request: Request) -> Response:
    """`GET /deliveries`: the log, newest first; `status`, `recipient`, `channel` and `notification` narrow it."""
    site = program(request, "status", "recipient", "channel", "notification", "limit", "before")
    asked = request.query_params
    label = asked.get("status", "")
    if label and label not in _LABELS:
        raise wrong("status", f"expected one of {', '.join(_LABELS)}")
    channel = check_channel("channel", asked["channel"]) if "channel" in asked else cast(Channel, "")
    wanted = DeliveryFilter(label, text_of(request, "recipient"), channel, text_of(request, "notification"))
    found = await site.store.deliveries(wanted, portion_of(request), text_of(request, "before"))
    return json_response({"deliveries": [sending_shown(one) for one in found]})


async def attention(request: Request) -> Response:
    """`GET /attention`: what a person should look at: failed ones, which cannot succeed as they are, and dead ones."""
    site = program(request, "limit", "before")
    found = await site.store.attention(portion_of(request), text_of(request, "before"))
    counts = await site.store.counts()
    shown: dict[str, Any] = {
        status: [sending_shown(one) for one in found if one.delivery.status == status] for status in ATTENTION
    }
    return json_response({**shown, "counts": {status: counts.get(status, 0) for status in ATTENTION}})


async def retry(request: Request) -> Response:
    """`POST /attention/ID/retry`: begins one of those anew."""
    site = program(request)
    opened = await site.store.reopen(request.path_params["delivery"], site.clock())
    if opened is None:
        raise Problem(HTTPStatus.CONFLICT, "conflict", "the delivery is neither failed nor dead, or there is none")
    await site.outbox.post([opened])
    return json_response({"id": opened.id, "status": opened.label})
