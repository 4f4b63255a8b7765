"""How far the mirror of one table has come. See `models.py` for what it holds."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from django.db import models

from controlplane.fields import InstantTimeField
from controlplane.tables.models import Table

_Row = TypeVar("_Row", bound=models.Model)


class SyncMark(models.Model):
    """How far the sync of one table has come, and who is at it."""

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="sync_mark")
    last_completed_at = InstantTimeField(blank=True)
    listing_hash = models.CharField(max_length=64, blank=True)
    claims_hash = models.CharField(max_length=64, blank=True)
    """Of all else that a look reads: while both are the same, there is nothing to apply. Empty
    where something must be applied at each look, as long as somebody holds the lock.
    """
    claims_until = models.DateTimeField(null=True)
    """When something of it is to be forgotten by time alone; None when nothing is."""
    history_version = models.CharField(max_length=64, blank=True)
    """The archived timeline that was read last."""
    file_groups_left_out = models.PositiveIntegerField(default=0)
    """Of a table with more file groups than the mirror keeps."""
    held_by = models.JSONField(default=dict)
    """The `instant` that archiving must not pass, and its `writer`, who may live; else empty."""
    unproved = models.JSONField(default=list)
    """Instants whose files count although neither the timeline nor the history tells of them."""
    unmarked = models.JSONField(default=list, db_default=[])
    """Partitions without partition metadata, which other engines do not read."""
    lost_history = models.JSONField(default=dict, db_default={})
    """The lost files of the archived timeline, as `health_history.describe_lost` returns them."""
    read_otherwise = models.JSONField(default=dict)
    """As `apply_read_otherwise.read_otherwise_now` says it."""
    synced_at = models.DateTimeField(null=True)
    running_until = models.DateTimeField(null=True)
    """While in the future, another process is syncing; a process that died lets it pass."""
    running_by = models.JSONField(default=dict, db_default={})
    """That process, as `workers.processes` names it."""
    tried_at = models.DateTimeField(null=True)
    """When a round last began to read it."""
    changed_at = models.DateTimeField(null=True)
    """When a round last found something new."""
    look_at = models.DateTimeField(null=True)
    """Rounds leave it alone until then."""
    measured_at = models.DateTimeField(null=True)
    """When a round last began to measure its streams."""
    sight = models.CharField(max_length=64, blank=True)
    """What the cheap look saw right before it was read; empty where there is none."""

    made_by = models.CharField(max_length=16, blank=True, default="", db_default="")
    """The projection (`observing.PROJECTION`) by which its rows were made."""
    names_only = models.PositiveIntegerField(default=0, db_default=0)
    """Instants of the history whose content is still to be read."""
    is_history_counted = models.BooleanField(default=False, db_default=False)
    """`HistoryCount` has all of its history; a short one is not counted beforehand."""
    sums = models.JSONField(default=dict, db_default={})
    """Of its rows by kind, when they were written: see `row_sums.py`. Empty while unknown."""
    compare_at = models.DateTimeField(null=True)
    """When the rows are next compared with that."""
    repaired_at = models.DateTimeField(null=True)
    """When rows that were not as they had been written were last read anew."""
    problem = models.CharField(max_length=16, blank=True, default="", db_default="")
    """Why it cannot be read, in one word (`problems.Problem`); empty while it can."""
    failing_since = models.DateTimeField(null=True)
    """Since when; None while it can be read."""

    forgotten: Collection[str] = ()
    """Kinds of rows that a pass reads as if they were gone, because it deletes them before it
    writes. Not stored.
    """

    def stored(self, rows: models.QuerySet[_Row], kind: str = "") -> models.QuerySet[_Row]:
        """Return `rows`, which are rows of this kind of the table's mirror; none, without a query,
        while nothing was mirrored yet, or if the kind is forgotten.
        """
        return rows.none() if self.synced_at is None or kind in self.forgotten else rows

    def __str__(self) -> str:
        return f"{self.table} up to {self.last_completed_at}"
