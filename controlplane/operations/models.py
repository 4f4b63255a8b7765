"""Operation: one thing somebody asked for, in the database before it is in any queue. LogLine: what
its processes said meanwhile. Approval: what a second person said of it, where an ApprovalRule wants
one.

ServiceSetting: what runs by itself. Schedule: what is asked for again and again in somebody's name,
and ScheduleRun: each of its turns. MarkerServer: the one we run.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from controlplane.fields import InstantTimeField
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.models import Table


class Operation(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16)
    """One of `kinds`, which fill in what else is to be known of it."""
    service = models.CharField(max_length=32, blank=True)
    """The table service that a `service` runs."""
    sink_id = models.CharField(max_length=100, blank=True)
    """Of a `sink` or a `replay`."""
    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in OperationState],
        default=OperationState.QUEUED.value,
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="operations"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(auto_now=True)
    reason = models.CharField(max_length=500, blank=True)
    parameters = models.JSONField(default=dict)
    plan = models.JSONField(default=dict)
    plan_hash = models.CharField(max_length=64, blank=True)
    instant = InstantTimeField(blank=True)
    session_id = models.CharField(max_length=64, blank=True)
    user_id_spark = models.CharField(max_length=64, blank=True)
    pid = models.PositiveIntegerField(null=True)
    progress_done = models.BigIntegerField(default=0)
    progress_total = models.BigIntegerField(default=0)
    progress_unit = models.CharField(max_length=32, blank=True)
    message = models.TextField(blank=True)
    again_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="repeats"
    )
    """The operation that this one was asked for after, with the same or changed parameters."""
    settled = models.JSONField(default=dict, db_default={})
    """Parameters of its source that its driver has settled, such as offsets; whoever comes in its
    place is given them.
    """
    stages = models.JSONField(default=dict, db_default={})
    """What its driver said last of its Spark stages, and when (`spark_stages`)."""
    attempts = models.PositiveSmallIntegerField(default=0)
    attempt_log = models.JSONField(default=list, db_default=[])
    """Each time its job was sent: when, who took it, how it ended (`attempts`)."""
    idempotency_key = models.CharField(max_length=100, null=True)
    request_digest = models.CharField(max_length=64, blank=True)
    """Of all that was asked for, so that a key cannot come with another request."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["requested_by", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="operation_once_per_key",
            ),
            models.UniqueConstraint(
                fields=["table", "instant"],
                condition=models.Q(kind="rollback", state__in=sorted(OPEN)),
                name="one_open_rollback_per_instant",
            ),
            models.UniqueConstraint(
                fields=["table", "service"],
                condition=models.Q(kind="service", state__in=sorted(OPEN)),
                name="one_open_service_per_table",
            ),
            models.UniqueConstraint(
                fields=["table", "sink_id"],
                condition=models.Q(kind="replay", state__in=sorted(OPEN)),
                name="one_open_replay_per_sink",
            ),
            models.UniqueConstraint(
                fields=["table", "sink_id"],
                condition=models.Q(kind="sink", state__in=sorted(OPEN)),
                name="one_open_operation_per_sink",
            ),
        ]
        indexes = [
            models.Index(fields=["table", "-requested_at"], name="operation_by_table"),
            models.Index(fields=["state"], name="operation_by_state"),
            models.Index(fields=["-requested_at", "-id"], name="operation_by_time"),
            models.Index(
                fields=["table", "sink_id", "-requested_at"],
                condition=models.Q(kind="sink"),
                name="operation_by_sink",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} {self.state}"

    @property
    def is_bound_to_plan(self) -> bool:
        """Whether it may do only what the plan says that its requester was shown."""
        return bool(self.plan_hash)


class Approval(models.Model):
    """What a second person says of an operation that needs one. Withdrawn is an operation that was
    cancelled while this was pending.
    """

    class Decision(models.TextChoices):
        PENDING = "pending"
        APPROVED = "approved"
        DECLINED = "declined"
        EXPIRED = "expired"
        VOID = "void"

    operation = models.OneToOneField(
        Operation, primary_key=True, on_delete=models.CASCADE, related_name="approval"
    )
    action = models.CharField(max_length=32)
    """As rules name it: a service, or the kind of an operation."""
    expires_at = models.DateTimeField()
    decision = models.CharField(max_length=16, choices=Decision, default=Decision.PENDING)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_in_shell = models.BooleanField(default=False)
    """By whoever had the shell, who has no user of the node."""
    decided_by_name = models.CharField(max_length=200, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True, default="")
    """Of whoever decided."""

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="approval_by_expiry")]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.action} {self.decision}"


