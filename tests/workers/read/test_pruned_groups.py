"""Reads with filters leave out no file group that may hold a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from workers.lakehouse import create_table
from workers.read.pruning import SlicePruner, among

_TYPES: dict[str, pa.DataType] = {"a": pa.string(), "b": pa.int64()}
SCHEMA = pa.schema(_TYPES)
ROWS = pa.table({"a": ["x"], "b": [1]}, schema=SCHEMA)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
@pytest.mark.parametrize("key", [["a"], ["a", "b"]], ids=len)
def test_a_random_file_id_that_begins_with_digits_is_no_bucket(
    tmp_path: Path, index: str, key: list[str]
) -> None:
    """One random id in 43 begins with eight decimal digits, as that of a bucket does."""
    table = create_table(
        tmp_path / "t",
        name="t",
        schema=SCHEMA,
        record_key=key,
        options={"hoodie.index.type": index},
    )
    table.write(ROWS, options={"hoodie.write.markers.type": "direct"})
    [slice_] = table.file_groups()
    conditions = (among("a", "x"), among("b", 1))

    pruner = SlicePruner(table.table.config, SCHEMA, conditions)

    assert pruner.may_hold(slice_)
    assert pruner.may_hold(replace(slice_, file_id="12345678-90ab-cdef-1234-567890abcdef-0"))
