"""The handling of keys that exist already by an insert (`hoodie.datasource.insert.dup.policy`).

Without a policy an insert of a known key updates it: keys are never duplicated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import RECORD_KEY
from workers.options.write_keys import DuplicatePolicy
from workers.read.file_slice import read_slice
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.groups import RowGroup

_INSERTS = ("insert", "bulk_insert")
_KEYS_NAMED_MAX = 5


def without_known_keys(
    context: WriteContext, group: RowGroup, current_slice: FileSlice | None, storage: Storage
) -> RowGroup:
    """Return the group's rows that may be inserted. Raises InvalidInput under policy `fail`."""
    policy = context.options.duplicate_policy
    if context.operation not in _INSERTS or policy is DuplicatePolicy.NONE:
        return group
    is_failing = policy is DuplicatePolicy.FAIL
    check_batch_duplicates(context, group)
    if current_slice is None:
        return group
    stored = read_slice(
        storage,
        context.config.showing_unmatched,
        context.schema,
        current_slice,
        columns=[RECORD_KEY],
        rule=context.rule,
    )
    keys = stored.column(RECORD_KEY).combine_chunks()
    is_known: Any = pc.is_in(group.rows.column(RECORD_KEY), value_set=keys)
    if is_failing and pc.any(is_known).as_py():
        _reject_keys("keys to insert are in the table already", group.rows.filter(is_known))
    return replace(group, rows=group.rows.filter(pc.invert(is_known)))


def check_batch_duplicates(context: WriteContext, group: RowGroup) -> None:
    """Check for keys that an insert brings twice. Raises InvalidInput if the policy rejects equal
    keys of an insert.
    """
    is_failing = context.options.duplicate_policy is DuplicatePolicy.FAIL
    if context.operation not in _INSERTS or not is_failing or context.options.combines_inserts:
        return
    counts = group.rows.column(RECORD_KEY).value_counts()
    is_doubled: Any = pc.greater(counts.field("counts"), pa.scalar(1))
    doubled = counts.field("values").filter(is_doubled)
    if len(doubled):
        _reject_keys("keys to insert are doubled in the batch", pa.table({RECORD_KEY: doubled}))


def _reject_keys(message: str, rows: pa.Table) -> None:
    named = rows.column(RECORD_KEY).slice(0, _KEYS_NAMED_MAX).to_pylist()
    raise InvalidInput(message, keys=rows.num_rows, first_keys=named)
