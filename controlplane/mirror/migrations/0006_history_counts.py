"""Counts of a long history, by day and hour. The next look at each table makes them."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

from controlplane.fields import InstantTimeField

_KIND = ("action", "operation_type", "writer_name", "stream")


class Migration(migrations.Migration):
    dependencies = [("mirror", "0005_turns"), ("tables", "0006_owner_and_tags")]

    operations = [
        migrations.AddField("syncmark", "is_history_counted", models.BooleanField(default=False)),
        migrations.CreateModel(
            "HistoryCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digits", models.PositiveSmallIntegerField()),
                ("stretch", models.CharField(max_length=10)),
                ("action", models.CharField(max_length=16)),
                ("operation_type", models.CharField(blank=True, max_length=32)),
                ("writer_name", models.CharField(blank=True, max_length=200)),
                ("stream", models.CharField(blank=True, max_length=100)),
                ("instants", models.PositiveIntegerField()),
                ("last_ended", InstantTimeField()),
                (
                    "table",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="history_counts",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["table", "digits", "stretch", *_KIND], name="history_count_once"
                    )
                ]
            },
        ),
    ]
