"""The HTTP client of tests whose server is on this machine, in plain HTTP.

Owns how such a client is made, and nothing of what is asked with it.
"""

import ssl
from functools import cache

import httpx


def http_client(base_url: str, timeout: float = 30) -> httpx.AsyncClient:
    """A client for what is below `base_url`, past any proxy; `timeout` in seconds."""
    return httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=timeout, verify=_certificates())


@cache
def _certificates() -> ssl.SSLContext:
    """One for all: each client would spend 25 ms on reading the certificates of all authorities for itself."""
    return ssl.create_default_context()
