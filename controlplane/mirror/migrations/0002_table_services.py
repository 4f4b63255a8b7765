"""Generated."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0001_initial"),
        ("tables", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="instantrecord",
            name="is_archived",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="syncmark",
            name="file_groups_left_out",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="syncmark",
            name="history_version",
            field=models.CharField(blank=True, max_length=64),
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
    ]
