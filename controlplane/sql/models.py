"""Queries that people keep, and statements that they ran."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import models

NAME_CHARS_MAX = 100
NOTE_CHARS_MAX = 500


class SavedQuery(models.Model):
    """A statement under a name. What it may read is asked anew whenever it runs."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_queries")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    statement = models.TextField()
    note = models.CharField(max_length=NOTE_CHARS_MAX, blank=True)
    namespace = models.CharField(max_length=64, blank=True)
    """Whoever sees a table of it sees the query; empty for the owner's alone."""
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="saved_query_named_once")
        ]
        indexes = [
            models.Index(
                fields=["namespace"],
                condition=~models.Q(namespace=""),
                name="saved_query_shared",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.owner_id}"


class StatementRun(models.Model):
    """A statement that a user ran, for that user alone."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="statement_runs")
    statement = models.TextField()
    ran_at = models.DateTimeField(auto_now_add=True)
    result = models.CharField(max_length=32)
    """`done`, or the code of the error."""
    rows = models.BigIntegerField(default=0)
    took_ms = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.result} of {self.user_id}"
