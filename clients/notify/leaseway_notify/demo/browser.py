"""The demo's browser: the keys of a subscription, and what was pushed to it, decrypted as a browser would."""

from secrets import token_bytes
from typing import Any

import http_ece  # type: ignore[import-untyped]
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from leaseway_notify.base64url import in_base64


class Browser:
    """Its private key never leaves it."""

    def __init__(self) -> None:
        self.pushes: list[dict[str, Any]] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = token_bytes(16)

    def subscription(self, endpoint: str) -> dict[str, Any]:
        """What a browser's `PushSubscription` says as JSON."""
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {"endpoint": endpoint, "keys": {"p256dh": in_base64(point), "auth": in_base64(self._secret)}}

    def take(self, body: bytes) -> None:
        """A push has come. Raises what `http_ece` does for one that is not encrypted for this browser."""
        said = http_ece.decrypt(body, private_key=self._key, auth_secret=self._secret, version="aes128gcm")
        self.pushes.append(orjson.loads(said))
