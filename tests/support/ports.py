"""Ports of this machine, for programs that must be told one before they start."""

import secrets
import socket
from contextlib import suppress
from typing import Final

_PORTS: Final = range(12_000, 30_000)
"""Below those that systems give to whoever asks for any: between a look and a start thousands may be given."""


def free_port() -> int:
    """A port of loopback that nobody has at the moment, and that nobody gets by chance."""
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
