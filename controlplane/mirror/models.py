"""What the last sync saw. Storage is the truth: empty these tables and sync again.

StreamStatus and ServerSample are measurements, not projections; they come back with the next
measurement.
"""

from __future__ import annotations

from typing import Final, Literal

from django.db import models

from controlplane.fields import InstantTimeField, OptionalInstantTimeField
from controlplane.mirror.count_models import FileTotals, HistoryCount, LeftOutFiles
from controlplane.mirror.sink_models import SinkParticipant, SinkRecord
from controlplane.mirror.sync_models import SyncMark
from controlplane.tables.models import Table

__all__ = [
    "FileGroupRecord",
    "FileTotals",
    "HeartbeatRecord",
    "HistoryCount",
    "InstantRecord",
    "JoinMeasure",
    "JoinPoint",
    "LeftOutFiles",
    "LockRecord",
    "MarkerCount",
    "MarkerDirectory",
    "SchemaRecord",
    "ServerSample",
    "SinkParticipant",
    "SinkRecord",
    "StreamStatus",
    "SyncMark",
    "UndoneRecord",
]

Liveness = Literal["alive", "suspect", "expired", "gone"]
SUSPECT_PART = 0.5
"""A writer that used up this part of its tolerance deserves a look before recovery acts."""


def liveness_at(age_s: float, tolerance_s: float) -> Liveness:
    """Return the liveness of a writer whose heartbeat is in storage and this old."""
    if age_s > tolerance_s:
        return "expired"
    return "suspect" if age_s > tolerance_s * SUSPECT_PART else "alive"


UNDOING: Final = ("rollback", "restore")
"""Actions that take others back."""


class InstantRecord(models.Model):
    table = models.ForeignKey(
        Table,
        on_delete=models.CASCADE,
        related_name="instants",
        # `instant_once` begins with it, and each index is paid for by every new instant.
        db_index=False,
        # So is the database's own check, a quarter of what a long history costs. Rows are written
        # by the holder of the table's sync mark alone, for which whoever unregisters it waits.
        db_constraint=False,
    )
    requested_at = InstantTimeField()
    action = models.CharField(max_length=16)
    state = models.CharField(max_length=16)
    completed_at = OptionalInstantTimeField(null=True)
    operation_type = models.CharField(max_length=32, blank=True)
    writer_name = models.CharField(max_length=200, blank=True)
    stream = models.CharField(max_length=100, blank=True)
    sink = models.CharField(max_length=100, blank=True)
    """Of a commit that carries the offsets of one: its id."""
    rows = models.BigIntegerField(null=True)
    files = models.PositiveIntegerField(null=True)
    bytes = models.BigIntegerField(null=True)
    partitions = models.PositiveIntegerField(null=True)
    operation_ref = models.CharField(max_length=64, blank=True)
    metadata = models.JSONField(default=dict)
    file_times = models.JSONField(null=True)
    """Epoch ms by state of its files; none in the history."""
    is_archived = models.BooleanField(default=False)
    """Moved from the active timeline into the history."""
    has_content = models.BooleanField(default=True, db_default=True)
    """False while only its name was read: of a long history names come first."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["table", "requested_at", "action"], name="instant_once"
            ),
            models.CheckConstraint(
                condition=models.Q(state="completed", completed_at__isnull=False)
                | (~models.Q(state="completed") & models.Q(completed_at__isnull=True)),
                name="instant_completed_has_time",
            ),
        ]
        indexes = [
            # The timeline window asks for what had not ended before its start. Pages over all
            # tables count commits of a day, and read nothing but this index for it.
            models.Index(
                fields=["table", "completed_at", "action"], name="instant_by_completed_action"
            ),
            models.Index(
                fields=["table", "state"],
                condition=models.Q(completed_at__isnull=True),
                name="instant_pending",
            ),
            models.Index(
                fields=["table", "sink", "-completed_at"],
                condition=~models.Q(sink=""),
                name="instant_by_sink",
            ),
            models.Index(
                fields=["table", "-completed_at"],
                condition=~models.Q(stream=""),
                name="instant_by_stream",
            ),
            # Each look asks for these; of a long history they are a few.
            models.Index(
                fields=["table", "requested_at"],
                condition=models.Q(is_archived=False),
                name="instant_active",
            ),
            models.Index(
                fields=["table", "requested_at"],
                condition=models.Q(action__in=UNDOING),
                name="instant_undoing",
            ),
            models.Index(
                fields=["table", "completed_at"],
                condition=models.Q(metadata__has_key="read_otherwise"),
                name="instant_read_otherwise",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.requested_at}.{self.action}.{self.state}"


class UndoneRecord(models.Model):
    """An instant that was taken back: by a rollback, a restore, or its own writer when it lost.

    That it was, when, by whom, and who had written it come back from storage. Storage keeps nothing
    else of it: its stream, rows and files are what the mirror saw while it stood.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="undone")
    requested_at = InstantTimeField()
    action = models.CharField(max_length=16)
    ended_at = InstantTimeField()
    """When it was decided to go; once its rollback is through, when that was."""
    undone_by = InstantTimeField(blank=True)
    """The rollback or restore; empty while none is completed."""
    writer_name = models.CharField(max_length=200, blank=True)
    operation_type = models.CharField(max_length=32, blank=True)
    stream = models.CharField(max_length=100, blank=True)
    rows = models.BigIntegerField(null=True)
    files = models.PositiveIntegerField(null=True)
    bytes = models.BigIntegerField(null=True)
    operation_ref = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "requested_at"], name="undone_once")
        ]
        indexes = [models.Index(fields=["table", "ended_at"], name="undone_by_end")]

    def __str__(self) -> str:
        return f"{self.requested_at} undone by {self.undone_by}"


