"""Models of the audit log: a row before and a row after each destructive or privileged action. Rows
are chained by hash (`canonical`). Triggers of the database (`triggers`) reject every other change
and all deletions.
"""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH, VERSION

ONLY = 1
"""The primary key of tables with one row."""


class AuditEvent(models.Model):
    """An append-only row: the result of an action is a second row. A row changes only once, when it
    enters the chain after its transaction.
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
    """The version of `canonical`."""
    digest = models.CharField(max_length=64)
    """The digest of the content, computed when the row was recorded."""
    sequence = models.BigIntegerField(null=True, unique=True)
    """The number in the chain, from 1 without gaps; null until the row is in the chain."""
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
    """The newest link of the chain, in one row, which is also the lock for appending."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS_HASH)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"


class AuditCheck(models.Model):
    """The state of the verification, in one row. Without the row, the next verification starts at
    the first row.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    checked_at = models.DateTimeField(null=True)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS_HASH)
    """Every row up to this link is verified; the next round starts after it."""
    whole_sequence = models.BigIntegerField(default=0)
    whole_hash = models.CharField(max_length=64, default=GENESIS_HASH)
    """The last link of the current walk through the whole chain; 0 without one."""
    whole_at = models.DateTimeField(null=True)
    """When the whole chain was last verified without a problem."""
    problem_kind = models.CharField(max_length=16, blank=True)
    problem_sequence = models.BigIntegerField(null=True)
    problem = models.TextField(blank=True)
    """Kept until a walk through the whole chain finds no problem."""

    def __str__(self) -> str:
        return self.problem or f"good up to {self.sequence}"
