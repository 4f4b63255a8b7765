"""Statements that users ran."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("sql", "0001_saved_queries"),
    ]

    operations = [
        migrations.CreateModel(
            name="StatementRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("statement", models.TextField()),
                ("ran_at", models.DateTimeField(auto_now_add=True)),
                ("result", models.CharField(max_length=32)),
                ("rows", models.BigIntegerField(default=0)),
                ("took_ms", models.BigIntegerField(default=0)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="statement_runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
