"""What the tests of the engine share: an engine on either store, and quiet where faults are asked for."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.bench import Bench, open_bench


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on either store."""
    async with open_bench(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as bench:
        yield bench


@pytest.fixture
def quiet() -> Iterator[None]:
    """Faults that a test asks for need no tracebacks."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
