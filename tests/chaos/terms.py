"""The configuration that a journal is judged by. All times are in ms."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """`slack` is what two clocks of one machine, and the rounding to full milliseconds, may make of a time."""

    lease: int = 6_000
    grace: int = 3_000
    max_losses: int = 1_000
    slack: int = 50
