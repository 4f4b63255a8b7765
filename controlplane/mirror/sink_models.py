"""What a sink shows of itself, as the last sync saw it: its files beside the table, and its newest
commit.
"""

from __future__ import annotations

from django.db import models

from controlplane.fields import InstantTimeField
from controlplane.tables.models import Table


class SinkRecord(models.Model):
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="sinks")
    sink_id = models.CharField(max_length=100)
    problem = models.CharField(max_length=500, blank=True)
    """Which of its files cannot be read, and why; what they would have said is empty then."""
    topic = models.CharField(max_length=249, blank=True)
    epoch = models.BigIntegerField(default=0)
    """Of the coordinator that told the state."""
    state = models.CharField(max_length=32, blank=True)
    """Of the coordinator; empty before it said anything."""
    instant = InstantTimeField(blank=True)
    deadline_at = models.DateTimeField(null=True)
    owner = models.CharField(max_length=500, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    updated_at = models.DateTimeField(null=True)
    counters = models.JSONField(default=dict)
    transactions = models.JSONField(default=list)
    """The newest last, as the state file has them."""
    trace = models.JSONField(default=list)
    taken_epoch = models.BigIntegerField(default=0)
    """The highest epoch that anybody took, whether or not it told a state yet."""
    taken_by = models.CharField(max_length=500, blank=True)
    taken_at = models.DateTimeField(null=True)
    stop_kind = models.CharField(max_length=16, blank=True)
    """Of the stop request that lies there: graceful or hard."""
    stop_by = models.CharField(max_length=200, blank=True)
    stop_at = models.DateTimeField(null=True)
    commit_instant = InstantTimeField(blank=True)
    """The newest commit that carries this sink's offsets."""
    commit_completed_at = InstantTimeField(blank=True)
    commit_epoch = models.BigIntegerField(default=0)
    commit_topic = models.CharField(max_length=249, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    """Of all that was read; the same again changes nothing."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["table", "sink_id"], name="sink_once")]

    def __str__(self) -> str:
        return f"{self.table} {self.sink_id} {self.state}"


class SinkParticipant(models.Model):
    """One partition: who reads it, and the three offsets, each the next one to come."""

    sink = models.ForeignKey(SinkRecord, on_delete=models.CASCADE, related_name="participants")
    partition = models.BigIntegerField()
    participant = models.CharField(max_length=200, blank=True)
    worker = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=32, blank=True)
    broker_offset = models.BigIntegerField(null=True)
    table_offset = models.BigIntegerField(null=True)
    """As the newest commit says; of a partition that no commit names, as the coordinator says."""
    coordinator_offset = models.BigIntegerField(null=True)
    """What the coordinator took the table's to be."""
    local_offset = models.BigIntegerField(null=True)
    has_reported = models.BooleanField(default=False)
    is_member = models.BooleanField(default=True)
    """Whether the open transaction is this partition's as well."""
    seen_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sink", "partition"], name="sink_participant_once")
        ]

    def __str__(self) -> str:
        return f"{self.partition} {self.state}"
