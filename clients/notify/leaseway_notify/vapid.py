"""VAPID (RFC 8292): the key with which an application server signs what it tells a push service.

Owns the key's file and the signed headers. What is sent with them is `channels/push.py`'s.
"""

import os
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from py_vapid.jwt import sign  # type: ignore[import-untyped]

from leaseway_notify.base64url import in_base64
from leaseway_notify.checks import is_contact

VALID: Final = 12 * 3600
"""Seconds that a signature counts; push services take 24 hours at most."""
RENEWED: Final = VALID / 2
"""Seconds after which it is made anew: Apple wants none that is younger than another by less than an hour."""
ORIGINS: Final = 1_000
"""Signatures that are kept; one for each push service."""
_CURVE: Final = ec.SECP256R1()


class BadKey(ValueError):
    """A file holds no VAPID key, or none could be written; the message names it."""


class VapidKey:
    """A private key and what can be told with it. `subject` is a mailto: or https: address of who runs this."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, subject: str) -> None:
        """Raises `ValueError` for a subject that push services refuse."""
        if not is_contact(subject):
            raise ValueError(f'expected a subject such as "mailto:ops@example.com", found {subject!r}')
        self._key = key
        self._subject = subject
        self._signed: dict[str, tuple[float, str]] = {}

    @classmethod
    def read(cls, path: Path, subject: str) -> Self:
        """The key of a PEM file. Raises `BadKey`, and `ValueError` for the subject."""
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise BadKey(f"{path}: the VAPID key cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise BadKey(f"{path}: is no private key in PEM without a password") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != _CURVE.name:
            raise BadKey(f"{path}: is no key of the curve P-256, which VAPID needs")
        return cls(key, subject)

    @property
    def public(self) -> str:
        """What a page subscribes with (`applicationServerKey`): the public key, in base64url."""
        return in_base64(self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    def authorization(self, endpoint: str, now: float) -> str:
        """The `Authorization` header for an endpoint; `now` in seconds since the epoch. One is used for hours."""
        parts = urlsplit(endpoint)
        origin = f"{parts.scheme}://{parts.netloc}"
        signed_at, header = self._signed.get(origin, (0.0, ""))
        if not header or not 0 <= now - signed_at < RENEWED:
            claims = {"aud": origin, "exp": int(now) + VALID, "sub": self._subject}
            header = f"vapid t={sign(claims, self._key)}, k={self.public}"
            if len(self._signed) >= ORIGINS:
                self._signed.clear()
            self._signed[origin] = (now, header)
        return header


def new_key(path: Path) -> None:
    """Writes a new private key that its owner alone may read. Raises `BadKey`, also where there is a file already."""
    pem = ec.generate_private_key(_CURVE).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    except FileExistsError:
        raise BadKey(f"{path}: there is a file already; a new key would end all subscriptions to the old one") from None
    except OSError as error:
        raise BadKey(f"{path}: cannot be written: {error.strerror}") from None
