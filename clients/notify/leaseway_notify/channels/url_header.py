"""`List-Unsubscribe` as it stands in a mail: a URL that is written as it is. Pure.

Python takes a header that it does not know for words, and encodes what is too long for a line (RFC 2047). In a URL
nobody decodes that, and one click would not unsubscribe. `MAIL` is the policy of mails that have such a header.
"""

from email.headerregistry import BaseHeader, HeaderRegistry, UnstructuredHeader
from email.policy import SMTP, Policy
from typing import Final

LINE: Final = 998
"""Characters of a line without its end (RFC 5322 §2.1.1)."""


class UrlHeader(UnstructuredHeader, BaseHeader):
    """On one line; what no line holds is broken, as readers know it (RFC 2369 §2)."""

    max_count = 1

    def fold(self, *, policy: Policy) -> str:
        """The header as it is sent."""
        head, url = f"{self.name}: ", str(self)
        first, room = LINE - len(head), LINE - 1  # A line that goes on begins with a space.
        parts = [url[:first], *(url[at : at + room] for at in range(first, len(url), room))]
        return f"{head}{f'{policy.linesep} '.join(parts)}{policy.linesep}"


_HEADERS: Final = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", UrlHeader)
MAIL: Final = SMTP.clone(header_factory=_HEADERS)
