"""The queue under random programs (issue 2): on a dictionary and on SQLite, with the same answers and the same rows."""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.machine import QueueMachine, figures
from support.rare import RARE, SEEN

EXAMPLES = int(os.environ.get("LEASEWAY_MACHINE_EXAMPLES", "0"))
"""More programs than the suite's, others each time, and shrunk where one fails."""
STEPS = 50


@pytest.mark.unmeasured
@pytest.mark.protocol("7.4", "7.5")
@pytest.mark.timeout(0 if EXAMPLES else 300)  # Some 20 s; but three times that where others work.
def test_random_programs_keep_the_promises_and_reach_the_rare_states(report_line: Callable[[str, str], None]) -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=EXAMPLES or 250,
            stateful_step_count=STEPS,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink) if EXAMPLES else (Phase.generate,),
        ),
    )
    for name, value in figures().items():
        report_line(name, value)
    assert not [name for name in RARE if not SEEN[name]], "too weak: these states were never reached"
