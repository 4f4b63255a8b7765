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
                ("schemas", models.JSONField(null=True)),
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
                "indexes": [models.Index(fields=["table", "decided_at"], name="conflict_by_time")],
                "constraints": [
                    models.UniqueConstraint(fields=("table", "loser_instant"), name="conflict_once")
                ],
            },
        ),
    ]
