"""How much of a table's streams somebody may see. Keys, and the first and last values of ordering
columns, are values of rows. How far a stream is behind is seen by whoever sees the table, unless
an ordering column of the stream is masked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controlplane.mirror.group_rows import GroupCommitRow, ordering_of
from controlplane.tables.masks import MASK, masks_part
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, do_record_rows_glanced_at

if TYPE_CHECKING:
    from controlplane.mirror.queries.streams import CoverageMap, GroupRow, WaitingKey
    from controlplane.mirror.queries.table_details import StreamRow


def seen_group(table: Table, access: RowAccess, row: GroupRow) -> GroupRow:
    """A stream on its board."""
    if row.late_key and access.hides_keys:
        row = replace(row, late_key=MASK)
    if not access.hides(*ordering_of(table, row.name)):
        return row
    row = replace(row, last_event=row.last_event and MASK, event_at=None)
    if is_lag_masked(table, access, row.name):
        row = replace(row, lag_s=None, ahead_s=0.0, behind_s=None)
    return row


def seen_stream(table: Table, access: RowAccess, row: StreamRow) -> StreamRow:
    """A stream as the live view has it."""
    if not access.hides(*ordering_of(table, row.stream)):
        return row
    row = replace(row, last_event_time=row.last_event_time and MASK, event_at=None)
    if is_lag_masked(table, access, row.stream):
        row = replace(row, lag_s=None, ahead_s=0.0)
    return row


def seen_commit(table: Table, access: RowAccess, row: GroupCommitRow) -> GroupCommitRow:
    """What a commit brought, without its first and last event where these are hidden."""
    if not access.hides(*ordering_of(table, row.group)):
        return row
    return replace(
        row,
        least=row.least and MASK,
        greatest=row.greatest and MASK,
        least_ms=None,
        greatest_ms=None,
    )


def seen_keys(
    table: Table, access: RowAccess, keys: list[WaitingKey], *, late_keys: int
) -> list[WaitingKey]:
    """None of them where keys are hidden; each without its event where one may not be seen. The
    audit says that they were looked at, and so many late ones beside them.
    """
    if access.hides_keys:
        return []
    do_record_rows_glanced_at(access, door="streams", rows=len(keys) + late_keys)
    is_timed = not access.hides(*_every_ordering(table))
    return keys if is_timed else [replace(key, event_at=None) for key in keys]


def seen_coverage(
    table: Table, access: RowAccess, coverage: CoverageMap | None
) -> CoverageMap | None:
    """Without masked columns. Where rows stand at the times of their events it begins at the first
    of these, and there is none for whoever may not see that.
    """
    if coverage is None or (coverage.by == "event" and access.hides(*_every_ordering(table))):
        return None
    columns = [row for row in coverage.columns if not masks_part(row.column, access.masked)]
    left_out = coverage.columns_left_out + len(coverage.columns) - len(columns)
    return replace(coverage, columns=columns, columns_left_out=left_out)


def is_lag_masked(table: Table, access: RowAccess, name: str) -> bool:
    """Return whether the lag of this stream or group would reveal a masked value."""
    return any(masks_part(column, access.masked) for column in ordering_of(table, name))


def _every_ordering(table: Table) -> list[str]:
    names = [group["name"] for group in table.groups] or [""]
    return [column for name in names for column in ordering_of(table, name)]
