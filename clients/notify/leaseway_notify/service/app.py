"""The application: which path goes where. Nothing is decided here."""

from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from leaseway_notify.service import mail_links, programs, recipients, static
from leaseway_notify.service.live_socket import live_socket
from leaseway_notify.service.problems import HANDLERS
from leaseway_notify.service.requests import json_response
from leaseway_notify.service.site import Site


class Name(StringConvertor):
    """A part of a path without control characters: with a NUL no database can be asked for it, and it leads nowhere."""

    regex = r"[^/\x00-\x1f\x7f]+"


register_url_convertor("name", Name())


async def health(_request: Request) -> Response:
    """`GET /_health`: the process is alive."""
    return json_response({"status": "ok"})


def create_app(site: Site) -> Starlette:
    """The ASGI application."""
    app = Starlette(
        routes=[*_PROGRAMS, *_RECIPIENTS, *_MAILS, *_PAGES],
        middleware=[
            Middleware(
                CORSMiddleware,  # No cookies are read anywhere: a page of another site needs a token as any other does.
                allow_origins=sorted(site.settings.service.origins),
                allow_methods=["GET", "POST", "PUT"],
                allow_headers=["Authorization", "Content-Type"],
                max_age=3_600,
            )
        ],
        exception_handlers=HANDLERS,
    )
    app.router.redirect_slashes = False  # A redirect repeats what stands in the path, where tokens travel.
    app.state.site = site
    return app


_PROGRAMS = [
    Route("/notify", programs.notify, methods=["POST"]),
    Route("/profiles/{recipient:name}", programs.Profiles),
    Route("/profiles/{recipient:name}/work", programs.put_work, methods=["PUT"]),
    Route("/announce", programs.announce, methods=["POST"]),
    Route("/deliveries", programs.deliveries, methods=["GET"]),
    Route("/attention", programs.attention, methods=["GET"]),
    Route("/attention/{delivery:name}/retry", programs.retry, methods=["POST"]),
    Route("/_health", health, methods=["GET"]),
]
_RECIPIENTS = [
    Route("/inbox", recipients.get_inbox, methods=["GET"]),
    WebSocketRoute("/inbox/live", live_socket),
    Route("/inbox/{verb:name}", recipients.mark, methods=["POST"]),
    Route("/preferences", recipients.PreferencesEndpoint),
    Route("/preferences/page", recipients.preferences_page, methods=["POST"]),
    Route("/push", recipients.push_key, methods=["GET"]),
    Route("/push/subscriptions", recipients.subscribe, methods=["POST"]),
    Route("/push/subscriptions/remove", recipients.unsubscribe, methods=["POST"]),
]
_MAILS = [
    Route("/o/{token:name}", mail_links.opened, methods=["GET"]),
    Route("/c/{token:name}", mail_links.clicked, methods=["GET"]),
    Route("/u/{token:name}", mail_links.UnsubscribeEndpoint),
    Route("/u/{token:name}/undo", mail_links.undo_unsubscribe, methods=["POST"]),
    Route("/p/{token:name}", mail_links.PreferencesPage),
]
_PAGES = [
    Route("/", static.inbox_page, methods=["GET"]),
    Route("/{file:name}", static.file, methods=["GET"]),
]
