"""Deletes in logs with the type that the ordering column had before it was widened.

Apache Hudi compares such an ordering value with that of every row that it merges the delete with,
and fails on numbers of two types. It casts rows, but not deletes. So where it merges logs, an
ordering column is widened only if no log has such deletes, and no writer of the older type can add
one.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from workers.errors import InvalidInput, NotFound
from workers.files.delete_record import ERASES, find_wrapper
from workers.files.log_block import Deletes
from workers.files.log_file import read_log_file
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table.view import FileSystemView


def find_widened_type(
    table: Table, before: TableSchema | None, after: TableSchema
) -> pa.DataType | None:
    """Return the ordering column's type in `after`, if deletes with its type in `before` would not
    compare with it; None otherwise.
    """
    config = table.config
    field = config.ordering_field
    if before is None or field is None or not config.is_merge_on_read or config.merger is not None:
        return None
    if field not in before.field_names or field not in after.field_names:
        return None
    wider = after.arrow.field(field).type
    return None if before.arrow.field(field).type == wider else wider


def check_deletes_compare(table: Table, before: TableSchema | None, after: TableSchema) -> None:
    """Compare the types that a schema change gives to ordering columns.

    Raises InvalidInput if the table's logs contain deletes whose ordering values would be of
    another type. Reads logs only if the change could cause that.
    """
    if (wider := find_widened_type(table, before, after)) is None:
        return
    paths = (path for slice_ in FileSystemView.load(table).slices for path in slice_.log_files)
    if (path := find_other_ordering_type(table.storage, paths, wider)) is not None:
        raise InvalidInput(
            "logs hold deletes whose ordering values are of the older type, which Apache Hudi does "
            "not compare with a wider one: compact the table, then widen the column",
            column=table.config.ordering_field,
            wanted=wider,
            file=path,
        )


def find_other_ordering_type(
    storage: Storage, paths: Iterable[str], kind: pa.DataType
) -> str | None:
    """Return the first log file with a delete whose ordering value has another type; None if there
    is none.
    """
    return next(
        (path for path in paths if _has_other_type(storage, path, find_wrapper(kind))), None
    )


def _has_other_type(storage: Storage, path: str, wrapper: str) -> bool:
    try:
        blocks = read_log_file(storage, path)
    except NotFound:  # Compacted and cleaned away since it was listed.
        return False
    ages = {
        record.ordering
        for block in blocks
        if isinstance(block, Deletes)
        for record in block.records
    }
    return any(age is not None and age not in ERASES and age[0] != wrapper for age in ages)
