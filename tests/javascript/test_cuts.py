"""Random cuts of the JavaScript client's connections; `make campaign-cuts` does a thousand."""

from pathlib import Path

from javascript.cuts import cut
from support.node import PATIENCE


async def test_every_end_is_seen_once_and_none_early(tmp_path: Path) -> None:
    assert (await cut(tmp_path, cuts=50, seed=1, patience=PATIENCE)).startswith("50 cuts")
