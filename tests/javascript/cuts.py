"""Cuts the JavaScript client's connections at random moments and tells what came of it.

    python tests/javascript/cuts.py --cuts 1000

Every job's end is seen exactly once, none early, or this fails. The suite does 50.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from support.node import script  # noqa: E402
from support.server import running_server  # noqa: E402

TOML = """
[queues.cut]
retry = { max_losses = 1000 }
access = { post = "users", fetch = "users", work = "users", admin = ["alice"] }
"""


async def cut(folder: Path, cuts: int, seed: int, patience: float) -> str:
    """Cuts so often, and says what was done. Raises `AssertionError` where anything is wrong; `patience` in seconds."""
    async with (
        running_server(folder, TOML, users={"alice": []}) as server,
        script("cut-loop.js", f"{server.base_url}/cut", server.tokens["alice"], str(cuts), str(seed)) as running,
    ):
        return await running.says("did", patience)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Cuts the JavaScript client's connections at random moments.")
    parser.add_argument("--cuts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(cut(Path(folder), asked.cuts, asked.seed, patience=3_600)))


if __name__ == "__main__":
    main()
