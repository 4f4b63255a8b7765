"""An instant's row says when the files of its states were made."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0003_active_instants")]

    operations = [
        migrations.AddField("instantrecord", "file_times", models.JSONField(null=True)),
    ]
