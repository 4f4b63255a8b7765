"""What every test shares: where a marker's tests run, and when they are skipped with a reason."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

REPOSITORY = Path(__file__).resolve().parents[1]
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    for item in items:
        if chromium is None and item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.skip(reason="no Chromium here (Debian: chromium)"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return ByFile(config, log)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Workers share the suite by file, so that a fixture of a module is made once.

    All files that need Spark go to one worker: they share one Spark Connect server. (xdist's own
    groups need an attribute of tests that pytest 9.2 does not have any more.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if _needs_spark(file) else file

    def _assign_work_unit(self, node: object) -> None:
        """The longest part first, or one worker waits for it at the end."""
        if "spark" in self.workqueue:
            self.workqueue.move_to_end("spark", last=False)
        super()._assign_work_unit(node)


@cache
def _needs_spark(file: str) -> bool:
    return "pytest.mark.spark" in (REPOSITORY / file).read_text(encoding="utf-8")