class SchemaRecord(models.Model):
    """The schema a completed commit carried, kept where it differs from the commit before."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="schemas")
    instant = InstantTimeField()
    completed_at = InstantTimeField()
    writer_name = models.CharField(max_length=200, blank=True)
    avro = models.JSONField()
    fingerprint = models.CharField(max_length=64)
    columns = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["table", "instant"], name="schema_once")]

    def __str__(self) -> str:
        return f"{self.instant} {self.fingerprint[:8]}"


class FileGroupRecord(models.Model):
    """One file group with its latest slice in columns, and the slices before it in short.

    Only files of completed instants count (bug I1).
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="file_groups")
    partition = models.CharField(max_length=1024, blank=True)
    file_id = models.CharField(max_length=140)
    base_instant = OptionalInstantTimeField(null=True)
    base_file = models.CharField(max_length=300, blank=True)
    """The name alone; blank for a slice of logs."""
    base_bytes = models.BigIntegerField(default=0)
    base_rows = models.BigIntegerField(null=True)
    """Rows in the base file, 0 without one; null while not counted, `row_counts.UNREADABLE` for a
    damaged file.
    """
    log_files = models.PositiveIntegerField(default=0)
    log_bytes = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    """Of the latest slice."""
    slices = models.PositiveIntegerField(default=0)
    old_files = models.PositiveIntegerField(default=0)
    """In slices before the latest: what a clean can take away."""
    old_bytes = models.BigIntegerField(default=0)
    first_instant = InstantTimeField()
    last_instant = InstantTimeField()
    is_replaced = models.BooleanField(default=False)
    """Taken away by a replacecommit; its files wait for a clean."""
    history = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["table", "partition", "file_id"], name="file_group_once"
            )
        ]
        indexes = [
            models.Index(fields=["table", "-bytes"], name="file_group_by_bytes"),
            models.Index(fields=["table", "-log_files"], name="file_group_by_logs"),
        ]

    def __str__(self) -> str:
        return f"{self.partition}/{self.file_id}"


class HeartbeatRecord(models.Model):
    """One writer's heartbeat file. Liveness is computed from `beat_at`, never stored."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="heartbeats")
    instant = InstantTimeField()
    beat_at = models.DateTimeField()
    interval_ms = models.PositiveIntegerField()
    tolerable_misses = models.PositiveIntegerField()
    writer_name = models.CharField(max_length=200, blank=True)
    stream = models.CharField(max_length=100, blank=True)
    mode = models.CharField(max_length=64, blank=True)
    operation = models.CharField(max_length=32, blank=True)
    operation_ref = models.CharField(max_length=64, blank=True)
    host = models.CharField(max_length=255, blank=True)
    pid = models.PositiveIntegerField(null=True)
    is_gone = models.BooleanField(default=False)
    last_seen = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["table", "instant"], name="heartbeat_once")]
        indexes = [models.Index(fields=["table", "is_gone"], name="heartbeat_present")]

    def __str__(self) -> str:
        return f"{self.writer_name} {self.instant}"

    @property
    def tolerance_s(self) -> float:
        return self.interval_ms * self.tolerable_misses / 1000

    def liveness(self, *, age_s: float) -> Liveness:
        """What the age of the last beat says; the same rule by which recovery acts."""
        return "gone" if self.is_gone else liveness_at(age_s, self.tolerance_s)


class MarkerCount(models.Model):
    """Markers of one pending instant, by kind (CREATE, MERGE, APPEND)."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="marker_counts")
    instant = InstantTimeField()
    kind = models.CharField(max_length=16)
    count = models.PositiveIntegerField()
    sample = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "instant", "kind"], name="marker_count_once")
        ]

    def __str__(self) -> str:
        return f"{self.instant} {self.kind}: {self.count}"


