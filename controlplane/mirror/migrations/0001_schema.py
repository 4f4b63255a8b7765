"""The mirror of tables: instants, file groups, schemas, locks, markers, sinks, streams."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("mirror", "0001_initial"),
        ("mirror", "0002_table_services"),
        ("mirror", "0003_locks_and_claims"),
        ("mirror", "0004_column_groups"),
        ("mirror", "0005_sinks"),
        ("mirror", "0006_sink_members"),
        ("mirror", "0007_sync_rounds"),
        ("mirror", "0008_held_archiving"),
        ("mirror", "0009_quiet_looks"),
        ("mirror", "0010_undone_instants"),
        ("mirror", "0011_measure_rounds"),
        ("mirror", "0012_read_otherwise"),
    ]

    dependencies = [
        ("tables", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="ServerSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(db_index=True)),
                ("queue_depth", models.PositiveIntegerField(default=0)),
                ("batches", models.BigIntegerField(default=0)),
                ("requests", models.BigIntegerField(default=0)),
                ("p50_ms", models.FloatField(null=True)),
                ("p95_ms", models.FloatField(null=True)),
                ("markers", models.BigIntegerField(default=0)),
                ("batch_sizes", models.JSONField(default=dict)),
                ("pid", models.PositiveIntegerField(null=True)),
                ("up", models.BooleanField()),
            ],
        ),
        migrations.CreateModel(
            name="JoinMeasure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sampled_at", models.DateTimeField()),
                ("sampled_instant", controlplane.fields.InstantTimeField(blank=True)),
                ("took_ms", models.PositiveIntegerField(default=0)),
                ("found", models.JSONField(default=dict)),
                (
                    "table",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="join_measure",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LockRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("provider", models.CharField(max_length=32)),
                ("place", models.CharField(blank=True, max_length=700)),
                ("problem", models.TextField(blank=True)),
                ("is_held", models.BooleanField(default=False)),
                ("owner", models.CharField(blank=True, max_length=500)),
                ("writer", models.CharField(blank=True, max_length=200)),
                ("instant", controlplane.fields.InstantTimeField(blank=True)),
                ("epoch", models.BigIntegerField(null=True)),
                ("since", models.DateTimeField(null=True)),
                ("until", models.DateTimeField(null=True)),
                ("waiters", models.JSONField(default=list)),
                ("holders", models.JSONField(default=list)),
                ("sampled_at", models.DateTimeField()),
                (
                    "table",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lock",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SinkRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sink_id", models.CharField(max_length=100)),
                ("problem", models.CharField(blank=True, max_length=500)),
                ("topic", models.CharField(blank=True, max_length=249)),
                ("epoch", models.BigIntegerField(default=0)),
                ("state", models.CharField(blank=True, max_length=32)),
                ("instant", controlplane.fields.InstantTimeField(blank=True)),
                ("deadline_at", models.DateTimeField(null=True)),
                ("owner", models.CharField(blank=True, max_length=500)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("updated_at", models.DateTimeField(null=True)),
                ("counters", models.JSONField(default=dict)),
                ("transactions", models.JSONField(default=list)),
                ("trace", models.JSONField(default=list)),
                ("taken_epoch", models.BigIntegerField(default=0)),
                ("taken_by", models.CharField(blank=True, max_length=500)),
                ("taken_at", models.DateTimeField(null=True)),
                ("stop_kind", models.CharField(blank=True, max_length=16)),
                ("stop_by", models.CharField(blank=True, max_length=200)),
                ("stop_at", models.DateTimeField(null=True)),
                ("commit_instant", controlplane.fields.InstantTimeField(blank=True)),
                ("commit_completed_at", controlplane.fields.InstantTimeField(blank=True)),
                ("commit_epoch", models.BigIntegerField(default=0)),
                ("commit_topic", models.CharField(blank=True, max_length=249)),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sinks",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SinkParticipant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("partition", models.BigIntegerField()),
                ("participant", models.CharField(blank=True, max_length=200)),
                ("worker", models.CharField(blank=True, max_length=300)),
                ("state", models.CharField(blank=True, max_length=32)),
                ("broker_offset", models.BigIntegerField(null=True)),
                ("table_offset", models.BigIntegerField(null=True)),
                ("told_offset", models.BigIntegerField(null=True)),
                ("local_offset", models.BigIntegerField(null=True)),
                ("has_reported", models.BooleanField(default=False)),
                ("is_member", models.BooleanField(default=True)),
                ("seen_at", models.DateTimeField(null=True)),
                (
                    "sink",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="participants",
                        to="mirror.sinkrecord",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StreamStatus",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stream", models.CharField(max_length=100)),
                ("columns", models.JSONField(default=list)),
                ("rows_with", models.BigIntegerField(default=0)),
                ("rows_without", models.BigIntegerField(default=0)),
                ("last_event_time", models.CharField(max_length=64, null=True)),
                ("last_commit_at", controlplane.fields.OptionalInstantTimeField(null=True)),
                ("lag_s", models.FloatField(null=True)),
                ("sampled_at", models.DateTimeField()),
                ("sampled_instant", controlplane.fields.InstantTimeField(blank=True)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="streams",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SyncMark",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("last_completed_at", controlplane.fields.InstantTimeField(blank=True)),
                ("listing_hash", models.CharField(blank=True, max_length=64)),
                ("claims_hash", models.CharField(blank=True, max_length=64)),
                ("claims_until", models.DateTimeField(null=True)),
                ("history_version", models.CharField(blank=True, max_length=64)),
                ("file_groups_left_out", models.PositiveIntegerField(default=0)),
                ("held_by", models.JSONField(default=dict)),
                ("unproved", models.JSONField(default=list)),
                ("read_otherwise", models.JSONField(default=dict)),
                ("synced_at", models.DateTimeField(null=True)),
                ("running_until", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField(null=True)),
                ("look_at", models.DateTimeField(null=True)),
                ("measured_at", models.DateTimeField(null=True)),
                ("sight", models.CharField(blank=True, max_length=64)),
                (
                    "table",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sync_mark",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UndoneRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("requested_at", controlplane.fields.InstantTimeField()),
                ("action", models.CharField(max_length=16)),
                ("ended_at", controlplane.fields.InstantTimeField()),
                ("undone_by", controlplane.fields.InstantTimeField(blank=True)),
                ("writer_name", models.CharField(blank=True, max_length=200)),
                ("operation_type", models.CharField(blank=True, max_length=32)),
                ("stream", models.CharField(blank=True, max_length=100)),
                ("rows", models.BigIntegerField(null=True)),
                ("files", models.PositiveIntegerField(null=True)),
                ("bytes", models.BigIntegerField(null=True)),
                ("operation_ref", models.CharField(blank=True, max_length=64)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="undone",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FileGroupRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("partition", models.CharField(blank=True, max_length=1024)),
                ("file_id", models.CharField(max_length=140)),
                ("base_instant", controlplane.fields.OptionalInstantTimeField(null=True)),
                ("base_file", models.CharField(blank=True, max_length=300)),
                ("base_bytes", models.BigIntegerField(default=0)),
                ("log_files", models.PositiveIntegerField(default=0)),
                ("log_bytes", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("slices", models.PositiveIntegerField(default=0)),
                ("old_files", models.PositiveIntegerField(default=0)),
                ("old_bytes", models.BigIntegerField(default=0)),
                ("first_instant", controlplane.fields.InstantTimeField()),
                ("last_instant", controlplane.fields.InstantTimeField()),
                ("is_replaced", models.BooleanField(default=False)),
                ("history", models.JSONField(default=list)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="file_groups",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["table", "-bytes"], name="file_group_by_bytes"),
                    models.Index(fields=["table", "-log_files"], name="file_group_by_logs"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "partition", "file_id"), name="file_group_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="HeartbeatRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("instant", controlplane.fields.InstantTimeField()),
                ("beat_at", models.DateTimeField()),
                ("interval_ms", models.PositiveIntegerField()),
                ("tolerable_misses", models.PositiveIntegerField()),
                ("writer_name", models.CharField(blank=True, max_length=200)),
                ("stream", models.CharField(blank=True, max_length=100)),
                ("mode", models.CharField(blank=True, max_length=64)),
                ("operation", models.CharField(blank=True, max_length=32)),
                ("operation_ref", models.CharField(blank=True, max_length=64)),
                ("host", models.CharField(blank=True, max_length=255)),
                ("pid", models.PositiveIntegerField(null=True)),
                ("is_gone", models.BooleanField(default=False)),
                ("last_seen", models.DateTimeField()),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="heartbeats",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["table", "is_gone"], name="heartbeat_present")],
                "constraints": [
                    models.UniqueConstraint(fields=("table", "instant"), name="heartbeat_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="InstantRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("requested_at", controlplane.fields.InstantTimeField()),
                ("action", models.CharField(max_length=16)),
                ("state", models.CharField(max_length=16)),
                ("completed_at", controlplane.fields.OptionalInstantTimeField(null=True)),
                ("operation_type", models.CharField(blank=True, max_length=32)),
                ("writer_name", models.CharField(blank=True, max_length=200)),
                ("stream", models.CharField(blank=True, max_length=100)),
                ("sink", models.CharField(blank=True, max_length=100)),
                ("rows", models.BigIntegerField(null=True)),
                ("files", models.PositiveIntegerField(null=True)),
                ("bytes", models.BigIntegerField(null=True)),
                ("partitions", models.PositiveIntegerField(null=True)),
                ("operation_ref", models.CharField(blank=True, max_length=64)),
                ("metadata", models.JSONField(default=dict)),
                ("is_archived", models.BooleanField(default=False)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="instants",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["table", "completed_at"], name="instant_by_completion"),
                    models.Index(fields=["table", "state"], name="instant_by_state"),
                    models.Index(
                        condition=models.Q(("sink", ""), _negated=True),
                        fields=["table", "sink", "-completed_at"],
                        name="instant_by_sink",
                    ),
                    models.Index(
                        condition=models.Q(("stream", ""), _negated=True),
                        fields=["table", "-completed_at"],
                        name="instant_by_stream",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "requested_at", "action"), name="instant_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("completed_at__isnull", False), ("state", "completed")),
                            models.Q(
                                models.Q(("state", "completed"), _negated=True),
                                ("completed_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="instant_completed_has_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JoinPoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("keys", models.BigIntegerField()),
                ("complete_pct", models.FloatField()),
                ("by_group", models.JSONField(default=dict)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="join_points",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["table", "-at"], name="join_point_by_time")],
            },
        ),
        migrations.CreateModel(
            name="MarkerCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("instant", controlplane.fields.InstantTimeField()),
                ("kind", models.CharField(max_length=16)),
                ("count", models.PositiveIntegerField()),
                ("sample", models.JSONField(default=list)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="marker_counts",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "instant", "kind"), name="marker_count_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="MarkerDirectory",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("instant", controlplane.fields.InstantTimeField()),
                ("layout", models.CharField(max_length=32)),
                ("markers", models.PositiveIntegerField(default=0)),
                ("by_file", models.JSONField(default=list)),
                ("claims", models.JSONField(default=list)),
                ("claim_count", models.PositiveIntegerField(default=0)),
                ("verdict", models.JSONField(null=True)),
                ("changed_at", models.DateTimeField()),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="marker_directories",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "instant"), name="marker_directory_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SchemaRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("instant", controlplane.fields.InstantTimeField()),
                ("completed_at", controlplane.fields.InstantTimeField()),
                ("writer_name", models.CharField(blank=True, max_length=200)),
                ("avro", models.JSONField()),
                ("fingerprint", models.CharField(max_length=64)),
                ("columns", models.PositiveIntegerField()),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="schemas",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("table", "instant"), name="schema_once")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="sinkrecord",
            constraint=models.UniqueConstraint(fields=("table", "sink_id"), name="sink_once"),
        ),
        migrations.AddConstraint(
            model_name="sinkparticipant",
            constraint=models.UniqueConstraint(
                fields=("sink", "partition"), name="sink_participant_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="streamstatus",
            constraint=models.UniqueConstraint(fields=("table", "stream"), name="stream_once"),
        ),
        migrations.AddIndex(
            model_name="undonerecord",
            index=models.Index(fields=["table", "ended_at"], name="undone_by_end"),
        ),
        migrations.AddConstraint(
            model_name="undonerecord",
            constraint=models.UniqueConstraint(
                fields=("table", "requested_at"), name="undone_once"
            ),
        ),
    ]
