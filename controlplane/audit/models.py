"""AuditEvent: one row per destructive or privileged action, written before it starts and closed
after it ends.
"""

from __future__ import annotations

from django.db import models


class AuditEvent(models.Model):
    """Append-only: a second row closes a first one, no row is ever changed."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    who = models.CharField(max_length=150)
    what = models.CharField(max_length=64)
    object = models.CharField(max_length=255)
    reason = models.TextField(blank=True)
    plan_hash = models.CharField(max_length=64, blank=True)
    result = models.CharField(max_length=32)
    request_id = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.who} {self.what} {self.object}: {self.result}"