class MarkerDirectory(models.Model):
    """The markers of one pending instant as a whole: how they are kept and what they claim."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="marker_directories")
    instant = InstantTimeField()
    layout = models.CharField(max_length=32)
    """direct, timeline_server_based, mixed, or empty"""
    markers = models.PositiveIntegerField(default=0)
    by_file = models.JSONField(default=list)
    """Markers in MARKERS0, MARKERS1, …: pairs of name and count."""
    claims = models.JSONField(default=list)
    """(partition, file id) of the announced files, the first of them."""
    claim_count = models.PositiveIntegerField(default=0)
    verdict = models.JSONField(null=True)
    """Of early detection, where the instant is doomed: rival, its writer, how many file groups."""
    changed_at = models.DateTimeField()
    """When a look at storage last found something new: a sign of life."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "instant"], name="marker_directory_once")
        ]

    def __str__(self) -> str:
        return f"{self.instant}: {self.markers}"


class LockRecord(models.Model):
    """The table lock when storage was last read, and whom the looks before that found."""

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="lock")
    provider = models.CharField(max_length=32)
    place = models.CharField(max_length=700, blank=True)
    problem = models.TextField(blank=True)
    """Why the holder cannot be seen; empty when it can."""
    is_held = models.BooleanField(default=False)
    owner = models.CharField(max_length=500, blank=True)
    writer = models.CharField(max_length=200, blank=True)
    instant = InstantTimeField(blank=True)
    epoch = models.BigIntegerField(null=True)
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    waiters = models.JSONField(default=list)
    holders = models.JSONField(default=list)
    """Newest first: writer, instant, since and last seen, in ms. A hold between two looks is not
    among them.
    """
    sampled_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.table} {self.provider}"


class StreamStatus(models.Model):
    """How complete the joined rows are for one stream, measured by reading the table at times."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="streams")
    stream = models.CharField(max_length=100)
    columns = models.JSONField(default=list)
    rows_with = models.BigIntegerField(default=0)
    rows_without = models.BigIntegerField(default=0)
    last_event_time = models.CharField(max_length=64, null=True)
    last_commit_at = OptionalInstantTimeField(null=True)
    lag_s = models.FloatField(null=True)
    sampled_at = models.DateTimeField()
    sampled_instant = InstantTimeField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["table", "stream"], name="stream_once")]

    def __str__(self) -> str:
        return f"{self.table} {self.stream}"


class JoinMeasure(models.Model):
    """The newest look at a sample of a joined table's file slices."""

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="join_measure")
    sampled_at = models.DateTimeField()
    sampled_instant = InstantTimeField(blank=True)
    took_ms = models.PositiveIntegerField(default=0)
    sample = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.table} {self.sampled_at:%H:%M:%S}"


class JoinPoint(models.Model):
    """How complete a joined table was at one time. A bounded number of them is kept."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="join_points")
    at = models.DateTimeField()
    keys = models.BigIntegerField()
    complete_pct = models.FloatField()
    by_group = models.JSONField(default=dict)
    """Group -> percent of the keys that have it."""

    class Meta:
        indexes = [models.Index(fields=["table", "-at"], name="join_point_by_time")]

    def __str__(self) -> str:
        return f"{self.table} {self.at:%H:%M:%S} {self.complete_pct:.1f}%"


class ServerSample(models.Model):
    """One look at the marker server's own figures."""

    at = models.DateTimeField(db_index=True)
    queue_depth = models.PositiveIntegerField(default=0)
    batches = models.BigIntegerField(default=0)
    requests = models.BigIntegerField(default=0)
    p50_ms = models.FloatField(null=True)
    p95_ms = models.FloatField(null=True)
    markers = models.BigIntegerField(default=0)
    """Made since the server started, as batches and requests are."""
    batch_sizes = models.JSONField(default=dict)
    """How many batches were of which size."""
    pid = models.PositiveIntegerField(null=True)
    up = models.BooleanField()

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {'up' if self.up else 'down'}"
