"""Generated."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tables", "0001_initial"),
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
                ("pid", models.PositiveIntegerField(null=True)),
                ("up", models.BooleanField()),
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
                ("synced_at", models.DateTimeField(null=True)),
                ("running_until", models.DateTimeField(null=True)),
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
                ("rows", models.BigIntegerField(null=True)),
                ("files", models.PositiveIntegerField(null=True)),
                ("bytes", models.BigIntegerField(null=True)),
                ("partitions", models.PositiveIntegerField(null=True)),
                ("operation_ref", models.CharField(blank=True, max_length=64)),
                ("metadata", models.JSONField(default=dict)),
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
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("table", "stream"), name="stream_once")
                ],
            },
        ),
    ]
