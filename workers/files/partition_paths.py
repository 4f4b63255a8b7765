"""The partition path of each row, a column at a time: only distinct values are formatted.

Two partitions must not share a directory, and none may be inside another: every reader stops at the
outer one, or sees the inner one only. A row whose values have an ambiguous path is rejected.
`find_nested`, which sees all of a write, rejects partitions that nest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.names import DEFAULT_PARTITION, partition_path
from workers.files.time_texts import Unformatted, time_texts
from workers.options.table_options import TableConfig

_ENCODING = "hoodie.datasource.write.partitionpath.urlencode=true"
_FIRST_DAY: Any = pa.scalar(-719_162, pa.int32())
_LAST_DAY: Any = pa.scalar(2_932_896, pa.int32())
NESTED = (
    "a partition would be inside another partition, where readers miss its rows; create a table of "
    f"such values with {_ENCODING}, or write values of one depth"
)


def row_partition_paths(
    config: TableConfig, rows: pa.Table, *, is_new: bool = False
) -> pa.Array[Any]:
    """Return the partition path of each row, as texts in the order of the rows. With `is_new` the
    rows are to be stored, so their path must identify the values.

    Raises InvalidInput, Unformatted for values that do not match the table's date patterns.
    """
    if not config.partition_by:
        return pa.repeat(pa.scalar("", pa.string()), rows.num_rows)
    columns: list[Any] = [
        _values(config, field, rows).dictionary_encode(null_encoding="encode")
        for field in config.partition_by
    ]
    if len(columns) == 1:
        values, indices = [columns[0].dictionary.to_pylist()], columns[0].indices
    else:
        values, indices = _combinations(columns)
    combinations = list(zip(*values, strict=True))
    if is_new:
        for combination in combinations:
            check_distinct(config, combination)
    paths = [_path(config, combination) for combination in combinations]
    return pa.array(paths, pa.string()).take(indices)


def _combinations(columns: Sequence[Any]) -> tuple[list[list[object]], Any]:
    """Return the values of each column in every combination that occurs, and the combination of
    each row.
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return [column.take(pa.array(first)).to_pylist() for column in columns], pa.array(which)


def _values(config: TableConfig, field: str, rows: pa.Table) -> Any:
    """Return the values that `partition_path` formats; times are texts already."""
    column = rows.column(field)
    combined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(combined, pa.Array), "more text than one Arrow array holds"
    if field not in config.time_fields:
        _check_dates(field, combined)
        return combined
    assert config.time_rule is not None, config.name
    return time_texts(config.time_rule, field, combined)


def _check_dates(field: str, values: Any) -> None:
    """Check that dates are in the years 1 to 9999: others have no path. Raises Unformatted."""
    if pa.types.is_date32(values.type):
        days: Any = values.cast(pa.int32())
        is_bad: Any = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
        if pc.any(is_bad).as_py():
            raise Unformatted("a partition's date is outside the years 1 to 9999", is_bad, field)


def _path(config: TableConfig, values: Sequence[object]) -> str:
    if config.is_portable:
        for field, value in zip(config.partition_by, values, strict=True):
            _check_portable(config, field, value)
    return partition_path(
        config.partition_by, values, hive_style=config.hive_style, url_encode=config.url_encode
    )


def _check_portable(config: TableConfig, field: str, value: object) -> None:
    """Check that Apache Hudi reads the same value from the path: it has no empty text, and names
    end at a '='.
    """
    if value == "":
        raise InvalidInput(
            "Apache Hudi shows an empty partition value as null; write null, as a portable table "
            "reads alike everywhere",
            column=field,
        )
    if isinstance(value, str) and "=" in value and not config.url_encode:
        raise InvalidInput(
            "Apache Hudi shows only what follows '=' in a partition value; create a portable table "
            "of such values with hoodie.datasource.write.partitionpath.urlencode=true",
            column=field,
            value=value,
        )


def check_distinct(config: TableConfig, values: Sequence[object]) -> None:
    """Check that no other values of the partition columns have the same path. A null and an empty
    text have, as Hudi defines it. Raises InvalidInput.
    """
    for field, value in zip(config.partition_by, values, strict=True):
        if value == DEFAULT_PARTITION:
            raise InvalidInput(
                "a partition value must not be the word by which paths spell a null; write null",
                column=field,
                value=value,
            )
    texts = [
        (field, value)
        for field, value in zip(config.partition_by, values, strict=True)
        if field not in config.time_fields and isinstance(value, str)
    ]
    for field, value in texts[:-1]:  # All parts that no other column accounts for are the last's.
        if "/" in value and not config.url_encode:
            raise InvalidInput(
                "a partition value with '/' shifts the columns behind it, so that other values may "
                f"have the same path; create a table of such values with {_ENCODING}",
                column=field,
                value=value,
            )


def can_nest(config: TableConfig, schema: pa.Schema) -> bool:
    """Check whether the paths of two partitions of the table may have different depths."""
    return not config.url_encode and any(
        field not in config.time_fields and not _is_flat(schema.field(field).type)
        for field in config.partition_by
    )


def _is_flat(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)


def find_nested(
    paths: Collection[str], earlier: Collection[str], since: Collection[str] = ()
) -> tuple[str, str] | None:
    """Find a partition of a write that is inside another partition or around one: the outer and the
    inner one, or None. Two `earlier` ones are not a fault of the write, while those that were added
    `since` may conflict with it anyway.
    """
    new, old = frozenset(paths), frozenset(earlier)
    if old.issuperset(new) and old.issuperset(since):
        return None
    others = old.union(since, new)
    for path in sorted(others):
        for above in directories_above(path):
            is_known = path in old and above in old
            if not is_known and above in others and (above in new or path in new):
                return above, path
    return None


def directories_above(path: str, depth_min: int = 1) -> Iterator[str]:
    """Return the directories between the table and a partition, from the top, without those whose
    paths have fewer than `depth_min` parts: no partition can be there.
    """
    ends = (position for position, character in enumerate(path) if character == "/")
    for depth, position in enumerate(ends, start=1):
        if depth >= depth_min:
            yield path[:position]
