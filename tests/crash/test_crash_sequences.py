"""Every operation after every other one, crashed at each storage call, and every fifth recovery
from that crashed at each of its calls in turn.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.harness import (
    COW,
    COW_SIMPLE,
    MOR,
    MOR_BLOOM,
    MOR_GLOBAL,
    NBCC,
    Kind,
    Trial,
    made,
)
from tests.crash.operations import (
    CLEAN,
    CLUSTER,
    COMPACT,
    DELETE,
    MOVE,
    OPERATIONS,
    OVERWRITE,
    UPSERT,
    Operation,
)
from tests.support.crash_count import DRAWN_EVERY, SUITE_TESTS

pytestmark = [pytest.mark.slow, pytest.mark.sampled(every=DRAWN_EVERY)]

# The second operation decides how many cases a test has. Neighbours share it, so a run that draws
# one of each few neighbours tries its part of all cases whatever it draws.
SEQUENCES = [
    (kind, first, second)
    for kind in (COW, MOR, NBCC)
    for second in OPERATIONS
    for first in OPERATIONS
    if first.runs_on(kind.name) and second.runs_on(kind.name)
]
LOOKED_UP = {
    COW_SIMPLE: (UPSERT, DELETE, OVERWRITE, CLUSTER, CLEAN),
    MOR_BLOOM: (UPSERT, DELETE, COMPACT, CLUSTER),
    MOR_GLOBAL: (MOVE, UPSERT, DELETE, COMPACT),
}
"""Indexes that look keys up; some operations, for what comes behind placing is the same."""
SEQUENCES += [
    (kind, first, second)
    for kind, operations in LOOKED_UP.items()
    for second in operations
    for first in operations
]
RECOVERIES_CRASHED_EVERY = 5
"""Beginning with another one in each sequence: five shares no factor with how many operations there
are, so every moment of each has its turn.
"""


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    SEQUENCES,
    ids=[f"{kind.name}-{first.name}-{second.name}" for kind, first, second in SEQUENCES],
)
def test_table_is_old_or_new_after_two_operations(
    kind: Kind,
    first: Operation,
    second: Operation,
    run_trial: Callable[[Trial], int],
    record_property: Callable[[str, object], None],
) -> None:
    record_property(SUITE_TESTS, len(SEQUENCES))

    start = made(kind, [*first.needs, first, *second.needs])
    offset = SEQUENCES.index((kind, first, second))

    assert run_trial(Trial(kind, second, start, RECOVERIES_CRASHED_EVERY, offset))
