"""Rows of the newest base file of each file group, null until the next sync counts them; and sums of
the file groups of each table, so that pages over all tables read one row for each.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0010_completed_actions")]

    operations = [
        migrations.AddField("filegrouprecord", "base_rows", models.BigIntegerField(null=True)),
        migrations.CreateModel(
            "FileTotals",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("bytes", models.BigIntegerField(default=0)),
                ("log_files", models.PositiveIntegerField(default=0)),
                ("small_files", models.PositiveIntegerField(default=0)),
                ("base_rows", models.BigIntegerField(null=True)),
                ("uncounted", models.PositiveIntegerField(default=0)),
                (
                    "table",
                    models.OneToOneField(
                        on_delete=models.CASCADE, related_name="file_totals", to="tables.table"
                    ),
                ),
            ],
        ),
    ]
