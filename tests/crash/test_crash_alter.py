"""Alters crashed at every storage call: the old schema or the new one, the same rows throughout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.crash.harness import COW, MOR, NBCC, Kind, Trial, made
from tests.crash.operations import OPERATIONS, Operation, Options, Run
from workers.config import write_options
from workers.lakehouse import LakehouseTable
from workers.schema.alter import AddColumn, RenameColumn, SchemaChange
from workers.write.alter import alter_schema

pytestmark = pytest.mark.slow

EVOLVED = next(one for one in OPERATIONS if one.name == "evolve")


def _alter(change: SchemaChange) -> Run:
    def run(table: LakehouseTable, options: Options) -> None:
        alter_schema(table.table, write_options(options), [change])

    return run


def _operation(name: str, change: SchemaChange) -> Operation:
    return Operation(name, _alter(change), needs=(EVOLVED,), keeps_rows=True, again=False)


@pytest.mark.parametrize("kind", [COW, MOR, NBCC], ids=["cow", "mor", "nbcc"])
def test_added_column_is_there_or_not_whatever_call_dies(
    kind: Kind, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    _crashed_everywhere(kind, AddColumn("extra", pa.int32()), tmp_path, record_property)


@pytest.mark.parametrize("kind", [COW, MOR], ids=["cow", "mor"])
def test_renamed_column_has_the_old_or_the_new_name_whatever_call_dies(
    kind: Kind, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    _crashed_everywhere(kind, RenameColumn("note", "remark"), tmp_path, record_property)


def _crashed_everywhere(
    kind: Kind,
    change: SchemaChange,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    operation = _operation("alter", change)
    trial = Trial(kind, operation, made(kind, operation.needs))
    trial.run(crash_recovery=True)
    trial.judge(tmp_path)
    record_property("cases", trial.cases)
    assert trial.cases >= operation.cases_least
