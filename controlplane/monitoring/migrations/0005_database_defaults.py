"""Columns that a program of an earlier version does not know get their default in the database."""

from django.db import migrations, models

from controlplane.fields import GiveDefault


class Migration(migrations.Migration):
    dependencies = [
        ("monitoring", "0004_wide_silences"),
    ]

    operations = [
        GiveDefault(
            model_name="alert",
            name="announced_as",
            field=models.CharField(db_default="", default="", max_length=8),
        ),
        GiveDefault(
            model_name="alert",
            name="severity",
            field=models.CharField(db_default="", default="", max_length=8),
        ),
        GiveDefault(
            model_name="alertrule",
            name="severity",
            field=models.CharField(blank=True, db_default="", default="", max_length=8),
        ),
        GiveDefault(
            model_name="alertrule",
            name="window_minutes",
            field=models.PositiveIntegerField(db_default=60, default=60),
        ),
        GiveDefault(
            model_name="silence",
            name="namespace",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
