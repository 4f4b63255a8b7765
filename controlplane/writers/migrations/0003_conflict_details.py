"""Conflicts are mirrored again, with more of what their decisions say; so they are emptied."""

from typing import Any

from django.db import migrations, models


def empty(apps: Any, schema_editor: Any) -> None:
    apps.get_model("writers", "Conflict").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0002_lock_provider"),
        ("writers", "0002_conflict_costs"),
    ]

    operations = [
        migrations.RunPython(empty, migrations.RunPython.noop),
        migrations.AddField(
            model_name="conflict",
            name="details",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="conflict",
            name="overlap",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="conflict",
            name="lasted_ms",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="conflict",
            index=models.Index(fields=["table", "winner_instant"], name="conflict_by_winner"),
        ),
    ]
