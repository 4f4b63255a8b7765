"""Counts of a long history and sums over file groups. `history_counts.py`, `file_totals.py` and
`apply_files.py` write them.
"""

from __future__ import annotations

from django.db import models

from controlplane.fields import InstantTimeField
from controlplane.tables.models import Table


class HistoryCount(models.Model):
    """How many archived instants of one kind were requested in one stretch of time."""

    table = models.ForeignKey(
        Table,
        on_delete=models.CASCADE,
        related_name="history_counts",
        # `history_count_once` begins with it.
        db_index=False,
        # As for the instants that it counts.
        db_constraint=False,
    )
    digits = models.PositiveSmallIntegerField()
    """How many digits of an instant name the stretch: 8 a day, 10 an hour."""
    stretch = models.CharField(max_length=10)
    action = models.CharField(max_length=16)
    operation_type = models.CharField(max_length=32, blank=True)
    writer_name = models.CharField(max_length=200, blank=True)
    stream = models.CharField(max_length=100, blank=True)
    instants = models.PositiveIntegerField()
    last_ended = InstantTimeField()
    """The greatest completion time of them."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "table", "digits", "stretch", "action", "operation_type", "writer_name",
                    "stream",
                ],
                name="history_count_once",
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.stretch} {self.action}: {self.instants}"


class FileTotals(models.Model):
    """Sums over the file groups of one table that no replacecommit took away."""

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="file_totals")
    bytes = models.BigIntegerField(default=0)
    """In the newest slices."""
    log_files = models.PositiveIntegerField(default=0)
    """In the newest slices: what a compaction merges."""
    small_files = models.PositiveIntegerField(default=0)
    """File groups whose base file is smaller than `queries.files.SMALL_FILE_BYTES`."""
    base_rows = models.BigIntegerField(null=True)
    """In the base files of the newest slices, without rows in log files; null while no file group
    is counted.
    """
    uncounted = models.PositiveIntegerField(default=0)
    """File groups whose base file is not counted."""

    def __str__(self) -> str:
        return f"{self.base_rows} rows, {self.bytes} bytes"


class LeftOutFiles(models.Model):
    """Sums over file groups of one partition that have no `FileGroupRecord`, because the table has
    more than `SLUICE_MIRROR_FILE_GROUPS_MAX`. The columns mean the same as those of a record.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="left_out_files")
    partition = models.CharField(max_length=1024, blank=True)
    is_replaced = models.BooleanField()
    file_groups = models.PositiveIntegerField()
    file_groups_with_logs = models.PositiveIntegerField()
    small_files = models.PositiveIntegerField()
    """File groups whose base file is smaller than `queries.files.SMALL_FILE_BYTES`."""
    bytes = models.BigIntegerField()
    largest_bytes = models.BigIntegerField()
    log_files = models.BigIntegerField()
    log_bytes = models.BigIntegerField()
    old_files = models.BigIntegerField()
    old_bytes = models.BigIntegerField()
    last_instant = InstantTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["table", "partition", "is_replaced"], name="left_out_files_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.partition}: {self.file_groups}"
