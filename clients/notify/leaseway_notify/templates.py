"""The words of an email: Jinja2 templates, the package's own or an operator's folder of the same names.

For a type `chat`, `chat.html.j2` is taken before `email.html.j2`, and so for `.txt.j2` and `.subject.j2`: each by
itself, so that a type may have its own HTML and the plain text of all. In HTML everything is escaped. Pure but for
reading the files; what is put in is `channels/email.py`'s.
"""

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from jinja2.exceptions import TemplateError, TemplateNotFound, TemplateSyntaxError

from leaseway_notify.classify import Kind, NotSent

PREHEADER_LENGTH: Final = 120
"""Characters of the line that a mailbox shows beside the subject."""


@dataclass(frozen=True, slots=True)
class Words:
    """An email's subject and both bodies."""

    subject: str
    text: str
    html: str


class Templates:
    """The templates of a folder, or where it has none of a name, the package's."""

    def __init__(self, folder: Path | None = None) -> None:
        """Raises `ValueError` where there is no such folder: the package's would be sent instead, and nobody told."""
        if folder is not None and not folder.is_dir():
            raise ValueError(f"{folder}: there is no such folder of templates (email.templates)")
        loaders: list[BaseLoader] = [FileSystemLoader(folder)] if folder else []
        loader = ChoiceLoader([*loaders, PackageLoader("leaseway_notify", "mail_templates")])
        self._html = _environment(loader, autoescape=True)
        self._text = _environment(loader, autoescape=False)

    def render(self, type_: str, values: dict[str, Any]) -> Words:
        """Raises `NotSent` of the kind `broken_template`, with the template's name and line."""
        return Words(
            subject=_render(self._text, type_, "subject", values).strip(),
            text=_render(self._text, type_, "txt", values),
            html=_render(self._html, type_, "html", values),
        )


def _environment(loader: BaseLoader, *, autoescape: bool) -> Environment:
    environment = Environment(
        loader=loader,
        autoescape=autoescape,  # noqa: S701  off for plain text alone, which nothing reads as HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(link=link, date=date, preheader=preheader)
    return environment


def _render(environment: Environment, type_: str, part: str, values: dict[str, Any]) -> str:
    names = [f"{type_}.{part}.j2", f"email.{part}.j2"]
    try:
        return environment.select_template(names).render(values)
    except TemplateSyntaxError as error:
        raise _broken(error.name or names[0], error.lineno, error.message) from None
    except TemplateNotFound as error:
        raise NotSent(Kind.BROKEN_TEMPLATE, f"there is no template {error.message}") from None
    except Exception as error:  # noqa: BLE001  it is the operator's code, and anything may come of it
        name, line = _place(error, names)
        raise _broken(name, line, error.message if isinstance(error, TemplateError) else repr(error)) from None


def _broken(name: str, line: int, message: str | None) -> NotSent:
    return NotSent(Kind.BROKEN_TEMPLATE, f"{name}, line {line}: {message}")


def _place(error: Exception, names: list[str]) -> tuple[str, int]:
    """The innermost line of a template that the error came through."""
    lines = [(Path(frame.filename).name, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    return [(names[0], 0), *(line for line in lines if line[0].endswith(".j2"))][-1]


def link(url: str) -> str:
    """An address that a reader may be sent to; "" for a scheme that does something else, such as javascript:."""
    return url if urlsplit(url).scheme in ("https", "http") else ""


def date(ms: int) -> str:
    """A moment as mails say it, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %B %Y, %H:%M UTC")


def preheader(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= PREHEADER_LENGTH else f"{line[: PREHEADER_LENGTH - 1]}…"
