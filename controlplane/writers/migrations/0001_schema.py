"""What writers report, and their conflicts."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("writers", "0001_initial"),
        ("writers", "0002_conflict_costs"),
        ("writers", "0003_conflict_details"),
    ]

    dependencies = [
        ("tables", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="Report",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("operation_ref", models.CharField(db_index=True, max_length=64)),
                ("received_at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("state", models.CharField(max_length=16)),
                ("message", models.TextField(blank=True)),
                ("body", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Conflict",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("loser_instant", controlplane.fields.InstantTimeField()),
                ("loser_writer", models.CharField(blank=True, max_length=200)),
                ("winner_instant", controlplane.fields.InstantTimeField(blank=True)),
                ("winner_writer", models.CharField(blank=True, max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[("write", "Write"), ("schema", "Schema")], max_length=16
                    ),
                ),
                ("message", models.TextField(blank=True)),
                ("file_groups", models.JSONField(default=list)),
                ("overlap", models.PositiveIntegerField(default=0)),
                ("schemas", models.JSONField(null=True)),
                (
                    "detected",
                    models.CharField(
                        choices=[("early", "Early"), ("commit", "Commit")],
                        default="commit",
                        max_length=16,
                    ),
                ),
                ("strategy", models.CharField(blank=True, max_length=200)),
                ("wasted_files", models.BigIntegerField(default=0)),
                ("wasted_bytes", models.BigIntegerField(default=0)),
                ("lasted_ms", models.BigIntegerField(null=True)),
                ("details", models.JSONField(default=dict)),
                ("decided_at", models.DateTimeField()),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="conflicts",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["table", "decided_at"], name="conflict_by_time"),
                    models.Index(fields=["table", "winner_instant"], name="conflict_by_winner"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("table", "loser_instant"), name="conflict_once")
                ],
            },
        ),
    ]
