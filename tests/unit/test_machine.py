"""The queue under random programs (issue 2): on a dictionary and on SQLite, with the same answers and the same rows."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.journal import RARE, SEEN
from support.machine import QueueMachine, summary_lines

EXAMPLES = int(os.environ.get("LEASEWAY_MACHINE_EXAMPLES", "0"))
"""More programs than the suite's, and others each time."""


@pytest.mark.timeout(60 if not EXAMPLES else 0)
def test_random_programs_keep_the_promises_and_reach_the_rare_states() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=EXAMPLES or 150,
            stateful_step_count=50,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    print("\n".join(summary_lines()))
    print(dict(SEEN))
    unseen = [name for name in RARE if not SEEN[name]]
    assert not unseen, "the programs are too weak: these states were never reached"
