"""Conflicts, mirrored from decision objects, and reports, the hints that workers send."""

from __future__ import annotations

from django.db import models

from controlplane.fields import InstantTimeField
from controlplane.tables.models import Table


class Conflict(models.Model):
    """Why one instant lost, to whom, over what. Storage is the truth: empty this table and sync
    again.
    """

    class Kind(models.TextChoices):
        WRITE = "write"
        SCHEMA = "schema"

    class Detected(models.TextChoices):
        EARLY = "early"
        COMMIT = "commit"

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="conflicts")
    loser_instant = InstantTimeField()
    loser_writer = models.CharField(max_length=200, blank=True)
    winner_instant = InstantTimeField(blank=True)
    winner_writer = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=16, choices=Kind)
    message = models.TextField(blank=True)
    file_groups = models.JSONField(default=list)
    """The overlap."""
    overlap = models.PositiveIntegerField(default=0)
    schemas = models.JSONField(null=True)
    detected = models.CharField(max_length=16, choices=Detected, default=Detected.COMMIT)
    strategy = models.CharField(max_length=200, blank=True)
    wasted_files = models.BigIntegerField(default=0)
    wasted_bytes = models.BigIntegerField(default=0)
    lasted_ms = models.BigIntegerField(null=True)
    """From the begin of the losing write to the verdict; null where the decision does not say."""
    details = models.JSONField(default=dict)
    """Rule, case, and what the loser said of itself."""
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "loser_instant"], name="conflict_once")
        ]
        indexes = [
            models.Index(fields=["table", "decided_at"], name="conflict_by_time"),
            models.Index(fields=["table", "winner_instant"], name="conflict_by_winner"),
        ]

    def __str__(self) -> str:
        return f"{self.loser_instant} lost to {self.winner_instant}"


class Report(models.Model):
    """What a worker said about an operation. A hint: the mirror is the proof."""

    operation_ref = models.CharField(max_length=64, db_index=True)
    received_at = models.DateTimeField(auto_now_add=True, db_index=True)
    state = models.CharField(max_length=16)
    message = models.TextField(blank=True)
    body = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.operation_ref} {self.state}"
