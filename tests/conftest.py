"""What every test shares: when it is skipped, how workers share the suite, what a run counts."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.support import run_report
from tests.support.crash_count import CrashCount
from tests.support.java_options import java_options
from tests.support.leftovers import nothing_left_running, stop_repetitions
from tests.support.memory_room import MEMORY, has_room
from tests.support.sampling import EXPLORE, SEED, examples, leave_to_soak
from tests.support.shared_postgres import CLUSTER
from tests.support.shared_work import SharedWork
from workers.repeating_tasks import active_repetitions

JAVA = "JAVA_TOOL_OPTIONS"
# No deadline, because a loaded machine is no failure. In the gate each test has constant examples.
settings.register_profile(
    "sluice",
    max_examples=examples(100),
    deadline=None,
    database=None,
    derandomize=EXPLORE not in os.environ,
    print_blob=True,
)
settings.load_profile("sluice")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("sluice_seed", "what chance draws by; see docs/testing.md")


def pytest_configure(config: pytest.Config) -> None:
    # Reports come together in the process that has no `workerinput`.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CrashCount(), "crash count")
        run_report.register(config)
        # The seed of the gate is constant; `make explore` sets another one. Workers inherit it.
        os.environ.setdefault(SEED, config.getini("sluice_seed"))
        os.environ.setdefault(JAVA, java_options())
    config.option.hypothesis_seed = os.environ[SEED]  # Before the plugin of Hypothesis reads it.
    # A commit waits for the disk more than a dozen times, and tests make thousands of them.
    if has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes some millions of objects that live until the end, and the garbage collector
    went through them again and again: while they are made, and at each of its full rounds later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # Or libraries in C report at the end what nobody released.


def pytest_report_header() -> str:
    return f"{SEED}={os.environ[SEED]}"


@pytest.hookimpl(tryfirst=True)  # Before `-m` chooses by marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_to_soak(items, int(os.environ[SEED]))
    run_report.mark_process_tests(items)
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    for item in items:
        if chromium is None and item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.skip(reason="no Chromium here (Debian: chromium)"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharedWork:
    return SharedWork(config, log)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, start_postgres: None
) -> None:
    """Start the cluster before Django creates its database there."""


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """Keep the databases also in the cluster of this run, which is removed as a whole."""
    return django_db_keepdb or CLUSTER in os.environ


@pytest.fixture(autouse=True)
def stopped_with_the_test() -> Iterator[None]:
    """Autouse fixtures start first and end last, so this one sees what other fixtures start."""
    with nothing_left_running():
        yield


@pytest.fixture(autouse=True, scope="module")
def stopped_with_the_module() -> Iterator[None]:
    """Writers that fixtures of a module leave open."""
    before = active_repetitions()
    yield
    stop_repetitions(besides=before)
