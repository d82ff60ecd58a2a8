"""How much of what is large is handled at once, the same in every store: others wait meanwhile.

Said as `bounds.NAME`, so that a test which makes one small makes it so for all.
"""

from typing import Final

PICK_CHARACTERS: Final = 128 * 1024
"""A pick ends with the body that makes it so long: to read and parse many large items would hold up others."""
REMOVE_CHARACTERS: Final = 1024 * 1024
"""So much of bodies and results goes in one turn, or one item: freeing it takes time by the page."""
ATTEMPT_CHARACTERS: Final = 1024 * 1024
"""So much of an item's attempts is read: each may have an error of 32 KiB."""
ATTEMPT_BESIDE: Final = 150
"""What an attempt counts as beside its error and its worker's name: there may be very many that have neither."""

LOOKED_AT: Final = 20_000
"""A page of a list ends after so many rows, however few of them belonged to it."""
PAGE_CHARACTERS: Final = 4 * 1024 * 1024
"""A page ends with the item that makes it so long."""
REMATCH_ROWS: Final = 2_000
REMATCH_CHARACTERS: Final = 4 * 1024 * 1024
"""A slice of what is matched anew ends after so many rows, or with the body that makes it so long."""

LEFT_TO_OTHERS: Final = 8
"""So many of the items that others have in hand are looked for, to be offered once they may be free."""
