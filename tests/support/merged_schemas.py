"""Tables whose schema is the merge of two writers', for every reader to prove itself on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.support.scenario_table import Row, ScenarioTable, schema_of

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
KINDS = [
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
]
INNER, INNER_B, INNER_C = (
    pa.struct([("a", pa.int32())]),
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.struct([("a", pa.int32()), ("c", pa.float64())]),
)
BASE = schema_of(id=pa.int64(), n=pa.int32(), f=pa.float32(), inner=INNER)
PAIRS: dict[str, tuple[tuple[Row, pa.Schema], tuple[Row, pa.Schema]]] = {
    "two columns": (
        ({"x": "x"}, schema_of(x=pa.string())),
        ({"y": 2**40}, schema_of(y=pa.int64())),
    ),
    "two widenings": (
        ({"n": 2**40}, schema_of(n=pa.int64())),
        ({"f": 1e300}, schema_of(f=pa.float64())),
    ),
    "column and widening": (
        ({"n": 2**40}, schema_of(n=pa.int64())),
        ({"y": "y"}, schema_of(y=pa.string())),
    ),
    "two nested fields": (
        ({"inner": {"a": 2, "b": "b"}}, schema_of(inner=INNER_B)),
        ({"inner": {"a": 2, "c": 0.5}}, schema_of(inner=INNER_C)),
    ),
}


def merged_table(location: Path, kind: tuple[str, str], pair: str) -> ScenarioTable:
    """Four rows in files of the first schema, one changed by each of two writers at once."""
    table = ScenarioTable(location, schema=BASE, table_type=kind[0])
    base_rows = [{"id": key, "n": 1, "f": 0.5, "inner": {"a": 1}} for key in (0, 1, 2, 8)]
    table.writer("first").upsert_and_commit(*base_rows)
    writers = []
    for key, name, (row, schema) in zip((2, 8), ("rival", "writer"), PAIRS[pair], strict=True):
        writer = table.writer(name, mode=kind[1], options={STRATEGY: "evolvability"})
        writers.append(writer.upsert({"id": key, **row}, schema=schema))
    for writer in writers:
        writer.wins()
    return table
