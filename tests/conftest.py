"""What every test shares: where a marker's tests run, and when they are skipped with a reason."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.hookimpl(tryfirst=True)  # Groups are read by xdist's own hook of this name.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the suite by file, so that a fixture of a module is made once.

    All tests that need Spark go to one worker: they share one Spark Connect server.
    """
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    for item in items:
        needs_spark = item.get_closest_marker("spark") is not None
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else item.location[0]))
        if chromium is None and item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.skip(reason="no Chromium here (Debian: chromium)"))
