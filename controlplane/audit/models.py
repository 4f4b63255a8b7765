"""AuditEvent: one row per destructive or privileged action, written before it starts and closed
after it ends. Rows are chained by hash (`canonical`); triggers of the database (`guards`) refuse
every other change and all removal.
"""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH, VERSION

ONLY = 1
"""The primary key of tables with one row."""


class AuditEvent(models.Model):
    """Append-only: a second row closes a first one, no row is ever changed, but that it enters the
    chain once, right after its transaction.
    """

    at = models.DateTimeField(default=timezone.now, db_index=True)
    who = models.CharField(max_length=150)
    what = models.CharField(max_length=64)
    object = models.CharField(max_length=255)
    reason = models.TextField(blank=True)
    plan_hash = models.CharField(max_length=64, blank=True)
    result = models.CharField(max_length=32)
    request_id = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict)

    version = models.PositiveSmallIntegerField(default=VERSION)
    """Of `canonical`."""
    digest = models.CharField(max_length=64)
    """Of its content, made where it was recorded."""
    sequence = models.BigIntegerField(null=True, unique=True)
    """From 1 without a gap; null until it is in the chain."""
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["who", "at", "id"], name="audit_by_who"),
            models.Index(fields=["what", "at", "id"], name="audit_by_what"),
            models.Index(fields=["object", "at", "id"], name="audit_by_object"),
            models.Index(fields=["result", "at", "id"], name="audit_by_result"),
            models.Index(fields=["request_id"], name="audit_by_request"),
            models.Index(
                fields=["id"], condition=models.Q(sequence__isnull=True), name="audit_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.who} {self.what} {self.object}: {self.result}"


class AuditHead(models.Model):
    """The newest link, outside the table of rows: one row, which is also the lock that appending
    queues at.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS_HASH)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"


class AuditCheck(models.Model):
    """How far the chain was verified, and what was wrong with it: one row. Emptying it makes the
    next verification begin anew.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    checked_at = models.DateTimeField(null=True)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS_HASH)
    """Up to here every row is good; the next round begins behind it."""
    whole_sequence = models.BigIntegerField(default=0)
    whole_hash = models.CharField(max_length=64, default=GENESIS_HASH)
    """How far the walk through the whole chain has come that is at hand; 0 when none is."""
    whole_at = models.DateTimeField(null=True)
    """When the whole chain was last walked through and found good."""
    problem_kind = models.CharField(max_length=16, blank=True)
    problem_sequence = models.BigIntegerField(null=True)
    problem = models.TextField(blank=True)
    """Stays until a whole walk finds none."""

    def __str__(self) -> str:
        return self.problem or f"good up to {self.sequence}"
