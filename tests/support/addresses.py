"""Texts that are no address of a mail."""

from typing import Final

NO_ADDRESSES: Final = [
    "ada",
    "@example.org",
    "ada@",
    "a b@example.org",
    "ada@example.org\r\nRCPT TO:<eve@example.net>",
    "ada@example.org, eve@example.net",
    "Ada <ada@example.org>",
    "ada@example..org",
    f"{'a' * 250}@example.org",
    "ada\x00@example.org",
    "ada@exa\u2028mple.org",
]
