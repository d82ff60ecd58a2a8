"""Python values as JSON and back: what each type takes, what it refuses and how that is told."""

import enum
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union
from uuid import UUID

import orjson
import pytest

from leaseway.errors import Rejected
from leaseway.shapes import Misfit, reader, to_json


class Format(enum.Enum):
    PNG = "png"
    JPG = "jpg"


@dataclass(frozen=True)
class Size:
    width: int
    height: int = 64


@dataclass
class Picture:
    name: str
    sizes: list[Size]
    format: Format = Format.PNG
    taken: datetime | None = None
    tags: dict[str, tuple[int, ...]] = field(default_factory=dict)
    area: int = field(init=False, default=0)


@dataclass
class Tree:
    name: str
    branches: "list[Tree]" = field(default_factory=list)


class Row(TypedDict):
    a: int


class Model:
    """As pydantic's models are, as far as we know them."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"number": self.number}

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if type(value.get("number")) is not int:
            raise ValueError("number must be an integer")
        return cls(value["number"])


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ID = UUID(int=7)
PICTURE = Picture("a", [Size(1), Size(2, 3)], Format.JPG, NOON, {"x": (1, 2)})


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (Any, {"a": [1]}), (object, 1), (None, None), (bool, True), (int, 7), (float, 1.5), (float, 2), (str, "x"),
        (list, [1, "x"]), (dict, {"a": 1}), (list[int], [1, 2]), (Sequence[int], [1]), (dict[str, float], {"a": 1.0}),
        (Mapping[str, bool], {"a": True}), (tuple[int, str], (1, "x")), (tuple[int, ...], (1, 2)), (int | None, None),
        (Literal["a", 1], 1), (Annotated[int, "px"], 3), (Format, Format.JPG), (datetime, NOON),
        (Union[str, int], "x"),  # noqa: UP007  The old way to write it is read too.
        (date, date(2026, 11, 30)), (UUID, ID), (Size, Size(1, 2)), (Picture, PICTURE), (list[Picture], [PICTURE]),
        (Tree, Tree("root", [Tree("leaf")])), (Row, {"a": 1}), (Row, {"a": "as it comes"}), (Model, Model(7)),
        (dict[str, Model], {"a": Model(1)}), (Size | Model, Model(1)), (Size | Tree, Tree("a")),
    ],
)  # fmt: skip
def test_what_is_posted_is_read_as_the_same(shape: Any, value: Any) -> None:
    assert reader(shape)(orjson.loads(orjson.dumps(to_json(value))), "") == value


@pytest.mark.parametrize(
    ("shape", "value", "path", "message"),
    [
        (int, "7", "", "an integer was expected, found '7'"),
        (int, True, "", "an integer was expected, found True"),
        (int, 1.0, "", "an integer was expected, found 1.0"),
        (float, "x", "", "a number was expected, found 'x'"),
        (float, False, "", "a number was expected, found False"),
        (bool, 1, "", "true or false was expected, found 1"),
        (None, 0, "", "null was expected, found 0"),
        (str, None, "", "a string was expected, found None"),
        (str, ["x" * 100], "", "a string was expected, found ['" + "x" * 58 + "…"),
        (list[int], {"a": 1}, "", "an array was expected, found {'a': 1}"),
        (list[int], [1, "x"], "/1", "an integer was expected, found 'x'"),
        (dict[str, int], {"a/b~": None}, "/a~1b~0", "an integer was expected, found None"),
        (tuple[int, int], [1], "", "an array of 2 was expected, found one of 1"),
        (int | None, "x", "", "int | None was expected, found 'x'"),
        (Size | None, {"width": "x"}, "/width", "an integer was expected, found 'x'"),
        (Literal["a", "b"], "c", "", "'a' or 'b' was expected, found 'c'"),
        (Literal[1], True, "", "1 was expected, found True"),
        (Format, "gif", "", "Format was expected, found 'gif'"),
        (datetime, 5, "", "datetime was expected, found 5"),
        (UUID, "x", "", "UUID was expected, found 'x'"),
        (UUID, 5, "", "UUID was expected, found 5"),
        (Size, {}, "", "the member width is missing"),
        (Size, [1, 2], "", "an object was expected, found [1, 2]"),
        (Picture, {"name": "a", "sizes": [{"width": 1}, {"width": None}]}, "/sizes/1/width", "an integer was expected"),
        (Tree, {"name": "", "branches": [{"name": "", "branches": [{}]}]}, "/branches/0/branches/0", "the member name"),
        (Row, 5, "", "an object was expected, found 5"),
        (list[Model], [{"number": 1}, {}], "/1", "number must be an integer"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_place(shape: Any, value: Any, path: str, message: str) -> None:
    with pytest.raises(Misfit) as misfit:
        reader(shape)(value, "")
    assert misfit.value.path == path
    assert message in str(misfit.value)


def test_members_that_a_dataclass_does_not_know_are_passed_over() -> None:
    assert reader(Size)({"width": 1, "depth": 2}, "") == Size(1)


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize("shape", [set, set[int], bytes, Pair, list[set[int]], dict[int, str], complex, "Size"])
def test_a_type_that_json_has_no_word_for_is_refused_at_once(shape: Any) -> None:
    with pytest.raises(TypeError, match="cannot be read from JSON"):
        reader(shape)


def test_dataclasses_and_models_go_out_from_any_depth() -> None:
    assert to_json({"a": [Size(1), (Model(2), None)]}) == {"a": [{"width": 1, "height": 64}, [{"number": 2}, None]]}


def test_what_holds_itself_is_refused() -> None:
    tree = Tree("root")
    tree.branches.append(tree)
    with pytest.raises(Rejected, match="within itself"):
        to_json(tree)


def test_pydantics_own_models() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed; it is no dependency")
    shape = pydantic.create_model("Shape", width=(int, ...), taken=(datetime | None, None))
    value = shape(width=1, taken=NOON)
    read = reader(types.GenericAlias(list, (shape,)))
    assert read(orjson.loads(orjson.dumps(to_json([value]))), "") == [value]
    with pytest.raises(Misfit, match="width") as misfit:
        read([{"width": "wide"}], "")
    assert misfit.value.path == "/0"
