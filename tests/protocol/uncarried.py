"""The marks that no test can carry, each with why. All other sentences are carried (`test_sentences.py`).

What stands in `NOT_HERE` is of another version (§9), and what in `EXPLAINS` says nothing that a server or client could
break.
"""

from typing import Final

NOT_HERE: Final = {
    "5.54": "OpenAPI and AsyncAPI documents",
}
EXPLAINS: Final = {
    "0.1": "what the page is",
    "0.3": "how MUST, SHOULD and MAY are meant",
    "0.4": "a promise to those who change the page",
}
