"""Ids: a permutation of the row numbers, unguessable without the key."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core import ids
from leaseway_server.core.ids import KEY_BYTES, IdPermutation

KEY = bytes(range(KEY_BYTES))
IDS = IdPermutation(KEY)
PINNED = ["0c9d9057ce4f4f27", "61fdc4a17117f77e", "43ee3522c9f614e0"]
numbers = st.integers(0, 2**63 - 1)


@pytest.mark.protocol("0.11")
@given(numbers)
def test_an_id_is_sixteen_hex_digits_and_leads_back(seq: int) -> None:
    item_id = IDS.id_of(seq)
    assert len(item_id) == 16
    assert set(item_id) <= set("0123456789abcdef")
    assert IDS.seq_of(item_id) == seq


def test_ids_are_the_same_in_every_process() -> None:
    assert [IDS.id_of(seq) for seq in (0, 1, 2**63 - 1)] == PINNED


def test_no_two_are_equal_and_neighbours_share_nothing() -> None:
    ids = [IDS.id_of(seq) for seq in range(20_000)]
    assert len(set(ids)) == len(ids)
    bits = [(int(one, 16) ^ int(other, 16)).bit_count() for one, other in pairwise(ids)]
    assert 31 < sum(bits) / len(bits) < 33, "half of the bits differ"


@pytest.mark.protocol("0.11")
@given(numbers, st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES).filter(lambda key: key != KEY))
def test_another_key_gives_other_ids(seq: int, key: bytes) -> None:
    assert IdPermutation(key).id_of(seq) != IDS.id_of(seq)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "9F2C1A0B7D4E6F83", "9f2c1a0b7d4e6f8", "9f2c1a0b7d4e6f83a", "9f2c1a0b7d4e6f8g", "0x2c1a0b7d4e6f83"),
        *("9f2c1a0b7d4e_f83", "-f2c1a0b7d4e6f83", " f2c1a0b7d4e6f83", "9f2c1a0b7d4e6f８3"),
    ],
)
def test_what_is_no_id_has_no_row(text: str) -> None:
    assert IDS.seq_of(text) is None


def test_half_of_all_texts_of_the_form_could_have_no_row() -> None:
    found = [IDS.seq_of(f"{number:016x}") for number in range(2_000)]
    assert 900 < sum(seq is None for seq in found) < 1_100
    assert all(seq is None or 0 <= seq < 2**63 for seq in found)


def test_the_key_has_its_length() -> None:
    with pytest.raises(ValueError, match="15 bytes, not 16"):
        IdPermutation(KEY[1:])


def test_what_is_forgotten_is_reckoned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "KNOWN", 3)
    few = IdPermutation(KEY)
    given = [few.id_of(seq) for seq in range(10)]
    assert given == [IDS.id_of(seq) for seq in range(10)]
    assert [few.seq_of(item_id) for item_id in given] == list(range(10))
    assert len(few._ids) == len(few._seqs) <= 3
