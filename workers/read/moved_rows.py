"""Rows that one commit, or several, took from one file group to another: an update each, and not a
row that goes and one that comes.

A key goes to another partition where rows move, and to another file group of its partition where
groups are replaced. Only file groups between which keys can go are compared together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.options.table_options import TableConfig
from workers.read.history import bucket_number
from workers.read.log_versions import IS_DELETED
from workers.table.view import GroupKey
from workers.timeline.metadata import CommitMetadata

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NOWHERE = -1
_pc: Any = pc
_WIDER = ((PARTITION_PATH, RECORD_KEY), (RECORD_KEY,))


def groups_together(
    config: TableConfig, commits: Collection[CommitMetadata], columns: Collection[str]
) -> list[list[GroupKey]]:
    """Return the file groups that `commits` touched, those together between which a key can have
    gone; `columns` are the table's.

    A key has one bucket number in all partitions.
    """
    touched = sorted({group for one in commits for group in one.file_groups})
    if not _removes_rows(commits, columns):
        return [[group] for group in touched]
    together: dict[int | None, list[GroupKey]] = {}
    for group in touched:
        together.setdefault(bucket_number(config, group[1]), []).append(group)
    return list(together.values())


def counterparts(old: pa.Table, new: pa.Table) -> tuple[Positions, Mask]:
    """Return the position in `old` of each row of `new`, NOWHERE for a row without one, and which
    rows of `old` are gone. A row has its counterpart in its partition, else where it came from.
    """
    everywhere = np.arange(old.num_rows), np.arange(new.num_rows)
    old_ids, new_ids = (
        _identities(rows, at, _WIDER[0]) for rows, at in zip((old, new), everywhere, strict=True)
    )
    position: Any = pc.index_in(new_ids, value_set=old_ids)
    is_gone: Any = pc.invert(pc.is_in(old_ids, value_set=new_ids))
    at = pc.fill_null(position, NOWHERE).to_numpy().astype(np.int64)
    return pair_moved(old, new, at, np.asarray(is_gone.to_numpy(zero_copy_only=False)))


def in_partition(rows: pa.Table, partition: str) -> pa.Table:
    """Return rows of one partition that name it; other engines' rows need not."""
    paths: Any = pa.repeat(pa.scalar(partition, pa.string()), rows.num_rows)
    return rows.set_column(rows.column_names.index(PARTITION_PATH), PARTITION_PATH, paths)


def positions(at: Positions) -> Any:
    """Return the positions as Arrow takes them, null for NOWHERE."""
    return pa.array(at, pa.int64(), mask=at == NOWHERE)


def pair_moved(
    old: pa.Table, new: pa.Table, at: Positions, is_gone: Mask
) -> tuple[Positions, Mask]:
    """Find the rows of `new` that have no counterpart among the rows of `old` that are gone: first
    in their partition, then in any other.

    `at` is the position in `old` of each row of `new`, NOWHERE for a row without one. Returns both
    as they are then: each row that is gone is the counterpart of one row at most.
    """
    at, is_gone = at.copy(), is_gone.copy()
    for names in _WIDER:
        waiting, gone = np.flatnonzero(at == NOWHERE), np.flatnonzero(is_gone)
        if not (len(waiting) and len(gone)):
            break
        position: Any = pc.index_in(_identities(new, waiting, names), _identities(old, gone, names))
        numbers: Positions = pc.fill_null(position, NOWHERE).to_numpy().astype(np.int64)
        matched = np.flatnonzero(numbers != NOWHERE)
        taken, first = np.unique(numbers[matched], return_index=True)
        at[waiting[matched[first]]] = gone[taken]
        is_gone[gone[taken]] = False
    return at, is_gone


def _removes_rows(commits: Iterable[CommitMetadata], columns: Collection[str]) -> bool:
    """Whether a row can have left its file group. A log does not count rows that say themselves
    that they are deleted.
    """
    if IS_DELETED in columns:
        return True
    return any(
        one.replaced_groups or any(stat.num_deletes for stat in one.stats) for one in commits
    )


def _identities(rows: pa.Table, at: Positions, names: Iterable[str]) -> pa.Array[Any]:
    columns: list[Any] = [rows.column(name).take(positions(at)).combine_chunks() for name in names]
    if len(columns) == 1:
        only: pa.Array[Any] = columns[0]
        return only
    joined: pa.Array[Any] = _pc.binary_join_element_wise(*columns, pa.scalar("\0"))
    return joined
