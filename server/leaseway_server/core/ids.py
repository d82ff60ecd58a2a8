"""Item ids: a keyed permutation of the row number, so that ids are unguessable and no random index is needed.

A Feistel network of six rounds over two halves of 32 bits; each round's function is keyed BLAKE2s. Six rounds, since
four can be told from a random permutation after 2^16 known ids (Patarin, "Generic Attacks on Feistel Schemes", 2001).
"""

from hashlib import blake2s
from typing import Final

ROUNDS: Final = 6
KNOWN: Final = 65_536
"""So many pairs are remembered: an item that is worked on is asked for again and again."""
KEY_BYTES: Final = 16
_MASK: Final = 0xFFFFFFFF


class IdPermutation:
    """Turns row numbers (0 … 2^63−1) into ids (16 lower-case hex digits) and back."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of ids has {len(key)} bytes, not {KEY_BYTES}")
        self._ids: dict[int, str] = {}
        self._seqs: dict[str, int] = {}
        self._rounds = [blake2s(bytes([number]), digest_size=4, key=key) for number in range(ROUNDS)]

    def id_of(self, seq: int) -> str:
        """The id of a row number."""
        known = self._ids.get(seq)
        if known is None:
            known = self._encrypt(seq)
            self._remember(seq, known)
        return known

    def seq_of(self, item_id: str) -> int | None:
        """The row number of an id, or None where the text is no id that a row could have."""
        known = self._seqs.get(item_id)
        if known is None:
            known = self._decrypt(item_id)
            if known is not None:
                self._remember(known, item_id)
        return known

    def _remember(self, seq: int, item_id: str) -> None:
        if len(self._ids) >= KNOWN:
            self._ids.clear()
            self._seqs.clear()
        self._ids[seq] = item_id
        self._seqs[item_id] = seq

    def _encrypt(self, seq: int) -> str:
        left, right = seq >> 32, seq & _MASK
        for keyed in self._rounds:
            digest = keyed.copy()
            digest.update(right.to_bytes(4, "big"))
            left, right = right, left ^ int.from_bytes(digest.digest(), "big")
        return f"{left << 32 | right:016x}"

    def _decrypt(self, item_id: str) -> int | None:
        number = _number(item_id)
        if number is None:
            return None
        left, right = number >> 32, number & _MASK
        for keyed in reversed(self._rounds):
            digest = keyed.copy()
            digest.update(left.to_bytes(4, "big"))
            left, right = right ^ int.from_bytes(digest.digest(), "big"), left
        seq = left << 32 | right
        return seq if seq < 2**63 else None


def _number(item_id: str) -> int | None:
    if len(item_id) != 16 or item_id.strip("0123456789abcdef"):
        return None
    return int(item_id, 16)
