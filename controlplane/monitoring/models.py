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


class AlertRule(models.Model):
    """A health check's rule, where somebody changed it: see `alert_rules`."""

    check_name = models.CharField(max_length=64, unique=True)
    fires = models.CharField(max_length=8)
    hold_minutes = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.check_name} {self.fires} after {self.hold_minutes} min"


class Alert(models.Model):
    """One health check of one table from when it was first unwell until it is well again."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="alerts")
    check_name = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    verdict = models.CharField(max_length=8)
    """`warn` or `bad`: how bad it is now, or was last."""
    sentence = models.TextField()
    advice = models.TextField(blank=True)
    unwell_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    """None while its rule still waits."""
    resolved_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["table", "check_name"],
                condition=models.Q(resolved_at__isnull=True),
                name="one_open_alert_per_check",
            )
        ]

    def __str__(self) -> str:
        return f"{self.table} {self.check_name} {self.verdict}"


class Silence(models.Model):
    """Somebody knows of a check that is unwell. It fires all the same, and nobody is called."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="silences")
    check_name = models.CharField(max_length=64)
    until = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "check_name"], name="one_silence_per_check")
        ]

    def __str__(self) -> str:
        return f"{self.table} {self.check_name} until {self.until}"
