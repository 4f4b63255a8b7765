"""How the workers of pytest-xdist share the suite."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

REPOSITORY = Path(__file__).resolve().parents[2]
GROUPS = {
    "pytest.mark.interop": "interop",
    "pytest.mark.spark": "spark",
    "pytest.mark.kafka": "kafka",
    "pytest.mark.browser": "browser",
    "from tests.support.source_files import": "repository",
}
"""Files with this text go to one worker: they share a process that takes long to start, or the
parsed files of the repository.
"""
FIRST = (
    *GROUPS.values(),
    "tests/controlplane/node/",
    "tests/controlplane/demo/test_demo_node.py",
    "tests/sink/",
    "tests/workers/demo/test_ad_streams.py",
    "tests/controlplane/test_databases.py",
    "tests/workers/markers/test_marker_crash.py",
    "tests/crash/test_crash_executors.py",
    "tests/scenarios/test_key_partitions_by_chance.py",
    "tests/state_machine/",
    "tests/scenarios/test_frozen_services.py",
    "tests/sink_simulator/",
    "tests/security/test_openapi_fuzz.py",
    "tests/crash/test_crash_sleeping_services.py",
    "tests/differential/",
    "tests/web/test_fragments.py",
)
"""The longest parts first, or one worker waits for them at the end: they have few tests, and xdist
begins with the parts that have many.
"""
SPREAD = ("tests/crash/", "tests/sink_simulator/")
"""Files whose tests share nothing that takes long; their cases are spread."""


class SharedWork(LoadScopeScheduling):  # type: ignore[misc]
    """By file, so that a fixture of a module is made once, but for what the tables above name.

    (xdist's own groups need an attribute of tests that pytest 9.2 does not have any more.)
    """

    _is_ordered = False

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        if not self._is_ordered:
            for beginning in reversed(FIRST):
                for part in [name for name in self.workqueue if name.startswith(beginning)]:
                    self.workqueue.move_to_end(part, last=False)
            self._is_ordered = True
        super()._assign_work_unit(node)


def part_of(nodeid: str) -> str:
    """The part of the suite to which a test belongs: one worker runs it from start to end."""
    file = nodeid.partition("::")[0]
    if file.startswith(SPREAD):
        # The last parameter changes within a part, so a part shares how its tables begin.
        return nodeid.rpartition("-")[0] or file
    return _group(file) or file


@cache
def _group(file: str) -> str | None:
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    return next((group for mark, group in GROUPS.items() if mark in text), None)
