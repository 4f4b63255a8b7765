"""Types that Apache Hudi lets a writer promote: stored values are read as what their column is now,
on both table types, in base files and in logs.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from tests.support.foreign_commits import foreign_commit
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from workers.errors import UnsupportedTable
from workers.lakehouse import open_table
from workers.schema.table_schema import TableSchema
from workers.timeline.instant import Action
from workers.timeline.metadata import SCHEMA_KEY

BIG = 2**53 + 1
LONGS, FLOATS = [1, -BIG, None], [1.5, 1e10, None]
POINT = pa.struct([("x", pa.int32())])
PROMOTIONS: list[tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = [
    (pa.int32(), pa.int64(), [1, None], [1, None]),
    (pa.int32(), pa.float32(), [16_777_217, None], [16_777_216.0, None]),
    (pa.int32(), pa.float64(), [7, None], [7.0, None]),
    (pa.int32(), pa.string(), [-7, None], ["-7", None]),
    (pa.int64(), pa.float32(), LONGS, [1.0, -float(2**53), None]),
    (pa.int64(), pa.float64(), LONGS, [1.0, -float(2**53), None]),
    (pa.int64(), pa.string(), LONGS, ["1", str(-BIG), None]),
    (pa.float32(), pa.float64(), [0.5, None], [0.5, None]),
    (pa.float32(), pa.string(), FLOATS, ["1.5", "1.0E10", None]),
    (pa.float64(), pa.string(), FLOATS, ["1.5", "1.0E10", None]),
    (pa.date32(), pa.string(), [dt.date(2024, 2, 29), None], ["2024-02-29", None]),
    (pa.binary(), pa.string(), ["ß".encode(), None], ["ß", None]),
    (pa.string(), pa.binary(), ["ß", None], ["ß".encode(), None]),
    (pa.list_(pa.int64()), pa.list_(pa.string()), [[1, None], None], [["1", None], None]),
    (
        pa.map_(pa.string(), pa.int32()),
        pa.map_(pa.string(), pa.float64()),
        [[("k", 1)], None],
        [[("k", 1.0)], None],
    ),
    (
        POINT,
        pa.struct([("x", pa.string()), ("y", pa.int32())]),
        [{"x": 1}, None],
        [{"x": "1", "y": None}, None],
    ),
]


def promote(table: ScenarioTable, column: str, kind: pa.DataType) -> None:
    """A commit of another engine's, under whose schema the column has this type."""
    current = table.lakehouse.schema()
    assert current is not None
    fields = [pa.field(one.name, kind) if one.name == column else one for one in current]
    schema = TableSchema.from_arrow(pa.schema(fields), table_name="scenario")
    is_mor = table.table.config.is_merge_on_read
    action = Action.DELTACOMMIT if is_mor else Action.COMMIT
    foreign_commit(table.table, {SCHEMA_KEY: schema.avro_json}, "UPSERT", action)


def typed(values: list[Any], kind: pa.DataType, first: int = 0) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + len(values))), "v": pa.array(values, kind)}
    )


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("log_format", ["avro", None])
@pytest.mark.parametrize(
    ("old", "new", "stored", "read"), PROMOTIONS, ids=lambda shown: str(shown).replace(" ", "")[:30]
)
def test_promoted_column_is_read_and_written_on(
    tables: ScenarioTables,
    old: pa.DataType,
    new: pa.DataType,
    stored: list[Any],
    read: list[Any],
    log_format: str | None,
) -> None:
    table = tables(
        schema=pa.schema([("id", pa.int64()), ("v", old)]),
        table_type="MERGE_ON_READ" if log_format else "COPY_ON_WRITE",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.excuse_referee("other readers have promotions of their own")
    options = {"hoodie.write.markers.type": "direct"}
    if log_format:
        options["hoodie.logfile.data.block.format"] = log_format
    for _ in range(2):  # The second goes into a log, where there are logs.
        table.lakehouse.write(typed(stored, old), options=options)
    promote(table, "v", new)

    assert [row["v"] for row in table.rows()] == read
    later = open_table(table.location)
    later.write(typed(read[:1], new, first=99), options=options)
    if log_format:
        later.compact()
    assert [row["v"] for row in table.rows()] == [*read, read[0]]


def test_type_that_is_not_promoted_is_refused_by_the_name_of_the_column(
    table: ScenarioTable,
) -> None:
    table.excuse_referee("no engine reads it")
    table.lakehouse.write(
        pa.table({"id": [1], "city": ["Oslo"]}), options={"hoodie.write.markers.type": "direct"}
    )
    promote(table, "city", pa.int64())

    with pytest.raises(UnsupportedTable, match=r"column=city.*table=long.*stored=string"):
        table.rows()
