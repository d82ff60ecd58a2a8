"""Reading the members of a message: each with its type and bounds, each fault with the member's path."""

from collections.abc import Mapping
from typing import Final
from unicodedata import category

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json

NAME_LIMIT: Final = 200
MAX_TIME: Final = 2**53 - 1
"""No time or duration is larger: JavaScript keeps integers up to here."""

_CONTROLS: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})
"""Unicode's categories of controls, of what breaks a line, and of halves of surrogate pairs."""

Members = Mapping[str, Json]


def an_object(value: Json, what: str, path: str = "") -> Members:
    """`value`, where it is a JSON object. Raises `BadMessage`."""
    if not isinstance(value, dict):
        raise BadMessage(f"{what} must be an object", path=path)
    return value


def integer(members: Members, name: str, *, least: int = 0, most: int = MAX_TIME) -> int | None:
    """The integer `name`, or None where it is absent. Raises `BadMessage`."""
    value = members.get(name)
    if value is None and name not in members:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadMessage(f"{name} must be an integer", path=f"/{name}")
    if not least <= value <= most:
        raise BadMessage(f"{name} must be {least} or more, and at most {most}", path=f"/{name}")
    return value


def flag(members: Members, name: str, default: bool) -> bool:
    """The boolean `name`, or its default. Raises `BadMessage`."""
    value = members.get(name, default)
    if not isinstance(value, bool):
        raise BadMessage(f"{name} must be true or false", path=f"/{name}")
    return value


def is_name(text: str) -> bool:
    """Whether this can be a name: 1 to 200 characters, none of them a control (PROTOCOL.md, head)."""
    return 0 < len(text) <= NAME_LIMIT and not any(category(character) in _CONTROLS for character in text)


def name_of(members: Members, name: str) -> str:
    """The text `name`, or "" where it is absent: a worker's or another name. Raises `BadMessage`."""
    if name not in members:
        return ""
    value = members[name]
    if not isinstance(value, str) or not is_name(value):
        raise BadMessage(f"{name} must be a text of 1 to {NAME_LIMIT} characters without controls", path=f"/{name}")
    return value


def item_id(members: Members) -> str:
    """The member `id`, a text. Raises `BadMessage`; whether there is such an item is not decided here."""
    value = members.get("id")
    if not isinstance(value, str):
        raise BadMessage("id must be the item's id, a text", path="/id")
    return value


def required(members: Members, name: str) -> Json:
    """The member `name`, which must be there. Raises `BadMessage`."""
    if name not in members:
        raise BadMessage(f"{name} is missing", path=f"/{name}")
    return members[name]
