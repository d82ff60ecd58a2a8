"""The application: which path goes where. Nothing is decided here."""

from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from leaseway_notify.service import mail_links, programs, recipients, static
from leaseway_notify.service.desk import Desk
from leaseway_notify.service.live_socket import live_socket
from leaseway_notify.service.problems import HANDLERS
from leaseway_notify.service.requests import json_response


class _Plain(StringConvertor):
    """A part of a path, without control characters: PostgreSQL can be asked for no zero byte."""

    regex = r"[^/\x00-\x1f\x7f]+"


register_url_convertor("plain", _Plain())


async def health(_request: Request) -> Response:
    """`GET /_health`: the process is alive."""
    return json_response({"status": "ok"})


def create_app(desk: Desk) -> Starlette:
    """The ASGI application."""
    app = Starlette(
        routes=[*_PROGRAMS, *_RECIPIENTS, *_MAILS, *_PAGES],
        middleware=[
            Middleware(
                CORSMiddleware,  # No cookies are read anywhere: a page of another site needs a token as any other does.
                allow_origins=sorted(desk.settings.service.origins),
                allow_methods=["GET", "POST", "PUT"],
                allow_headers=["Authorization", "Content-Type"],
                max_age=3_600,
            )
        ],
        exception_handlers=HANDLERS,
    )
    app.router.redirect_slashes = False  # A redirect repeats what stands in the path, where tokens travel.
    app.state.desk = desk
    return app


_PROGRAMS = [
    Route("/notify", programs.notify, methods=["POST"]),
    Route("/profiles/{recipient:plain}", programs.Profiles),
    Route("/profiles/{recipient:plain}/work", programs.put_work, methods=["PUT"]),
    Route("/announce", programs.announce, methods=["POST"]),
    Route("/deliveries", programs.deliveries, methods=["GET"]),
    Route("/attention", programs.attention, methods=["GET"]),
    Route("/attention/{delivery:plain}/retry", programs.retry, methods=["POST"]),
    Route("/_health", health, methods=["GET"]),
]
_RECIPIENTS = [
    Route("/inbox", recipients.get_inbox, methods=["GET"]),
    WebSocketRoute("/inbox/live", live_socket),
    Route("/inbox/{verb:plain}", recipients.mark, methods=["POST"]),
    Route("/preferences", recipients.PreferencesEndpoint),
    Route("/preferences/page", recipients.preferences_page, methods=["POST"]),
    Route("/push", recipients.push_key, methods=["GET"]),
    Route("/push/subscriptions", recipients.subscribe, methods=["POST"]),
    Route("/push/subscriptions/remove", recipients.unsubscribe, methods=["POST"]),
]
_MAILS = [
    Route("/o/{token:plain}", mail_links.opened, methods=["GET"]),
    Route("/c/{token:plain}", mail_links.clicked, methods=["GET"]),
    Route("/u/{token:plain}", mail_links.UnsubscribeEndpoint),
    Route("/u/{token:plain}/undo", mail_links.undo_unsubscribe, methods=["POST"]),
    Route("/p/{token:plain}", mail_links.PreferencesPage),
]
_PAGES = [
    Route("/", static.inbox_page, methods=["GET"]),
    Route("/{file:plain}", static.file, methods=["GET"]),
]