class ApprovalRule(models.Model):
    """That an action needs a second approver: on one table, in one namespace, or everywhere where
    both are empty. A narrower place takes no wider rule away.
    """

    action = models.CharField(max_length=32)
    table = models.ForeignKey(Table, null=True, on_delete=models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=64, blank=True, default="")
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["action", "table"],
                condition=models.Q(table__isnull=False),
                name="one_approval_rule_per_table",
            ),
            models.UniqueConstraint(
                fields=["action", "namespace"],
                condition=models.Q(table__isnull=True),
                name="one_approval_rule_per_namespace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} ({self.table or self.namespace or 'everywhere'})"


class LogLine(models.Model):
    """One line of an operation's log, masked and on one line. Ids grow in the order of arrival."""

    operation = models.ForeignKey(
        Operation, on_delete=models.CASCADE, related_name="log_lines", db_index=False
    )
    host = models.CharField(max_length=255)
    stream = models.CharField(max_length=64)
    """Which of the operation's files on that host it stands in."""
    number = models.BigIntegerField()
    """Where it begins there, in bytes: a line that is sent twice is stored once."""
    at = models.DateTimeField()
    level = models.PositiveSmallIntegerField()
    """As `logging` numbers them."""
    source = models.CharField(max_length=200)
    """The logger, or `output` for what a process wrote beside its logs."""
    message = models.TextField()
    attempt = models.PositiveSmallIntegerField(default=0)
    dropped = models.PositiveIntegerField(default=0)
    """How many lines it stands in the place of."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "host", "stream", "number"], name="log_line_once"
            )
        ]
        indexes = [
            models.Index(fields=["operation", "id"], name="log_line_by_operation"),
            models.Index(fields=["at"], name="log_line_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.host}/{self.stream}:{self.number}"


class ServiceSetting(models.Model):
    """When one service of one table runs by itself."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="service_settings")
    service = models.CharField(max_length=32)
    is_enabled = models.BooleanField(default=False)
    every_s = models.PositiveIntegerField(default=3600)
    """At most this often."""
    trigger_commits = models.PositiveIntegerField(default=0)
    """Only after so many commits since the service last completed; 0 waits for none."""
    parameters = models.JSONField(default=dict)
    last_run_at = models.DateTimeField(null=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "service"], name="service_setting_once")
        ]

    def __str__(self) -> str:
        return f"{self.table} {self.service}"


class Schedule(models.Model):
    """An operation of one table that is asked for again and again, in the name of its owner."""

    class Trigger(models.TextChoices):
        EVERY = "every"
        CRON = "cron"
        AFTER = "after"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="schedules")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=16)
    """One of `kinds` that can be scheduled."""
    service = models.CharField(max_length=32, blank=True)
    parameters = models.JSONField(default=dict)
    """As they are asked for each time."""
    trigger = models.CharField(max_length=8, choices=Trigger)
    every_s = models.PositiveIntegerField(default=0)
    cron = models.CharField(max_length=100, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    after_schedule = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="successors"
    )
    """Each success of one of its runs makes this one due."""
    after_operation = models.ForeignKey(
        Operation, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    """Its success makes this one due, once."""
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    """Whose rights each run has: whoever made it or changed it last."""
    is_paused = models.BooleanField(default=False)
    begins_at = models.DateTimeField()
    """Due times of `every` are counted from here; runs of a predecessor that were due before it do
    not count.
    """
    next_due_at = models.DateTimeField(null=True)
    """None while it is paused, and for what has a predecessor."""
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table", "name"], name="schedule_once_per_name")
        ]
        indexes = [
            models.Index(
                fields=["next_due_at"],
                condition=models.Q(next_due_at__isnull=False),
                name="schedule_by_due_time",
            )
        ]

    def __str__(self) -> str:
        return f"{self.table} {self.name}"


class ScheduleRun(models.Model):
    """One turn of a schedule, a due time or an end of its predecessor, and what came of it."""

    class Outcome(models.TextChoices):
        REQUESTED = "requested"
        SKIPPED = "skipped"
        EMPTY = "nothing_to_do"
        NOT_RUN = "not_run"
        REFUSED = "refused"

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs")
    turn = models.CharField(max_length=64)
    """Which turn it is: the due time, or what has ended. There is one run of each."""
    due_at = models.DateTimeField()
    at = models.DateTimeField(auto_now_add=True)
    outcome = models.CharField(max_length=16, choices=Outcome)
    operation = models.ForeignKey(
        Operation, null=True, on_delete=models.SET_NULL, related_name="schedule_runs"
    )
    after = models.ForeignKey(Operation, null=True, on_delete=models.SET_NULL, related_name="+")
    """Of a schedule with a predecessor: the operation that ended."""
    missed = models.PositiveIntegerField(default=0)
    """How many due times before this one had passed while nobody looked."""
    words = models.CharField(max_length=500, blank=True)
    """Why nothing was asked for. Names no other table: not everybody sees it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "turn"], name="schedule_run_once_per_turn")
        ]
        indexes = [
            models.Index(fields=["schedule", "-id"], name="schedule_run_by_schedule"),
            models.Index(fields=["at"], name="schedule_run_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.turn} {self.outcome}"


class MarkerServer(models.Model):
    """The marker server of this node, as its supervision last saw it. There is one row."""

    class State(models.TextChoices):
        RUNNING = "running"
        DRAINING = "draining"
        DOWN = "down"

    port = models.PositiveIntegerField(unique=True)
    pid = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=16, choices=State, default=State.DOWN)
    started_at = models.DateTimeField(null=True)
    restarts = models.PositiveIntegerField(default=0)
    is_wanted = models.BooleanField(default=True)
    """False once somebody shut it down: supervision then leaves it down."""
    running_until = models.DateTimeField(null=True)
    """While in the future, another process supervises."""

    def __str__(self) -> str:
        return f"marker server on {self.port}: {self.state}"
