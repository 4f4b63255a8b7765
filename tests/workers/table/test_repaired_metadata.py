"""A commit whose file is damaged and repaired under a process that has the table open."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from workers.errors import MalformedTable
from workers.lakehouse import create_table, open_table

SCHEMA = schema_of(id=pa.string(), ts=pa.int64())


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_commit_that_is_repaired_in_place_is_read_without_a_restart(
    table_type: str, tmp_path: Path
) -> None:
    table = create_table(
        tmp_path, name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"], table_type=table_type
    )
    table.write(pa.Table.from_pylist([{"id": "a", "ts": 1}], SCHEMA))
    completed = max((tmp_path / ".hoodie/timeline").glob("*_*commit"))
    content = completed.read_bytes()

    completed.write_bytes(b"\0" * len(content))  # The same inode, as `cp` over it leaves it.
    reader = open_table(tmp_path)
    with pytest.raises(MalformedTable, match="commit metadata cannot be read"):
        reader.read()
    completed.write_bytes(content)

    assert reader.read().to_pydict() == {"id": ["a"], "ts": [1]}
    assert open_table(tmp_path).read().num_rows == 1
