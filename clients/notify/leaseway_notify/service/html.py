"""The pages without scripts, made of templates that escape everything. Their words are in `pages/*.html.j2`."""

from functools import cache
from http import HTTPStatus
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from leaseway_notify.service.preferences_form import others

SECURITY: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}
_CHANNELS: Final = {"in_app": "In the app", "push": "Push", "email": "Email"}


def page(name: str, status: HTTPStatus = HTTPStatus.OK, **values: object) -> Response:
    """A page of a template."""
    text = _templates().get_template(name).render(values)
    return Response(text, status, SECURITY, "text/html; charset=utf-8")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("leaseway_notify", "service/pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["channel"] = _CHANNELS.__getitem__
    environment.filters["others"] = others
    return environment
