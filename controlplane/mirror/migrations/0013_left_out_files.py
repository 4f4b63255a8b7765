"""Sums over the file groups that have no row of their own. The next sync of each table fills them."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    dependencies = [("mirror", "0012_database_defaults")]

    operations = [
        migrations.CreateModel(
            name="LeftOutFiles",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("partition", models.CharField(blank=True, max_length=1024)),
                ("is_replaced", models.BooleanField()),
                ("file_groups", models.PositiveIntegerField()),
                ("file_groups_with_logs", models.PositiveIntegerField()),
                ("small_files", models.PositiveIntegerField()),
                ("bytes", models.BigIntegerField()),
                ("largest_bytes", models.BigIntegerField()),
                ("log_files", models.BigIntegerField()),
                ("log_bytes", models.BigIntegerField()),
                ("old_files", models.BigIntegerField()),
                ("old_bytes", models.BigIntegerField()),
                ("last_instant", controlplane.fields.InstantTimeField(max_length=17)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="left_out_files",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "partition", "is_replaced"), name="left_out_files_once"
                    )
                ],
            },
        ),
    ]
