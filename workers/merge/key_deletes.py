"""The rest of a state after a delete by key: its deletes with an ordering value, and nothing else.

A delete by key has no ordering value, so nothing is stored of the live row, and a later row starts
from nothing. But a row that was deleted by ordering value stays deleted: that delete is not older
than a later row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.group_state import (
    ERASED,
    GONE,
    ROW_GONE,
    SET,
    bits,
    column_version,
    group_delete,
    has_bit,
    has_column_ages,
)
from workers.merge.top_n_lists import list_memory
from workers.merge.versions import Mask
from workers.options.column_groups import ColumnGroup


def find_tombstones(states: pa.Table, groups: Sequence[ColumnGroup]) -> pa.Table:
    """Return what remains of `states`, one per key, when their keys are deleted. Keys of which
    nothing remains are omitted.
    """
    names = set(states.column_names)
    deleted = bits(states, GONE)
    remaining = np.zeros(states.num_rows, np.int64)
    cells: dict[str, Any] = {}
    for number, group in enumerate(groups):
        cells |= dict.fromkeys(group.all_columns)
        cells |= {column_version(name, n): None for name in group.columns for n in _parts(group)}
        cells |= {list_memory(name): None for name in group.lists}
        if not group.is_ordered or not names.issuperset(group.ordering):
            continue  # Without an age its deletes keep nothing away.
        ages = list(group.ordering)
        stays = has_bit(deleted, number)
        if has_column_ages(group):
            ages = [group_delete(group.name, part) for part in _parts(group)]
            stays = _is_any_valid(states, ages)
        remaining |= stays.astype(np.int64) << number
        for column, age in zip(group.ordering, ages, strict=True):
            cells[column] = pc.if_else(pa.array(stays), states.column(age), None)
    cells |= {
        SET: pa.array(remaining),
        GONE: pa.array(remaining),
        ERASED: pa.array(np.zeros_like(remaining)),
    }
    stays = remaining != 0
    if ROW_GONE in names:
        stays |= _is_any_valid(states, [ROW_GONE])
    return _set_columns(states, cells).filter(pa.array(stays))


def _parts(group: ColumnGroup) -> range:
    return range(len(group.ordering))


def _is_any_valid(states: pa.Table, names: Sequence[str]) -> Mask:
    mask = np.zeros(states.num_rows, dtype=np.bool_)
    for name in names:
        mask |= np.asarray(states.column(name).is_valid().to_numpy())
    return mask


def _set_columns(states: pa.Table, cells: dict[str, Any]) -> pa.Table:
    """Set these columns where they exist; None stands for nulls."""
    columns = []
    for field in states.schema:
        column = cells[field.name] if field.name in cells else states.column(field.name)
        columns.append(pa.nulls(states.num_rows, field.type) if column is None else column)
    return pa.table(columns, schema=states.schema)
