"""hudi-rs as the judge of what we wrote: it must read the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder


def referee_table(location: Path | str) -> pa.Table:
    """The snapshot as hudi-rs reads it, meta columns included; an empty table has no columns.

    hudi-rs raises a Rust panic as a BaseException: let it fail the test.
    """
    reader = HudiTableBuilder.from_base_uri(str(location)).build()
    batches = [pa.record_batch(batch) for batch in reader.read()]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def referee_rows(location: Path | str, columns: list[str]) -> list[dict[str, Any]]:
    table = referee_table(location)
    return table.select(columns).to_pylist() if table.num_columns else []
