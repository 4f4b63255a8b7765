"""Sums over the file groups of a table, stored when its file groups change: pages over all tables
read one row for each.
"""

from __future__ import annotations

from typing import Final

from django.db.models import Count, Q, Sum

from controlplane.mirror.count_models import FileTotals
from controlplane.mirror.models import FileGroupRecord
from controlplane.mirror.queries.files import SMALL_FILE_BYTES
from controlplane.tables.models import Table

_IS_SMALL: Final = Q(base_bytes__gt=0, base_bytes__lt=SMALL_FILE_BYTES)
_IS_COUNTED: Final = Q(base_rows__gte=0)
_SUMS: Final = ("bytes", "log_files", "small_files", "base_rows", "uncounted")


def store_file_totals(table: Table, left_out: int = 0) -> None:
    """Sum the stored file groups. `left_out`: file groups that the mirror does not keep."""
    groups = FileGroupRecord.objects.filter(table=table, is_replaced=False)
    sums = groups.aggregate(
        n_bytes=Sum("bytes", default=0),
        n_log_files=Sum("log_files", default=0),
        n_small_files=Count("pk", filter=_IS_SMALL),
        n_base_rows=Sum("base_rows", filter=_IS_COUNTED, default=0),
        n_groups=Count("pk"),
        n_counted=Count("pk", filter=_IS_COUNTED),
    )
    groups_total = sums["n_groups"] + left_out
    totals = FileTotals(
        table=table,
        bytes=sums["n_bytes"],
        log_files=sums["n_log_files"],
        small_files=sums["n_small_files"],
        base_rows=sums["n_base_rows"] if sums["n_counted"] or not groups_total else None,
        uncounted=groups_total - sums["n_counted"],
    )
    FileTotals.objects.bulk_create(
        [totals], update_conflicts=True, unique_fields=["table"], update_fields=_SUMS
    )
