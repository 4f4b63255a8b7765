"""Models of table health, which scrapes read with one query, of alerts, and of the channels that
receive them.
"""

from __future__ import annotations

import uuid

from django.db import models

from controlplane.tables.models import Table


class TableHealth(models.Model):
    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="health")
    looked_at = models.DateTimeField(db_index=True)
    verdicts = models.JSONField(default=dict)
    """The verdict, `warn` or `bad`, by the name of a failing check."""

    def __str__(self) -> str:
        return f"{self.table} {self.verdicts}"


class AlertRule(models.Model):
    """The changed rule of a health check or a kind of events: see `alert_rules`."""

    check_name = models.CharField(max_length=64, unique=True)
    fires = models.CharField(max_length=8)
    hold_minutes = models.PositiveIntegerField()
    severity = models.CharField(max_length=8, blank=True, default="", db_default="")
    """Empty to use the verdict."""
    window_minutes = models.PositiveIntegerField(default=60, db_default=60)
    """Only for events: how long the alert stays open after the last event."""

    def __str__(self) -> str:
        return f"{self.check_name} {self.fires} after {self.hold_minutes} min"


class Alert(models.Model):
    """A health check of a table, from its first failure until it is healthy again."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="alerts")
    check_name = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    verdict = models.CharField(max_length=8)
    """The current or last verdict: `warn` or `bad`."""
    severity = models.CharField(max_length=8, default="", db_default="")
    announced_as = models.CharField(max_length=8, default="", db_default="")
    """The severity of the last notification; empty without one."""
    sentence = models.TextField()
    advice = models.TextField(blank=True)
    unwell_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    """None during the delay of its rule."""
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
    """A user silenced a failing check. Its alert still fires, but no channel is notified."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="silences", null=True)
    """None for a silence of a namespace or of all tables."""
    namespace = models.CharField(max_length=64, blank=True, default="", db_default="")
    """The namespace of a silence without a table; empty for all tables."""
    check_name = models.CharField(max_length=64, blank=True)
    """Empty for every check."""
    until = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "check_name"], name="one_silence_per_check"),
            models.UniqueConstraint(
                fields=["namespace", "check_name"],
                condition=models.Q(table__isnull=True),
                name="one_wide_silence_per_check",
            ),
        ]

    def __str__(self) -> str:
        place = self.table or self.namespace or "everywhere"
        return f"{place} {self.check_name or 'every check'} until {self.until}"


class Channel(models.Model):
    """A user or a service that receives alerts. Only `controlplane.encryption` reads `sealed_...`,
    and no answer contains them.
    """

    name = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=16)
    body_format = models.CharField(max_length=16, blank=True, default="")
    sealed_address = models.TextField()
    shown_address = models.CharField(max_length=500)
    """The address without secrets, as answers contain it."""
    sealed_secret = models.TextField(blank=True, default="")
    severity_min = models.CharField(max_length=8)
    checks = models.JSONField(default=list)
    """Only these checks; all if empty. `namespaces` likewise."""
    namespaces = models.JSONField(default=list)
    group_s = models.PositiveIntegerField()
    """How long a first alert waits for others of its rule, to share one message."""
    sends_resolved = models.BooleanField(default=True)
    is_paused = models.BooleanField(default=False)
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class Message(models.Model):
    """A message to a channel, which may take several attempts."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True)
    """The same at each attempt, so that receivers can detect duplicates."""
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="messages")
    about = models.CharField(max_length=16)
    check_name = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    """The next attempt; during an attempt, its time limit."""
    attempts = models.PositiveIntegerField(default=0)
    alerts = models.ManyToManyField(Alert, related_name="messages")

    class Meta:
        indexes = [models.Index(fields=["state", "due_at"], name="message_due")]

    def __str__(self) -> str:
        return f"{self.public_id} {self.about} {self.state}"


class Delivery(models.Model):
    """An attempt to send a message. Its row is stored before the message is sent."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="deliveries")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16)
    answer_code = models.PositiveIntegerField(null=True)
    problem = models.CharField(max_length=300, blank=True, default="")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "number"], name="attempt_once")]

    def __str__(self) -> str:
        return f"{self.message_id} attempt {self.number} {self.state}"


class HealthThreshold(models.Model):
    """A threshold that replaces a default of `controlplane.mirror.thresholds`: on a table, in a
    namespace, or everywhere if both are empty.
    """

    name = models.CharField(max_length=64)
    table = models.ForeignKey(Table, null=True, on_delete=models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=64, blank=True, default="")
    amount = models.FloatField()
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name", "table"],
                condition=models.Q(table__isnull=False),
                name="one_threshold_per_table",
            ),
            models.UniqueConstraint(
                fields=["name", "namespace"],
                condition=models.Q(table__isnull=True),
                name="one_threshold_per_namespace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.amount} ({self.table or self.namespace or 'everywhere'})"
