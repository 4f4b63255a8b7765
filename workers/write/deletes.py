"""Deletes on their way into a delete block (format page 5.5)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.delete_record import DELETE_NOW as DELETES_NOW
from workers.files.delete_record import MOVED, DeleteRecord
from workers.files.meta_columns import RECORD_KEY
from workers.merge.versions import DELETE_NOW, DELETED
from workers.options.table_options import TableConfig
from workers.schema.bad_rows import reject_rows


def ordering_wrapper(ordering_type: pa.DataType) -> str:
    """Hudi's wrapper of an ordering value of this type. Raises InvalidInput."""
    types = pa.types
    names = {
        "IntWrapper": types.is_int8(ordering_type)
        or types.is_int16(ordering_type)
        or types.is_int32(ordering_type),
        "LongWrapper": types.is_int64(ordering_type),
        "FloatWrapper": types.is_float32(ordering_type),
        "DoubleWrapper": types.is_float64(ordering_type),
        "StringWrapper": types.is_string(ordering_type) or types.is_large_string(ordering_type),
        "DateWrapper": types.is_date32(ordering_type),
        "TimestampMicrosWrapper": types.is_timestamp(ordering_type) and ordering_type.unit == "us",
    }
    for wrapper, matches in names.items():
        if matches:
            return wrapper
    raise InvalidInput(
        "deletes that compete by ordering value need one of another type; delete by key instead",
        type=ordering_type,
    )


def check_ordered_deletes(config: TableConfig, schema: pa.Schema) -> None:
    """Check that the table can keep how old each delete is. Raises InvalidInput where rows cannot
    be deleted only as old as they were seen.
    """
    if config.ordering_field is None or config.merger is not None:
        raise InvalidInput(
            "a non-blocking writer does not see what others change while it reads rows: on a "
            "table whose rows have no ordering field, or a merger of their own, it deletes by key "
            "only; use OPTIMISTIC_CONCURRENCY_CONTROL for predicates",
            table=config.name,
        )
    ordering_wrapper(schema.field(config.ordering_field).type)


def check_ages(config: TableConfig, rows: pa.Table) -> None:
    """Check that every row to delete has an ordering value. Raises BadRows for rows whose value a
    delete cannot contain.
    """
    field = config.ordering_field
    assert field is not None, config.name
    ages: Any = rows.column(field).combine_chunks()
    what = "the row has no ordering value, so a non-blocking writer deletes it by key only"
    reject_rows(pc.is_null(ages), what, field)
    if ordering_wrapper(ages.type) == DELETES_NOW[0]:
        what = "Hudi takes a delete of this age for one of every age; delete the row by key"
        reject_rows(pc.equal(ages, pa.scalar(DELETES_NOW[1], ages.type)), what, field)


def build_move_records(keys: pa.Table, partition: str) -> list[DeleteRecord]:
    """Build delete records for rows of column groups that go to another partition."""
    names: list[Any] = keys.column(RECORD_KEY).to_pylist()
    return [DeleteRecord(key, partition, MOVED) for key in names]


def delete_records(deletes: pa.Table, partition: str, ordering: str | None) -> list[DeleteRecord]:
    """Build one record per row of `deletes`: its key, and the ordering value by which it
    competes.
    """
    keys: list[Any] = deletes.column(RECORD_KEY).to_pylist()
    if ordering is None or ordering not in deletes.column_names:
        return [DeleteRecord(key, partition, DELETES_NOW) for key in keys]
    kinds = deletes.column(DELETED).to_pylist()
    if all(kind == DELETE_NOW for kind in kinds):  # Such as rows that move: of any ordering type.
        return [DeleteRecord(key, partition, DELETES_NOW) for key in keys]
    wrapper = ordering_wrapper(deletes.schema.field(ordering).type)
    values = deletes.column(ordering).to_pylist()
    return [
        DeleteRecord(key, partition, DELETES_NOW if kind == DELETE_NOW else (wrapper, value))
        for key, kind, value in zip(keys, kinds, values, strict=True)
    ]
