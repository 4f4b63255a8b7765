"""Every operation after every other one, crashed at each storage call and recovered; of some the
recovery is crashed in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.harness import COW, MOR, NBCC, Kind, Trial, made
from tests.crash.operations import OPERATIONS, Operation

pytestmark = pytest.mark.slow

SEQUENCES = [
    (kind, first, second)
    for kind in (COW, MOR, NBCC)
    for first in OPERATIONS
    for second in OPERATIONS
    if first.runs_on(kind.name) and second.runs_on(kind.name)
]
RECOVERY_CRASHED = SEQUENCES[::7]
"""Seven shares no factor with the number of operations, so every operation has its turn."""


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    SEQUENCES,
    ids=[f"{kind.name}-{first.name}-{second.name}" for kind, first, second in SEQUENCES],
)
def test_table_is_old_or_new_after_two_operations(
    kind: Kind,
    first: Operation,
    second: Operation,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    trial = Trial(kind, second, made(kind, [*first.needs, first, *second.needs]))
    trial.run(crash_recovery=(kind, first, second) in RECOVERY_CRASHED)
    trial.judge(tmp_path)
    record_property("cases", trial.cases)
    assert trial.cases
