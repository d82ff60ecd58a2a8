"""docs/programs.md says what the code does: its names and its numbers."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from leaseway.cli import program, work_told
from leaseway.cli.work import work

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/programs.md").read_text(encoding="utf-8")


def test_the_names_are_those_that_a_program_gets() -> None:
    job: Any = SimpleNamespace(id="a", attempts=1, checkpoint=None, meta=None)
    given = {name for name in program._environment(job) if name.startswith("LEASEWAY_")}
    assert set(re.findall(r"^\| `(LEASEWAY_\w+)`", PAGE, re.MULTILINE)) == given


def test_the_numbers_are_those_of_the_code() -> None:
    defaults = {option.name: option.default for option in work.params}
    assert f"`--kill-after` ({defaults['kill_after']})".replace("3s", "3 s") in PAGE
    assert f"`--grace` ({defaults['grace']})".replace("30s", "30 s") in PAGE
    assert f"{program.EX_DATAERR}, or one of `--permanent-exit`" in PAGE
    assert f"at most {program.LONGEST_RECORD // 1024} KiB" in PAGE
    assert f"claimed again after {program.START_AGAIN:.0f} s" in PAGE
    assert program.LAST_WORDS == 1, "one second more"


def test_the_ends_are_those_that_are_told() -> None:
    table = PAGE.partition("| `end` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(work_told._ENDS)
