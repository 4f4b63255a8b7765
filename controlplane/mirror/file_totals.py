"""Sums over the file groups of a table, stored when its file groups change: pages over all tables
read one row for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controlplane.mirror.count_models import FileTotals, LeftOutFiles
from controlplane.mirror.models import FileGroupRecord
from controlplane.mirror.queries.files import SMALL_FILE_BYTES
from controlplane.tables.models import Table

_SUMS: Final = ("bytes", "log_files", "small_files", "base_rows", "uncounted")


def store_file_totals(
    table: Table, file_groups: Iterable[FileGroupRecord], left_out: Iterable[LeftOutFiles] = ()
) -> None:
    """Store the sums over the file groups of a table. `left_out`: sums over those without a row,
    whose rows are not counted. One query.
    """
    groups = [group for group in file_groups if not group.is_replaced]
    counts = [rows for group in groups if (rows := group.base_rows) is not None and rows >= 0]
    others = [sums for sums in left_out if not sums.is_replaced]
    groups_total = len(groups) + sum(sums.file_groups for sums in others)
    totals = FileTotals(
        table=table,
        bytes=sum(group.bytes for group in groups) + sum(sums.bytes for sums in others),
        log_files=sum(group.log_files for group in groups) + sum(sums.log_files for sums in others),
        small_files=sum(0 < group.base_bytes < SMALL_FILE_BYTES for group in groups)
        + sum(sums.small_files for sums in others),
        base_rows=sum(counts) if counts or not groups_total else None,
        uncounted=groups_total - len(counts),
    )
    FileTotals.objects.bulk_create(
        [totals], update_conflicts=True, unique_fields=["table"], update_fields=_SUMS
    )
