"""Relative links of all pages lead to a file, and to a heading where they name one; the README lists each page."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("schemas/*.md")])
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    """Where a page leads to; code is no link."""
    return _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def headings(page: Path) -> set[str]:
    """The names by which links find a page's headings."""
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether there is what a relative link names."""
    file, _, heading = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    return target.exists() and target.is_relative_to(ROOT) and (not heading or heading in headings(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    relative = [link for link in links(page) if not re.match(r"\w+:", link)]
    assert [link for link in relative if not leads_somewhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    readme = ROOT / "README.md"
    assert leads_somewhere(readme, "docs/client.md#types")
    for wrong in ("docs/none.md", "docs/client.md#none", "#none", "../README.md"):
        assert not leads_somewhere(readme, wrong)


def test_the_readme_lists_each_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(_LINK.findall(readme.partition("\n## Documentation\n")[2]))
    pages = {str(page.relative_to(ROOT)) for page in PAGES if page.name != "README.md"}
    assert pages <= listed
