"""Recipients' tokens: what they say, golden ones that any library makes, and all that is none of ours."""

import hmac
from hashlib import sha256
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_notify.notify_toml import settings_of
from leaseway_notify.recipient_token import BadToken, Recipient, read_token, recipient_token
from leaseway_notify.service.static import policy
from leaseway_notify.toml import SettingsRefused
from support.browser_keys import in_base64

SECRET = "0123456789abcdef0123456789abcdef"
NOW = 1_800_000_000.0


def made(claims: Any, head: Any = None, secret: str = SECRET) -> str:
    """A token as a library for JSON Web Tokens makes it, with these claims."""
    parts = [in_base64(orjson.dumps(part)) for part in (head or {"typ": "JWT", "alg": "HS256"}, claims)]
    said = ".".join(parts)
    return f"{said}.{in_base64(hmac.new(secret.encode(), said.encode(), sha256).digest())}"


@given(st.text(min_size=1, max_size=50).filter(str.isprintable), st.integers(1, 3_600))
def test_a_token_says_who_and_until_when(recipient: str, lifetime: int) -> None:
    token = recipient_token(SECRET, recipient, lifetime, NOW)
    assert read_token(token, SECRET, NOW) == Recipient(recipient, int(NOW) + lifetime)


def test_another_maker_s_tokens_are_read() -> None:
    claims = {"sub": "ada", "exp": int(NOW) + 60, "aud": ["other", "leaseway-notify"], "iat": int(NOW), "name": "Ada"}
    assert read_token(made(claims), SECRET, NOW) == Recipient("ada", int(NOW) + 60)


GOOD = {"sub": "ada", "exp": int(NOW) + 60, "aud": "leaseway-notify"}


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (made(GOOD, {"alg": "none"}), "HS256"),
        (made(GOOD, {"alg": "HS512"}), "HS256"),
        (made(GOOD, [1]), "HS256"),
        (made(GOOD).rpartition(".")[0] + ".", "signature"),
        (made(GOOD, secret=""), "signature"),
        (made([]), "aud"),
        (made({**GOOD, "aud": "other"}), "aud"),
        (made({**GOOD, "sub": ""}), "sub"),
        (made({**GOOD, "sub": 7}), "sub"),
        (made({**GOOD, "exp": True}), "exp"),
        (made({**GOOD, "exp": NOW + 60.5}), "exp"),
        (made({**GOOD, "exp": int(NOW)}), "time is over"),
        (made({**GOOD, "exp": int(NOW) + 3_700}), "too long"),
        ("", "JSON Web Token"),
        ("ü.ü.ü", "JSON Web Token"),
        ("." * 100, "JSON Web Token"),
    ],
)
def test_what_does_not_hold_is_refused_and_not_repeated(token: str, why: str) -> None:
    with pytest.raises(BadToken, match=why) as refused:
        read_token(token, SECRET, NOW)
    assert token not in str(refused.value) or not token.strip(".")


@pytest.mark.parametrize("lifetime", [0, -1, 3_601])
def test_no_token_for_longer_than_an_hour(lifetime: int) -> None:
    with pytest.raises(ValueError, match="1 to 3600 seconds"):
        recipient_token(SECRET, "ada", lifetime)


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"token": "short"}, "service.token: expected at least 32"),
        ({"secret": "ü" * 40}, "service.secret: expected at least 32 characters of ASCII"),
        ({"secret": "x" * 32, "token": "x" * 32}, "service.secret: expected another text"),
        ({"origins": ["https://app.example.com/path"]}, "service.origins: expected a site"),
        ({"origins": ["*"]}, "service.origins: expected a site"),
        ({"token_url": "/token"}, "service.token_url: expected a URL"),
        ({"internal_url": "ws://x"}, "service.internal_url: expected a URL"),
    ],
)
def test_bad_settings_of_the_service_are_refused(said: dict[str, Any], where: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        settings_of({"service": said})
    assert where in str(refused.value)
    assert all(secret not in str(refused.value) for name, secret in said.items() if name in ("secret", "token"))


def test_the_application_may_be_asked_for_tokens_and_nobody_else() -> None:
    service = settings_of({"service": {"token_url": "https://app.example.com/notify-token?a=b"}}).service
    assert "connect-src 'self' https://app.example.com;" in policy(service)
