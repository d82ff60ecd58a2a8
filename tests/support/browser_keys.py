"""A browser of the tests: it subscribes to pushes, reads what was encrypted for it, and checks who signed it."""

import base64
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

import http_ece  # type: ignore[import-untyped]
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from leaseway_notify.profile import PushSubscription
from support.web_service import Asked


@dataclass
class Browser:
    """Its keys never leave it."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    secret: bytes = field(default_factory=lambda: token_bytes(16))

    def subscription(self, endpoint: str, name: str = "b1") -> PushSubscription:
        """What it tells the page."""
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return PushSubscription(name, endpoint, in_base64(point), in_base64(self.secret))

    def read(self, asked: Asked) -> Any:
        """What a push says."""
        assert asked.headers["content-encoding"] == "aes128gcm"
        return orjson.loads(self.decrypt(asked.body))

    def decrypt(self, body: bytes) -> bytes:
        """What was encrypted for it."""
        return bytes(http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret))


def claims(asked: Asked, public: str) -> Any:
    """What the sender signed (RFC 8292). Raises `InvalidSignature` where another key did."""
    scheme, _, rest = asked.headers["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert (scheme, parts["k"]) == ("vapid", public)
    said, _, signature = parts["t"].rpartition(".")
    numbers = from_base64(signature)
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), from_base64(public))
    first, second = (int.from_bytes(half, "big") for half in (numbers[:32], numbers[32:]))
    point.verify(encode_dss_signature(first, second), said.encode(), ec.ECDSA(SHA256()))
    head, body = said.split(".")
    assert orjson.loads(from_base64(head)) == {"typ": "JWT", "alg": "ES256"}
    return orjson.loads(from_base64(body))


def in_base64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """What was written so."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
