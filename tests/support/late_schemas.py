"""Tables whose newest schema was brought by the writer that began first and committed last."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.support.scenario_table import Row, ScenarioTable, schema_of

KINDS = [
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
]
BASE = schema_of(id=pa.int64(), n=pa.int32())
LATE: dict[str, tuple[Row, pa.Schema]] = {
    "new column": ({"n": 1, "note": "late"}, schema_of(n=pa.int32(), note=pa.string())),
    "widened column": ({"n": 2**40}, schema_of(n=pa.int64())),
}


def late_table(location: Path, kind: tuple[str, str], change: str) -> ScenarioTable:
    """The two writers meet in no file group."""
    table = ScenarioTable(location, table_type=kind[0], schema=BASE)
    fill_late(table, kind[1], change)
    return table


def fill_late(table: ScenarioTable, mode: str, change: str) -> None:
    table.writer("first").upsert_and_commit(*({"id": key, "n": 1} for key in (0, 2, 8)))
    row, schema = LATE[change]
    late = table.writer("late", mode=mode).upsert({"id": 2, **row}, schema=schema)
    table.writer("rival", mode=mode).upsert_and_commit({"id": 8, "n": 8})
    late.wins()
