"""The queue under random programs: on a dictionary and on a store, with the same answers and the same rows."""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.homes import Twin
from support.machine import QueueMachine, figures
from support.postgres import Postgres
from support.postgres_home import Behind, PostgresHome
from support.rare import RARE, SEEN, SELDOM

EXAMPLES = int(os.environ.get("LEASEWAY_MACHINE_EXAMPLES", "0"))
"""More programs than the suite's, others each time, and shrunk where one fails."""
STEPS = 50


@pytest.mark.unmeasured
@pytest.mark.protocol("7.4", "7.5")
@pytest.mark.timeout(0 if EXAMPLES else 300)  # Some 10 s; but three times that where others work.
def test_random_programs_keep_the_promises_and_reach_the_rare_states(report_line: Callable[[str, str], None]) -> None:
    run(QueueMachine, 100)
    for name, value in figures().items():
        report_line(name, value)
    missing = [name for name in RARE if not SEEN[name] and (EXAMPLES or name not in SELDOM)]
    assert not missing, "too weak: these states were never reached"


@pytest.mark.unmeasured
@pytest.mark.timeout(0 if EXAMPLES else 300)
def test_random_programs_keep_the_promises_on_postgresql(
    postgres: Postgres, report_line: Callable[[str, str], None]
) -> None:
    SEEN.clear()
    behind = Behind(postgres)

    class PostgresMachine(QueueMachine):
        def _home(self) -> Twin:
            return PostgresHome(behind)

    try:
        run(PostgresMachine, 12)
    finally:
        behind.close()
    report_line("state machine on PostgreSQL", figures()["state machine"])


def run(machine: type[QueueMachine], programs: int) -> None:
    """So many programs, the same each time; or as many as the environment asks for, others each time."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or programs,
            stateful_step_count=STEPS,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink) if EXAMPLES else (Phase.generate,),
        ),
    )
