"""The work of the demo: how many primes are in a range, in steps, each of which says how far it is.

Pure arithmetic. A count is checked by what is known: below 2,000,000 there are 148,933 primes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Any, Final

BELOW: Final = 2_000_000
KNOWN: Final = 148_933
"""How many primes are below `BELOW`."""
STEPS: Final = 20
"""Steps of a range."""
LARGEST: Final = 10**9
LONGEST: Final = 10**6


def wanted(item: Any) -> range | None:
    """The range that an item asks for; None where it asks for none that can be done."""
    match item:
        case {"from": int(start), "to": int(end)} if 0 <= start < end <= LARGEST and end - start <= LONGEST:
            return range(start, end)
    return None


def count(numbers: range, checkpoint: Any = None) -> Iterator[dict[str, int]]:
    """Counts step by step, and says after each how far it is: what was found below `next`.

    Goes on from such a record of somebody else's.
    """
    begin, found = (checkpoint["next"], checkpoint["found"]) if checkpoint else (numbers.start, 0)
    divisors = [prime for prime in range(2, isqrt(numbers.stop) + 1) if is_prime(prime)]
    step = -(-len(numbers) // STEPS)
    for start in range(begin, numbers.stop, step):
        end = min(start + step, numbers.stop)
        found += sum(is_prime(number, divisors) for number in range(start, end))
        yield {"percent": 100 * (end - numbers.start) // len(numbers), "next": end, "found": found}


def is_prime(number: int, divisors: list[int] | range | None = None) -> bool:
    """Whether it is. `divisors` are all primes up to its root, and perhaps more."""
    if number < 2:
        return False
    for divisor in range(2, isqrt(number) + 1) if divisors is None else divisors:
        if divisor * divisor > number:
            return True
        if number % divisor == 0:
            return False
    return True
