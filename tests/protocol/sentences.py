"""The sentences of PROTOCOL.md, their marks, and the tests that carry them: `make sentences` lists all three.

A mark is an HTML comment behind a sentence, such as `<!--3.7-->`: section and number. A number is never used twice;
a new sentence gets the next one of its section. What ends in a semicolon has a mark of its own, each row of a table has
one in its last cell, and a mark may stand wherever else a part can be broken by itself. §9 says what there is and has
none. A test carries a sentence by `@pytest.mark.protocol("3.7")`, a transcript by `sentences` in its head.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leaseway_schemas import transcripts

TESTS: Final = Path(__file__).parent.parent
PAGE: Final = TESTS.parent / "schemas" / "PROTOCOL.md"
MARK: Final = re.compile(r"<!--(\d+\.\d+)-->")

_BLOCKS: Final = re.compile(
    r"^```.*?^```\n"  # What is fenced is introduced by a sentence, which has the mark.
    r"|^#+ [^\n]*\n"
    r"|^\|[^\n]*\n(?=\|[-| ]+\|\n)|^\|[-| ]+\|\n"  # A table's head is none of its rows.
    r"|(?P<row>^\|[^\n]*\|)\n"
    r"|(?P<text>^\S[^\n]*\n(?:(?!\n|```|\||#|- |\d+\. )[^\n]+\n)*)",
    re.MULTILINE | re.DOTALL,
)
_CELL: Final = re.compile(r"(?<!\\)\|(?=.)")
_TITLE: Final = re.compile(r"\d+\. |(?:- )?\*\*[^*]+\.\*\* ")  # `**Order.** …` names what follows.
_PART: Final = re.compile(r"`[^`]*`|<!--(?P<mark>\d+\.\d+)-->|[()]|[.;:!?]+(?:\*\*)?(?=\)?(?:\s|<!--|$))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence or a part of one: its mark (None: it has none yet), its text, and where in the page it stops."""

    mark: str | None
    text: str
    stop: int


def sentences(page: str) -> list[Sentence]:
    """All that the page says before §9, in its order."""
    contract = page.partition("\n## 9.")[0] + "\n"
    found: list[Sentence] = []
    for block in _BLOCKS.finditer(contract):
        if block["row"]:
            cell = [mark.end() for mark in _CELL.finditer(block["row"])][-1]
            found += _row(contract, block.start("row"), block.start("row") + cell, block.end("row") - 1)
        elif block["text"]:
            title = _TITLE.match(block["text"])
            start = block.start("text") + (title.end() if title else 0)
            found += _parts(contract, start, block.end("text"))
    return found


def _row(page: str, start: int, cell: int, stop: int) -> Iterator[Sentence]:
    """The parts of a row, each with the cells before the last one, without which it would say little."""
    parts = list(_parts(page, cell, stop))
    end = max([cell, *(part.stop for part in parts)])
    if rest := _words(page[end:stop]):
        parts.append(Sentence(None, rest, end + len(page[end:stop].rstrip())))
    for part in parts:
        yield Sentence(part.mark, f"{page[start:cell].strip('| ')} | {part.text}", part.stop)


def _parts(page: str, start: int, stop: int) -> Iterator[Sentence]:
    """The parts of a bullet, a paragraph or a cell, as far as one ends in it. Two marks at one place mark one text."""
    text = ""
    for end, mark in _ends(page[:stop], start):
        text = _words(page[start:end]) or text
        yield Sentence(mark, text, end)
        start = end


def _ends(text: str, start: int) -> Iterator[tuple[int, str | None]]:
    """Where parts end, with their marks. Outside parentheses and code: a full stop, a semicolon, a colon at the end."""
    depth, end = 0, None
    for token in _PART.finditer(text, start):
        if end is not None:
            is_marked = token["mark"] and token.start() == end
            yield (token.end(), token["mark"]) if is_marked else (end, None)
            end = None
            if is_marked:
                continue
        if token["mark"]:
            yield token.end(), token["mark"]
        elif token[0] == "(":
            depth += 1
        elif token[0] == ")":
            depth -= 1
            if depth == 0 and text[token.start() - 1] in ".!" and re.match(r"\s|<!--|$", text[token.end() :]):
                end = token.end()
        elif depth == 0 and token[0][0] != "`" and (":" not in token[0] or not text[token.end() :].strip()):
            end = token.end()
    if end is not None:
        yield end, None


def _words(text: str) -> str:
    """A part's text without marks, on one line; empty where it says nothing."""
    plain = " ".join(MARK.sub("", text).split()).removeprefix("- ")
    return plain if re.search(r"\w", plain) else ""


def carriers() -> Mapping[str, list[str]]:
    """By mark, the tests and transcripts that carry it: `folder/test_file.py::test_name`, `transcript NAME`."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        for mark, name in _carried(ast.parse(file.read_text(encoding="utf-8"))):
            found[mark].append(f"{file.relative_to(TESTS)}::{name}")
    for name, lines in transcripts().items():
        for mark in lines[0].get("sentences", ()):
            found[mark].append(f"transcript {name}")
    return found


def _carried(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(mark, test) for each mark in the module: those of `pytestmark` are all its tests'."""
    tests = [
        each
        for each in module.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
    ]
    for statement in module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            yield from ((mark, test.name) for mark in _marks(statement.value) for test in tests)
    for test in tests:
        for decorator in test.decorator_list:
            yield from ((mark, test.name) for mark in _marks(decorator))


def _marks(expression: ast.expr) -> Iterator[str]:
    """The arguments of each `pytest.mark.protocol(…)` in an expression."""
    for call in ast.walk(expression):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.protocol":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def listing(*, only_open: bool) -> Iterator[str]:
    """The lines of `make sentences`: each mark, how its sentence begins, and who carries it."""
    carried = carriers()
    for sentence in sentences(PAGE.read_text(encoding="utf-8")):
        by = carried.get(sentence.mark or "", [])
        if not (by and only_open):
            yield f"{sentence.mark or 'NO MARK':>7}  {sentence.text[:100]}"
            yield from (f"{'':9}{name}" for name in by or ["nobody"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The sentences of PROTOCOL.md and the tests that carry them.")
    parser.add_argument("--open", action="store_true", help="only those that no test carries")
    sys.stdout.writelines(f"{line}\n" for line in listing(only_open=parser.parse_args().open))
