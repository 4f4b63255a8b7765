"""What the newest look at each table's health said, so that a scrape needs one query for all."""

from __future__ import annotations

from django.db import models

from controlplane.tables.models import Table


class TableHealth(models.Model):
    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="health")
    looked_at = models.DateTimeField(db_index=True)
    verdicts = models.JSONField(default=dict)
    """By the name of a check that is not well: `warn` or `bad`."""

    def __str__(self) -> str:
        return f"{self.table} {self.verdicts}"
