"""A turn says which process has it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0004_phases")]

    operations = [
        migrations.AddField("syncmark", "running_by", models.JSONField(default=dict)),
    ]
