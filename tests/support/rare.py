"""The rare states that random programs must reach, and how often this process reached them, and some others."""

from collections import Counter
from typing import Final

RARE: Final = (
    "late result counted",
    "late result discarded",
    "claim lost after commit",
    "waiting claim's socket died as its item came",
    "lease lapsed while the result was under way",
    "fail sent twice",
    "resumed after the last allowed loss",
    "handed out as a pause ended",
    "pruned",
    "key freed and taken by another",
    "retry refused since another holds the key",
    *(f"{kind} criteria met behind items that do not" for kind in ("indexed", "other", "both")),
    *(f"a waiting claim's {kind} criteria met by a post" for kind in ("indexed", "other", "both")),
    "search went on in another turn",
    "something was said during a search",
    "members indexed anew under a claim",
    "members indexed anew under a lease",
    "found by a member indexed since its post",
    "killed as it indexed",
)
SELDOM: Final = frozenset(
    {
        "both criteria met behind items that do not",
        "a waiting claim's indexed criteria met by a post",
        "a waiting claim's both criteria met by a post",
        "something was said during a search",
    }
)
"""Those that the suite's programs are too few to reach for sure."""
SEEN: Counter[str] = Counter()
