"""The partition that nulls and empty texts share: replacing one of them must not take the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.names import DEFAULT_PARTITION
from workers.options.table_options import TableConfig
from workers.read.file_slice import read_slice
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

Values = frozenset[tuple[object, ...]]
"""The partition columns in their order: null, empty, or `*` for a value that the path has."""


def is_shared(path: str) -> bool:
    """Check whether the partition may hold rows of several values."""
    return DEFAULT_PARTITION in path


def partition_values(config: TableConfig, rows: pa.Table) -> Values:
    """Return the values of the partition columns, each combination once."""
    fields = [field for field in config.partition_by if field not in config.time_fields]
    listed = rows.select(fields).group_by(fields).aggregate([]).to_pylist()
    return frozenset(get_partition_pattern(config, row) for row in listed)


def get_partition_pattern(config: TableConfig, row: Mapping[str, object]) -> tuple[object, ...]:
    """Return what one row, or a caller who names a partition by values, has in the columns."""
    fields = [field for field in config.partition_by if field not in config.time_fields]
    return tuple(row[field] if row[field] in (None, "") else "*" for field in fields)


def check_replaced_values(
    config: TableConfig,
    schema: TableSchema,
    storage: Storage,
    slices: Iterable[FileSlice],
    replaced: Values,
) -> None:
    """Check that the standing rows of a partition have the values for which it is replaced.

    Raises InvalidInput naming both values, NotFound, MalformedTable.
    """
    for file_slice in slices:
        rows = read_slice(storage, config, schema, file_slice, columns=config.partition_by)
        if others := partition_values(config, rows) - replaced:
            raise InvalidInput(
                "the partition holds rows with another value too, and they would go with it; "
                "delete rows by a predicate instead, or name the partition by its path to replace "
                "all of them",
                partition=file_slice.partition,
                replaced=min(replaced, key=repr),
                stands=min(others, key=repr),
            )
