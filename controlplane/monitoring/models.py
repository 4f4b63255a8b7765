"""What the newest look at each table's health said, so that a scrape needs one query for all; the
alerts that follow it, and who is sent word of them.
"""

from __future__ import annotations

import uuid

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
    """The rule of a health check, or of a kind of events, where somebody changed it: see
    `alert_rules`.
    """

    check_name = models.CharField(max_length=64, unique=True)
    fires = models.CharField(max_length=8)
    hold_minutes = models.PositiveIntegerField()
    severity = models.CharField(max_length=8, blank=True, default="", db_default="")
    """Empty where the verdict says it."""
    window_minutes = models.PositiveIntegerField(default=60, db_default=60)
    """Of events alone: how long one of them keeps its alert open."""

    def __str__(self) -> str:
        return f"{self.check_name} {self.fires} after {self.hold_minutes} min"


class Alert(models.Model):
    """One health check of one table from when it was first unwell until it is well again."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="alerts")
    check_name = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    verdict = models.CharField(max_length=8)
    """`warn` or `bad`: how bad it is now, or was last."""
    severity = models.CharField(max_length=8, default="", db_default="")
    announced_as = models.CharField(max_length=8, default="", db_default="")
    """The severity with which channels were last sent word of it; empty for none."""
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

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="silences", null=True)
    """None for one of a whole namespace, or of everything."""
    namespace = models.CharField(max_length=64, blank=True, default="", db_default="")
    """Where there is no table; empty is everywhere."""
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
    """As answers have it: without what opens it."""
    sealed_secret = models.TextField(blank=True, default="")
    severity_min = models.CharField(max_length=8)
    checks = models.JSONField(default=list)
    """Of these alone; of all where it is empty. So is the next."""
    namespaces = models.JSONField(default=list)
    group_s = models.PositiveIntegerField()
    """So long a first alert waits for others of its rule, to go out in one message."""
    sends_resolved = models.BooleanField(default=True)
    is_paused = models.BooleanField(default=False)
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class Message(models.Model):
    """What goes to one channel, in as many attempts as it takes."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True)
    """The same at each attempt: a receiver knows by it what it has already."""
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="messages")
    about = models.CharField(max_length=16)
    check_name = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    """When it is sent next; while an attempt runs, when that is given up."""
    attempts = models.PositiveIntegerField(default=0)
    alerts = models.ManyToManyField(Alert, related_name="messages")

    class Meta:
        indexes = [models.Index(fields=["state", "due_at"], name="message_due")]

    def __str__(self) -> str:
        return f"{self.public_id} {self.about} {self.state}"


class Delivery(models.Model):
    """One attempt to send a message. Its row is there before anything is sent."""

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
    """What an admin set in place of a default of `controlplane.mirror.thresholds`: on one table, in
    one namespace, or everywhere where both are empty.
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
