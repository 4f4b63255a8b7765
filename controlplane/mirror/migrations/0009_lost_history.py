"""Lost files of the archived timeline. The next look at each table finds them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0008_unmarked")]

    operations = [
        migrations.AddField("syncmark", "lost_history", models.JSONField(default=dict)),
    ]
