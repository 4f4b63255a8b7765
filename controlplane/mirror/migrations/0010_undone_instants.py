"""Generated."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0009_quiet_looks"),
        ("tables", "0007_time_units"),
    ]

    operations = [
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
            options={
                "indexes": [models.Index(fields=["table", "ended_at"], name="undone_by_end")],
                "constraints": [
                    models.UniqueConstraint(fields=("table", "requested_at"), name="undone_once")
                ],
            },
        ),
    ]
