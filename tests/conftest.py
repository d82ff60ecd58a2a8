"""What every test shares: Hypothesis' profiles, and the lines that a run reports at its end."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("search", settings.get_profile("suite"), derandomize=False)
settings.load_profile(os.environ.get("LEASEWAY_HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def report_line(record_property: object) -> object:
    """Tells the run's summary a figure: `report_line("programs", "1,200")`."""
    assert callable(record_property)
    return lambda name, value: record_property(name, str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what the tests reported, from whichever process they ran in."""
    lines = [
        f"{name}: {value}"
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", ())
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
