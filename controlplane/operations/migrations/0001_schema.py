"""Operations, marker servers and settings of table services."""

from __future__ import annotations

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import controlplane.fields
import controlplane.operations.states


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("operations", "0001_initial"),
        ("operations", "0002_table_services"),
        ("operations", "0003_sinks"),
        ("operations", "0004_replays"),
        ("operations", "0005_fenced"),
        ("operations", "0006_request_digest"),
        ("operations", "0007_kinds_of_their_own"),
    ]

    dependencies = [
        ("tables", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="MarkerServer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("port", models.PositiveIntegerField(unique=True)),
                ("pid", models.PositiveIntegerField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("draining", "Draining"),
                            ("down", "Down"),
                        ],
                        default="down",
                        max_length=16,
                    ),
                ),
                ("started_at", models.DateTimeField(null=True)),
                ("restarts", models.PositiveIntegerField(default=0)),
                ("is_wanted", models.BooleanField(default=True)),
                ("running_until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Operation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(max_length=16)),
                ("service", models.CharField(blank=True, max_length=32)),
                ("sink_id", models.CharField(blank=True, max_length=100)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("starting", "starting"),
                            ("running", "running"),
                            ("stopping", "stopping"),
                            ("cancelling", "cancelling"),
                            ("unknown", "unknown"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("conflicted", "conflicted"),
                            ("rolled_back", "rolled_back"),
                            ("cancelled", "cancelled"),
                            ("lost", "lost"),
                            ("fenced", "fenced"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("parameters", models.JSONField(default=dict)),
                ("plan", models.JSONField(default=dict)),
                ("plan_hash", models.CharField(blank=True, max_length=64)),
                ("instant", controlplane.fields.InstantTimeField(blank=True)),
                ("session_id", models.CharField(blank=True, max_length=64)),
                ("user_id_spark", models.CharField(blank=True, max_length=64)),
                ("pid", models.PositiveIntegerField(null=True)),
                ("progress_done", models.BigIntegerField(default=0)),
                ("progress_total", models.BigIntegerField(default=0)),
                ("progress_unit", models.CharField(blank=True, max_length=32)),
                ("message", models.TextField(blank=True)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("idempotency_key", models.CharField(max_length=100, null=True)),
                ("request_digest", models.CharField(blank=True, max_length=64)),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="operations",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="operations",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["table", "-requested_at"], name="operation_by_table"),
                    models.Index(fields=["state"], name="operation_by_state"),
                    models.Index(
                        condition=models.Q(("kind", "sink")),
                        fields=["table", "sink_id", "-requested_at"],
                        name="operation_by_sink",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("requested_by", "idempotency_key"),
                        name="operation_once_per_key",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind", "rollback"),
                            (
                                "state__in",
                                [
                                    controlplane.operations.states.OperationState["CANCELLING"],
                                    controlplane.operations.states.OperationState["QUEUED"],
                                    controlplane.operations.states.OperationState["RUNNING"],
                                    controlplane.operations.states.OperationState["STARTING"],
                                    controlplane.operations.states.OperationState["STOPPING"],
                                    controlplane.operations.states.OperationState["UNKNOWN"],
                                ],
                            ),
                        ),
                        fields=("table", "instant"),
                        name="one_open_rollback_per_instant",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind", "service"),
                            (
                                "state__in",
                                [
                                    controlplane.operations.states.OperationState["CANCELLING"],
                                    controlplane.operations.states.OperationState["QUEUED"],
                                    controlplane.operations.states.OperationState["RUNNING"],
                                    controlplane.operations.states.OperationState["STARTING"],
                                    controlplane.operations.states.OperationState["STOPPING"],
                                    controlplane.operations.states.OperationState["UNKNOWN"],
                                ],
                            ),
                        ),
                        fields=("table", "service"),
                        name="one_open_service_per_table",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind", "replay"),
                            (
                                "state__in",
                                [
                                    controlplane.operations.states.OperationState["CANCELLING"],
                                    controlplane.operations.states.OperationState["QUEUED"],
                                    controlplane.operations.states.OperationState["RUNNING"],
                                    controlplane.operations.states.OperationState["STARTING"],
                                    controlplane.operations.states.OperationState["STOPPING"],
                                    controlplane.operations.states.OperationState["UNKNOWN"],
                                ],
                            ),
                        ),
                        fields=("table", "sink_id"),
                        name="one_open_replay_per_sink",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind", "sink"),
                            (
                                "state__in",
                                [
                                    controlplane.operations.states.OperationState["CANCELLING"],
                                    controlplane.operations.states.OperationState["QUEUED"],
                                    controlplane.operations.states.OperationState["RUNNING"],
                                    controlplane.operations.states.OperationState["STARTING"],
                                    controlplane.operations.states.OperationState["STOPPING"],
                                    controlplane.operations.states.OperationState["UNKNOWN"],
                                ],
                            ),
                        ),
                        fields=("table", "sink_id"),
                        name="one_open_operation_per_sink",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServiceSetting",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("service", models.CharField(max_length=32)),
                ("is_enabled", models.BooleanField(default=False)),
                ("every_s", models.PositiveIntegerField(default=3600)),
                ("trigger_commits", models.PositiveIntegerField(default=0)),
                ("parameters", models.JSONField(default=dict)),
                ("last_run_at", models.DateTimeField(null=True)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="service_settings",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "service"), name="service_setting_once"
                    )
                ],
            },
        ),
    ]
