"""What every test shares: when it is skipped, how workers share the suite, what a run counts."""

from __future__ import annotations

import shutil

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.support.crash_count import CrashCount
from tests.support.shared_work import SharedWork

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_configure(config: pytest.Config) -> None:
    # Reports come together in the process that has no `workerinput`.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CrashCount(), "crash count")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    for item in items:
        if chromium is None and item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.skip(reason="no Chromium here (Debian: chromium)"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharedWork:
    return SharedWork(config, log)
