"""Some rows of the file groups that an overwrite or a partition delete replaces, for its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from workers.read.file_slice import read_slice
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table_services.service import SAMPLE_ROWS, ServicePlan


def add_sample(plan: ServicePlan, table: Table, slices: Sequence[FileSlice]) -> ServicePlan:
    """Return the plan with some of the rows of these slices."""
    sample = sample_rows(table, slices)
    return plan if sample is None else replace(plan, sample=sample)


def sample_rows(table: Table, slices: Sequence[FileSlice]) -> pa.Table | None:
    """Return rows of the first slice that has any: their key, partition and ordering columns. Later
    slices are not read. None for a table without rows.
    """
    schema = load_schema(table)
    if schema is None:
        return None
    config = table.config
    ordering = () if config.ordering_field is None else (config.ordering_field,)
    located = dict.fromkeys((*config.record_key, *config.partition_by, *ordering))
    columns = [name for name in located if name in schema.arrow.names]
    for slice_ in slices[:SAMPLE_ROWS]:
        rows = read_slice(
            table.storage, config.showing_unmatched, schema, slice_, columns=frozenset(columns)
        )
        if rows.num_rows:
            present = [name for name in columns if name in rows.column_names]
            return rows.select(present or rows.column_names).slice(0, SAMPLE_ROWS)
    return None
