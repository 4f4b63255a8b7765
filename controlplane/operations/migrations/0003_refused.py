"""An operation may end as refused."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0002_log"),
    ]

    operations = [
        migrations.AlterField(
            model_name="operation",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "queued"),
                    ("starting", "starting"),
                    ("running", "running"),
                    ("stopping", "stopping"),
                    ("cancelling", "cancelling"),
                    ("unknown", "unknown"),
                    ("succeeded", "succeeded"),
                    ("failed", "failed"),
                    ("conflicted", "conflicted"),
                    ("rolled_back", "rolled_back"),
                    ("cancelled", "cancelled"),
                    ("lost", "lost"),
                    ("fenced", "fenced"),
                    ("refused", "refused"),
                ],
                default="queued",
                max_length=16,
            ),
        ),
    ]
