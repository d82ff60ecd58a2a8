"""Pytest finds `leaseway_server` here, by itself, wherever Leaseway is installed.

Nothing else is registered, and the server is imported when a test first asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leaseway.testing import Served


@pytest.fixture
def leaseway_server() -> Iterator[Served]:
    """A real Leaseway server with one queue, `demo`, open to everyone; see `leaseway.testing`."""
    from leaseway.testing import serving

    with serving() as served:
        yield served
