"""The file groups that a write is sure to change, known before its first marker.

The driver of a job uses them to find rivals before its tasks begin. File groups that may turn out
unchanged are left out: their markers are enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from workers.concurrency.conflicts import WriteSet
from workers.options.write_keys import DuplicatePolicy
from workers.write.context import WriteContext


def build_claims(context: WriteContext, groups: Iterable[tuple[str, int]]) -> WriteSet:
    """Build the claims of the write. `groups`: (partition, slot) of all its rows."""
    if not _changes_all(context):
        return WriteSet(context.instant, frozenset())
    keys = {(partition, slot): context.file_id(partition, slot) for partition, slot in groups}
    appended = {
        (partition, file_id)
        for (partition, slot), file_id in keys.items()
        if context.appends_log(partition, slot)
    }
    claimed = frozenset((partition, file_id) for (partition, _), file_id in keys.items())
    return WriteSet(context.instant, claimed, context.writer, appended=frozenset(appended))


def _changes_all(context: WriteContext) -> bool:
    is_insert = context.operation in ("insert", "bulk_insert")
    drops = is_insert and context.options.duplicate_policy is DuplicatePolicy.DROP
    return context.operation != "delete" and not drops
