"""Partitions without partition metadata. The next look at each table's files finds them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0007_plain_names")]

    operations = [
        migrations.AddField("syncmark", "unmarked", models.JSONField(default=list)),
    ]
