"""base64url without padding (RFC 4648 §5), as tokens and keys of the web have it. Pure."""

import base64


def in_base64(data: bytes) -> str:
    """Bytes as text."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """Text as bytes, with padding or without. Raises `ValueError`."""
    bare = text.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
