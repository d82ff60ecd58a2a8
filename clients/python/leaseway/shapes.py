"""Python values as JSON and back: dataclasses, pydantic models, and what is made of them.

`to_json` takes what a producer posts; a `Reader`, made once of a type, reads what came as a result. Pydantic is known
by its methods alone and is never imported. What JSON cannot keep is `protocol.encode`'s business.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from leaseway.errors import Rejected

Read = Callable[[Any, str], Any]
"""Takes a JSON value and the JSON Pointer to it. Raises `Misfit`."""


class Misfit(ValueError):
    """A JSON value is not what the type wants; `path` is the JSON Pointer to it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def to_json(value: Any) -> Any:
    """The value with its dataclasses and pydantic models, at any depth, as JSON objects.

    Raises `Rejected` where it holds itself, or is nested beyond all measure.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise Rejected("bad-json", [{"path": "", "message": "nested too deeply, or within itself"}]) from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {name: _plain(member) for name, member in value.items()}
    if kind in (list, tuple):
        return [_plain(member) for member in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    return value


def reader(shape: Any) -> Read:
    """What reads JSON as this type. Raises `TypeError` for a type that cannot be read from JSON."""
    return _Readers().of(shape)


class _Readers:
    """The readers of one type and of all that it is made of; a type within itself is read by the same reader."""

    def __init__(self) -> None:
        self._known: dict[Any, Read] = {}

    def of(self, shape: Any) -> Read:
        if shape in _LEAVES:
            return _LEAVES[shape]
        if shape not in self._known:
            # What holds itself asks for its own reader while that is being made.
            self._known[shape] = lambda value, path: self._known[shape](value, path)
            self._known[shape] = self._made(shape)
        return self._known[shape]

    def _made(self, shape: Any) -> Read:
        origin, arguments = get_origin(shape), get_args(shape)
        if origin is not None:
            return self._of_generic(shape, origin, arguments)
        if isinstance(shape, type):
            if dataclasses.is_dataclass(shape):
                return self._dataclass(shape)
            if hasattr(shape, "model_validate"):
                return _model(shape)
            if issubclass(shape, Enum):
                return _converted(shape, shape)
            if typing.is_typeddict(shape):
                return _typed(dict, "an object")
        raise TypeError(f"{_name(shape)} cannot be read from JSON")

    def _of_generic(self, shape: Any, origin: Any, arguments: tuple[Any, ...]) -> Read:
        if origin in (Union, types.UnionType):
            return _any_of([self.of(each) for each in arguments], shape)
        if origin is Literal:
            return _one_of(arguments)
        if origin in (list, Sequence):
            return _array(self.of(arguments[0]))
        if origin is tuple:
            return self._tuple(arguments)
        if origin in (dict, Mapping) and arguments[0] is str:
            return _object(self.of(arguments[1]))
        if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        raise TypeError(f"{_name(shape)} cannot be read from JSON")

    def _tuple(self, arguments: tuple[Any, ...]) -> Read:
        if len(arguments) == 2 and arguments[1] is ...:
            read = _array(self.of(arguments[0]))
            return lambda value, path: tuple(read(value, path))
        return _row([self.of(each) for each in arguments])

    def _dataclass(self, shape: Any) -> Read:
        hints = typing.get_type_hints(shape)
        members = [
            (field.name, self.of(hints[field.name]), _has_default(field))
            for field in dataclasses.fields(shape)
            if field.init
        ]

        def read(value: Any, path: str) -> Any:
            found = _an_object(value, path)
            missing = [name for name, _, optional in members if name not in found and not optional]
            if missing:
                raise Misfit(path, f"the member {missing[0]} is missing")
            return shape(**{name: each(found[name], _at(path, name)) for name, each, _ in members if name in found})

        return read


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _model(shape: Any) -> Read:
    def read(value: Any, path: str) -> Any:
        try:
            return shape.model_validate(value)
        except ValueError as error:  # Pydantic's own is one.
            raise Misfit(path, str(error)) from None

    return read


def _array(each: Read) -> Read:
    def read(value: Any, path: str) -> list[Any]:
        return [each(member, _at(path, index)) for index, member in enumerate(_an_array(value, path))]

    return read


def _row(readers: Sequence[Read]) -> Read:
    def read(value: Any, path: str) -> tuple[Any, ...]:
        found = _an_array(value, path)
        if len(found) != len(readers):
            raise Misfit(path, f"an array of {len(readers)} was expected, found one of {len(found)}")
        return tuple(each(found[index], _at(path, index)) for index, each in enumerate(readers))

    return read


def _object(each: Read) -> Read:
    def read(value: Any, path: str) -> dict[str, Any]:
        return {name: each(member, _at(path, name)) for name, member in _an_object(value, path).items()}

    return read


def _any_of(readers: Sequence[Read], shape: Any) -> Read:
    def read(value: Any, path: str) -> Any:
        misfits = []
        for each in readers:
            try:
                return each(value, path)
            except Misfit as misfit:
                misfits.append(misfit)
        deepest = max(misfits, key=lambda misfit: len(misfit.path))
        raise deepest if deepest.path != path else _unexpected(path, _name(shape), value)

    return read


def _one_of(allowed: tuple[Any, ...]) -> Read:
    def read(value: Any, path: str) -> Any:
        for each in allowed:
            if type(each) is type(value) and each == value:
                return each
        raise _unexpected(path, " or ".join(map(repr, allowed)), value)

    return read


def _typed(kind: type | tuple[type, ...], name: str) -> Read:
    """What JSON has already; true and false are no numbers."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _unexpected(path, name, value)
        return value

    return read


def _converted(convert: Callable[[Any], Any], shape: type) -> Read:
    """What JSON has no word for, and is written as another value."""

    def read(value: Any, path: str) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, AttributeError):
            raise _unexpected(path, _name(shape), value) from None

    return read


def _an_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unexpected(path, "an object", value)
    return value


def _an_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _unexpected(path, "an array", value)
    return value


def _unexpected(path: str, wanted: str, value: Any) -> Misfit:
    shown = repr(value)
    return Misfit(path, f"{wanted} was expected, found {shown if len(shown) <= 60 else shown[:60] + '…'}")


def _at(path: str, step: str | int) -> str:
    """The JSON Pointer (RFC 6901) to a member."""
    return f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"


def _name(shape: Any) -> str:
    return shape.__name__ if isinstance(shape, type) and get_origin(shape) is None else str(shape)


_SCALARS = frozenset({str, int, float, bool, type(None)})
_LEAVES: dict[Any, Read] = {
    Any: lambda value, _path: value,
    object: lambda value, _path: value,
    None: _typed(type(None), "null"),
    type(None): _typed(type(None), "null"),
    bool: _typed(bool, "true or false"),
    int: _typed(int, "an integer"),
    str: _typed(str, "a string"),
    dict: _typed(dict, "an object"),
    list: _typed(list, "an array"),
    datetime: _converted(datetime.fromisoformat, datetime),
    date: _converted(date.fromisoformat, date),
    UUID: _converted(UUID, UUID),
}
_NUMBER = _typed((int, float), "a number")
_LEAVES[float] = lambda value, path: float(_NUMBER(value, path))
