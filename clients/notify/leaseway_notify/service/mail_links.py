"""Where the links of a mail lead: unsubscribing, the page of preferences, and, with tracking, openings and clicks.

None needs a sign-in: what stands in the link is enough. A GET changes nothing that a reader would notice, since mail
servers follow links before their readers do.
"""

import base64
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from leaseway_notify.errors import Refused
from leaseway_notify.profile import Profile
from leaseway_notify.service.html import page
from leaseway_notify.service.preferences_form import changed, rows
from leaseway_notify.service.requests import body_of
from leaseway_notify.service.site import Site, site_of
from leaseway_notify.stores.base import TokenKind
from leaseway_notify.unsubscribe import Unsubscribe

MOST_FORM: Final = 16_384
_PIXEL: Final = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
_NO_STORE: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


async def opened(request: Request) -> Response:
    """`GET /o/TOKEN`: a picture of one point. It looks the same whether the token is one or not."""
    await _used(request, "open")
    return Response(_PIXEL, headers=_NO_STORE, media_type="image/gif")


async def clicked(request: Request) -> Response:
    """`GET /c/TOKEN`: leads to the link that the message had, and nowhere else: nothing of the request names it."""
    target = await _used(request, "click")
    if urlsplit(target).scheme not in ("http", "https"):
        return _over()
    return RedirectResponse(target, HTTPStatus.FOUND, _NO_STORE)


async def _used(request: Request, kind: TokenKind) -> str:
    """The target of a token of this kind; "" where there is none."""
    site = site_of(request)
    token = await site.store.use_token(request.path_params["token"], site.clock())
    return token.target if token is not None and token.kind == kind else ""


class UnsubscribeEndpoint(HTTPEndpoint):
    """`/u/TOKEN`."""

    async def get(self, request: Request) -> Response:
        """Asks, with a button. Changes nothing."""
        said = _read(request)
        if said is None or not said.type:
            return _over()
        return _fixed(said) if site_of(request).policies.urgent(said.type) else _asked(request, said)

    async def post(self, request: Request) -> Response:
        """No more of it, from now on (RFC 8058: in one click, without a redirect, whatever the body)."""
        return await _set(request, done=True)


async def undo_unsubscribe(request: Request) -> Response:
    """`POST /u/TOKEN/undo`: it was a mistake."""
    return await _set(request, done=False)


async def _set(request: Request, *, done: bool) -> Response:
    await body_of(request, MOST_FORM)
    site, said = site_of(request), _read(request)
    if said is None or not said.type:
        return _over()
    if site.policies.urgent(said.type):
        return _fixed(said)
    change = said.mute if done else said.unmute
    if await site.store.change_preferences(said.recipient, change) is None:
        return _over()
    return _asked(request, said, done=done, undone=not done)


def _asked(request: Request, said: Unsubscribe, *, done: bool = False, undone: bool = False) -> Response:
    token = request.path_params["token"]
    return page("unsubscribe.html.j2", type=said.type, token=token, done=done, undone=undone)


def _fixed(said: Unsubscribe) -> Response:
    """By now, or in a forged form, it is what nobody can refuse."""
    return page("fixed.html.j2", HTTPStatus.CONFLICT, type=said.type)


class PreferencesPage(HTTPEndpoint):
    """`/p/TOKEN`: the page of preferences."""

    async def get(self, request: Request) -> Response:
        """As they are."""
        site, profile = await _owner(request)
        return _over() if profile is None else _preferences(site, profile)

    async def post(self, request: Request) -> Response:
        """As the form says."""
        site, profile = await _owner(request)
        form = parse_qs((await body_of(request, MOST_FORM)).decode(errors="replace"), keep_blank_values=True)
        if profile is None:
            return _over()
        try:
            await site.store.change_preferences(profile.id, lambda before: changed(before, form, site.policies))
        except Refused as refused:
            return _preferences(site, profile, HTTPStatus.UNPROCESSABLE_ENTITY, fault=str(refused))
        site, profile = await _owner(request)
        return _over() if profile is None else _preferences(site, profile, saved=True)


def _preferences(site: Site, profile: Profile, status: HTTPStatus = HTTPStatus.OK, **told: object) -> Response:
    said: Mapping[str, object] = {"saved": False, "fault": "", **told}
    preferences = profile.preferences
    table = rows(preferences, site.policies)
    return page("preferences.html.j2", status, profile=profile, preferences=preferences, rows=table, **said)


async def _owner(request: Request) -> tuple[Site, Profile | None]:
    site, said = site_of(request), _read(request)
    return site, None if said is None or said.type else await site.store.profile(said.recipient)


def _read(request: Request) -> Unsubscribe | None:
    site = site_of(request)
    return Unsubscribe.read(request.path_params["token"], site.secret, site.clock())


def _over() -> Response:
    return page("over.html.j2", HTTPStatus.NOT_FOUND)
