"""Every operation crashed at every storage call, and its recovery crashed at every call in turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.harness import (
    COW,
    COW_GLOBAL,
    COW_SIMPLE,
    MOR,
    MOR_BLOOM,
    MOR_GLOBAL,
    NBCC,
    Kind,
    Trial,
    made,
)
from tests.crash.operations import CLUSTER, COMPACT, MOVE, OPERATIONS, UPSERT, Operation

TRIALS = [
    (kind, operation)
    for operation in OPERATIONS
    for kind in (COW, MOR, NBCC)
    if operation.runs_on(kind.name)
] + [
    (COW_SIMPLE, UPSERT),
    (COW_SIMPLE, CLUSTER),
    (MOR_BLOOM, UPSERT),
    (MOR_BLOOM, COMPACT),
    (COW_GLOBAL, MOVE),
    (MOR_GLOBAL, MOVE),
]


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize(
    ("kind", "operation"), TRIALS, ids=[f"{one.name}-{kind.name}" for kind, one in TRIALS]
)
@pytest.mark.sampled(every=2)
def test_table_is_old_or_new_whatever_call_dies(
    kind: Kind, operation: Operation, run_trial: Callable[[Trial], int]
) -> None:
    cases = run_trial(Trial(kind, operation, made(kind, operation.needs)))

    assert cases >= operation.cases_least
