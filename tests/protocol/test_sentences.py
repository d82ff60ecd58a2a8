"""No sentence of PROTOCOL.md is without a test, no mark leads nowhere, and the reader of marks reads rightly."""

import re
from collections import Counter

import pytest

from protocol.sentences import MARK, PAGE, Sentence, carriers, sentences
from protocol.uncarried import EXPLAINS, NOT_HERE

EXCUSED = NOT_HERE | EXPLAINS
TEXT = PAGE.read_text(encoding="utf-8")
FOUND = sentences(TEXT)
MARKS = {sentence.mark for sentence in FOUND}


def test_each_sentence_has_a_mark_of_its_own() -> None:
    assert [sentence.text for sentence in FOUND if sentence.mark is None] == []
    times = Counter(MARK.findall(TEXT))
    assert [mark for mark, number in times.items() if number > 1] == []
    assert times.keys() == MARKS, "no mark stands where the reader does not look"


def test_each_mark_says_its_section() -> None:
    section = "0"
    for line in TEXT.splitlines():
        if head := re.match(r"## (\d+)\.", line):
            section = head[1]
        assert {mark.partition(".")[0] for mark in MARK.findall(line)} <= {section}, line[:100]


def test_each_sentence_is_carried_by_a_test_or_excused() -> None:
    carried = carriers()
    nobodys = [s for s in FOUND if s.mark not in carried and s.mark not in EXCUSED]
    assert [f"{sentence.mark} {sentence.text}" for sentence in nobodys] == []


def test_nothing_is_carried_or_excused_that_is_not_there() -> None:
    carried = carriers()
    assert {mark: tests for mark, tests in carried.items() if mark not in MARKS} == {}
    assert EXCUSED.keys() - MARKS == set()


def test_what_is_carried_is_not_excused_any_more() -> None:
    carried = carriers()
    assert {mark: tests for mark, tests in carried.items() if mark in EXCUSED} == {}
    assert len(EXCUSED) == len(NOT_HERE) + len(EXPLAINS)


def read(text: str) -> list[tuple[str | None, str]]:
    """The marks and texts of a page."""
    return [(sentence.mark, sentence.text) for sentence in sentences(text)]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("One.<!--0.1--> Two.\n", [("0.1", "One."), (None, "Two.")]),
        ("One;<!--0.1--> `a. b`, 1.5 (3. four; five).\n", [("0.1", "One;"), (None, "`a. b`, 1.5 (3. four; five).")]),
        ("One\ntwo.<!--1.1-->\nThree?<!--1.2-->\n", [("1.1", "One two."), ("1.2", "Three?")]),
        ("One. (Two. Three.)<!--1.1-->\n", [(None, "One."), ("1.1", "(Two. Three.)")]),
        ("One `x`<!--1.1-->, two.<!--1.2-->\n", [("1.1", "One `x`"), ("1.2", ", two.")]),
        ("- **Order.** One.<!--1.1-->\n- Two.\n", [("1.1", "One."), (None, "Two.")]),
        ("1. Three.\n2. Four.<!--1.2-->\n", [(None, "Three."), ("1.2", "Four.")]),
        ("Shapes:<!--1.1--><!--1.2-->\n\n```json\n{}. A. B.\n```\n", [("1.1", "Shapes:"), ("1.2", "Shapes:")]),
        ("| a | b. |\n|---|---|\n| c. d | e; f<!--1.1--> |\n| g |  |\n", [(None, "c. d | e;"), ("1.1", "c. d | f")]),
        ("| a | b |\n|---|---|\n| c | x \\| y |\n", [(None, "c | x \\| y")]),
        ("# Title. Here\n\nClient → server\n\n**plus**\n", []),
        ("One.<!--8.1-->\n## 9. What is there\n\nTwo.\n", [("8.1", "One.")]),
    ],
)
def test_the_reader_of_marks(page: str, expected: list[tuple[str | None, str]]) -> None:
    assert read(page) == expected


def test_where_a_mark_is_missing_its_place_is_known() -> None:
    page = "| a | b |\n|---|---|\n| c | d |\n\nOne. Two.\n"
    for sentence in reversed(sentences(page)):
        page = page[: sentence.stop] + "<!--1.1-->" + page[sentence.stop :]
    assert page == "| a | b |\n|---|---|\n| c | d<!--1.1--> |\n\nOne.<!--1.1--> Two.<!--1.1-->\n"
    assert all(isinstance(sentence, Sentence) and sentence.mark for sentence in sentences(page))
