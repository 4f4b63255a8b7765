"""The partition path of each row, a column at a time: only what differs is spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.names import partition_path
from workers.files.time_texts import time_texts
from workers.options.table_options import TableConfig


def row_partition_paths(config: TableConfig, rows: pa.Table) -> pa.Array[Any]:
    """The partition path of each row, as texts in the order of the rows.

    Raises InvalidInput, Unformatted for values that are no date of the table's patterns.
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
    paths = [_path(config, combination) for combination in zip(*values, strict=True)]
    return pa.array(paths, pa.string()).take(indices)


def _combinations(columns: Sequence[Any]) -> tuple[list[list[object]], Any]:
    """The values of each column in every combination that there is, and which one each row has."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return [column.take(pa.array(first)).to_pylist() for column in columns], pa.array(which)


def _values(config: TableConfig, field: str, rows: pa.Table) -> Any:
    """What `partition_path` spells: a time's text is one already."""
    column = rows.column(field)
    combined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(combined, pa.Array), "more text than one Arrow array holds"
    if field not in config.time_fields:
        return combined
    assert config.time_rule is not None, config.name
    return time_texts(config.time_rule, field, combined)


def _path(config: TableConfig, values: Sequence[object]) -> str:
    if config.is_portable:
        for field, value in zip(config.partition_by, values, strict=True):
            _check_portable(config, field, value)
    return partition_path(
        config.partition_by, values, hive_style=config.hive_style, url_encode=config.url_encode
    )


def _check_portable(config: TableConfig, field: str, value: object) -> None:
    """Apache Hudi shows what the path says: it has no empty text, and names end at a '='."""
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
