"""The fast judge of wire messages, which the tests trust, says what the slow one says, which tells what is wrong."""

from typing import Final

import pytest

from leaseway_schemas import wire
from support.mutations import UNKEEPABLE, client_schemas, mutants, request_bodies
from support.wire import _teller, is_valid

EACH: Final = 19
"""One in so many: prime, so that all values have their turn at some place."""
SCHEMAS = sorted({*client_schemas("work").values(), *client_schemas("monitor").values(), *request_bodies()})


@pytest.mark.parametrize("schema", SCHEMAS)
def test_both_judge_alike(schema: str) -> None:
    keepable = [each.message for each in mutants(schema) if not any(each.value is value for value in UNKEEPABLE)]
    some = [*wire(schema)["examples"], *keepable[::EACH]]
    assert {is_valid(schema, message) for message in some} == {True, False}
    for message in some:
        assert is_valid(schema, message) == _teller(schema).is_valid(message), str(message)[:1_000]
