"""Columns that a program of an earlier version does not know get their default in the database."""

from django.db import migrations, models

from controlplane.fields import GiveDefault


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0008_attempt_log"),
    ]

    operations = [
        GiveDefault(
            model_name="operation",
            name="attempt_log",
            field=models.JSONField(db_default=[], default=list),
        ),
        GiveDefault(
            model_name="operation",
            name="settled",
            field=models.JSONField(db_default={}, default=dict),
        ),
        GiveDefault(
            model_name="operation",
            name="stages",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
