"""The screens of the README: they are there, load nothing from elsewhere, and show what the commands show now."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.terminal import Terminal
from leaseway.cli.top.tables import queue_heads

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "docs" / "screens"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def text_of(name: str) -> str:
    """What a picture shows, with single spaces."""
    svg = (SCREENS / f"{name}.svg").read_text(encoding="utf-8")
    words = [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]  # noqa: S314
    return re.sub(r"\s+", " ", " ".join(words))


@pytest.mark.parametrize("picture", sorted(SCREENS.glob("*.svg")), ids=lambda path: path.stem)
def test_a_screen_is_in_the_readme_and_loads_nothing(picture: Path) -> None:
    assert f"](docs/screens/{picture.name})" in README
    svg = picture.read_text(encoding="utf-8")
    assert not re.findall(r"@import|@font-face|<image|<script|xlink", svg)
    assert set(re.findall(r"https?://[a-z0-9.]+", svg)) <= {"http://www.w3.org", "http://127.0.0.1"}


@pytest.mark.parametrize("picture", sorted(SCREENS.glob("*.png")), ids=lambda path: path.stem)
def test_a_picture_of_a_page_is_in_the_readme_and_small(picture: Path) -> None:
    assert re.search(rf'<img src="docs/screens/{picture.name}" width="\d+" alt="[^"]+">', README)
    assert picture.stat().st_size < 100_000


def test_top_is_shown_as_it_is() -> None:
    shown = text_of("top")
    assert " ".join(["QUEUE", *queue_heads(100)]) in shown
    assert "WORKER QUEUE HOLDS FOR USER" in shown


def test_the_demo_is_shown_as_it_is() -> None:
    shown = text_of("demo")
    assert re.search(r"worker-1 is killed \(SIGKILL\) while it counts .* at \d+ %\.", shown)
    assert re.search(r"\d+ ms later .* is back in its old place\. worker-3 starts\.", shown)
    assert re.search(r"worker-[23] goes on with .* at \d+ %, where worker-1 had come to\.", shown)


def test_a_post_that_is_watched_is_shown_as_it_is() -> None:
    assert re.search(r"[0-9a-f]{16} processing .* [5-8]\d %; box-\d", text_of("post"))


def test_a_terminal_draws_over_what_was_there() -> None:
    terminal = Terminal()
    terminal.write("\x1b[?25lone\r\n\x1b[1mtwo\x1b[0m\r\n")
    assert terminal.text == "one\ntwo\n"
    terminal.write("\r\x1b[2K\x1b[1A\x1b[2K2\r\nthree")
    assert terminal.text == "one\n2\nthree"
    terminal.write("\x1b[2A\r\x1b[2K\x1b[32m1\x1b[0m")
    assert terminal.text == "1\n2\nthree"
    picture = terminal.picture("x", "a title", 20)
    assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314  It is our own.
    assert "three" in picture
    assert "title" in picture
    for unknown in ("\x1b[2J", "\x1b]0;x\x07"):
        with pytest.raises(ValueError, match="unknown code"):
            terminal.write(unknown)
