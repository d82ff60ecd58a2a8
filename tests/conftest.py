"""What every test shares: Hypothesis' profiles, where files lie, and the lines that a run reports at its end."""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import coverage
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from leaseway_server.store.sqlite import files
from support.postgres import Postgres, any_postgres

settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("search", settings.get_profile("suite"), derandomize=False)
settings.load_profile(os.environ.get("LEASEWAY_HYPOTHESIS_PROFILE", "suite"))

_COUNTED: Final = (
    "unit/",
    "store/",
    "moving/test_hindered",
    "moving/test_command",
    "notify/test_contacts",
    "notify/test_forgetting",
    "notify/test_store",
    "notify/test_opening",
    "notify/test_notifier",
    "notify/test_execute",
    "server/test_engine",
    "server/test_following",
    "server/test_lists",
    "server/test_match.py",
)
"""The tests of the core and of the stores."""
_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 2 * 1024**3
"""Bytes: all that the tests have at one time, many times over."""


def pytest_configure() -> None:
    """Folders of tests lie in memory where there is enough, and programs may be run from it.

    Thousands of stores are made, each with its syncs, and no test cuts the power. `PYTEST_DEBUG_TEMPROOT=/tmp` has them
    on the disk; those that ask for `disk` always are.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Python need not look for cycles among thousands of tests: not while they are found, nor later again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long tests, which have a time of their own, come first: at the end all others would wait for them.

    Each process begins with a share of the tests as they stand here, and so with a share of the long ones.
    """
    long = [item for item in items if item.get_closest_marker("timeout")]
    others = (item for item in items if not item.get_closest_marker("timeout"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    dealt: list[pytest.Item] = []
    for place in range(processes):
        share = (len(items) - len(dealt)) // (processes - place)
        first = long[place::processes]
        dealt += [*first, *islice(others, max(0, share - len(first)))]
    items[:] = dealt


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Takes account of the lines that a test reaches, and of those of the processes that it starts, where it counts.

    To count them doubles the time of a test. What has to be reached wholly are the core and the stores: the tests of
    these alone are counted, unless `LEASEWAY_MEASURE=all` asks for more (`make coverage`). Hypothesis' examples never
    are: what only chance reaches wants a test of its own.
    """
    measured = coverage.Coverage.current()
    if measured is None or _counts(item):
        return (yield)
    measured.stop()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.delenv("COVERAGE_PROCESS_START", raising=False)
            return (yield)
    finally:
        measured.start()


def _counts(item: pytest.Item) -> bool:
    if item.get_closest_marker("unmeasured") or is_hypothesis_test(getattr(item, "obj", None)):
        return False
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    return place.startswith(_COUNTED) or os.environ.get("LEASEWAY_MEASURE") == "all"


@pytest.fixture(scope="session", autouse=True)
def _small_logs() -> Iterator[None]:
    """A store makes its log in its full size at the start: 16 MiB for each of thousands of tests is too much."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "WAL_BYTES", 1024 * 1024)
        yield


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the disk, where a sync takes its time."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL, one for all tests of the process: each has a database or a queue of its own."""
    with any_postgres() as postgres:
        yield postgres
