"""Two columns are called by what they hold."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("mirror", "0006_history_counts")]

    operations = [
        migrations.RenameField("joinmeasure", "found", "sample"),
        migrations.RenameField("sinkparticipant", "told_offset", "coordinator_offset"),
    ]
