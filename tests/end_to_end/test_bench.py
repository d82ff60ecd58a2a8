"""`leaseway bench`, small: real servers, real figures, and nothing left behind."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from leaseway_server.bench.figures import HEAD, Figure
from leaseway_server.bench.machine import Machine, _filesystem
from leaseway_server.bench.process import NotStarted, serving

COMMAND = "from leaseway.cli import main; main()"


async def test_each_measurement_is_made_and_nothing_is_left(tmp_path: Path) -> None:
    words = ["bench", "--items", "40", "--lanes", "4", "--folder", str(tmp_path), "--json"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, *words, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    assert [(figure["name"], figure["items"]) for figure in told["figures"]] == [
        ("echo of the same frames", 40),
        ("4 lanes, a frame a message", 40),
        ("4 lanes, batch", 40),
        ("4 lanes, posted over HTTP", 40),
        ("a lone item", 40),
        ("posted in arrays of 40", 40),
    ]
    for figure in told["figures"]:
        assert figure["itemsPerSecond"] > 0
        assert 0 < figure["p50Ms"] <= figure["p99Ms"]
        assert figure["serverCpuUs"] >= 0
    assert told["machine"]["cores"] >= 1
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


async def test_what_does_not_serve_is_told_with_its_last_words() -> None:
    with pytest.raises(NotStarted, match="--nonsense"):
        async with serving("leaseway_server", "--nonsense"):
            pytest.fail("it serves")


def test_a_figure_is_what_was_timed() -> None:
    latencies = [0.004, 0.001, *[0.002] * 98]
    figure = Figure.of("some", 1_000, latencies, seconds=0.5, cpu=0.1)
    assert figure == Figure("some", 1_000, 2_000, 100.0, 2.0, 4.0)
    assert figure.line().split() == ["some", "2,000", "100.0", "2.0", "4.0"]
    assert len(figure.line()) == len(HEAD)


def test_where_commits_cost_nothing_the_figures_flatter() -> None:
    on = {kind: Machine(2, "3", "3", kind).flatters for kind in ("tmpfs", "ext4", "overlay")}
    assert on == {"tmpfs": True, "ext4": False, "overlay": False}
    assert Machine.found(Path("/proc")).filesystem == "proc"


def test_where_the_mounts_do_not_have_the_root_its_kind_is_unknown(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\n", encoding="utf-8")
    assert _filesystem(tmp_path, mounts) == "a disk unknown"
    assert _filesystem(Path("/proc"), mounts) == "proc"
