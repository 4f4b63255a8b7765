"""Generated."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0003_locks_and_claims"),
        ("tables", "0003_column_groups"),
    ]

    operations = [
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
    ]
