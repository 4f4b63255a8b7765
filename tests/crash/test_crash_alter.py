"""Alters crashed at every storage call: the old schema or the new one, the same rows throughout."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.crash.harness import COW, MOR, NBCC, Kind, Trial, made
from tests.crash.operations import OPERATIONS, Operation, Options, Run
from workers.lakehouse import LakehouseTable
from workers.options.write_options import write_options
from workers.schema.alter import AddColumn, RenameColumn, SchemaChange
from workers.write.alter import alter_schema

pytestmark = pytest.mark.slow

CASES_LEAST = 8
EVOLVED = next(one for one in OPERATIONS if one.name == "evolve")


def _alter(change: SchemaChange) -> Run:
    def run(table: LakehouseTable, options: Options) -> None:
        alter_schema(table.table, write_options(options), [change])

    return run


def _trial(kind: Kind, change: SchemaChange) -> Trial:
    operation = Operation("alter", _alter(change), needs=(EVOLVED,), keeps_rows=True)
    return Trial(kind, operation, made(kind, operation.needs))


@pytest.mark.parametrize("kind", [COW, MOR, NBCC], ids=["cow", "mor", "nbcc"])
def test_added_column_is_there_or_not_whatever_call_dies(
    kind: Kind, run_trial: Callable[[Trial], int]
) -> None:
    assert run_trial(_trial(kind, AddColumn("extra", pa.int32()))) >= CASES_LEAST


@pytest.mark.parametrize("kind", [COW, MOR], ids=["cow", "mor"])
def test_renamed_column_has_the_old_or_the_new_name_whatever_call_dies(
    kind: Kind, run_trial: Callable[[Trial], int]
) -> None:
    assert run_trial(_trial(kind, RenameColumn("note", "remark"))) >= CASES_LEAST
