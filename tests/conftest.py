"""What every test shares: Hypothesis' profiles, and the lines that a run reports at its end."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from leaseway_server.store.sqlite import files

settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("search", settings.get_profile("suite"), derandomize=False)
settings.load_profile(os.environ.get("LEASEWAY_HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session", autouse=True)
def _small_logs() -> Iterator[None]:
    """A store makes its log in its full size at the start: 16 MiB for each of thousands of tests is too much."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "WAL_BYTES", 1024 * 1024)
        yield


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
