"""Columns that a program of an earlier version does not know get their default in the database."""

from django.db import migrations, models

from controlplane.fields import GiveDefault


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0008_description"),
    ]

    operations = [
        GiveDefault(
            model_name="table",
            name="description",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
        GiveDefault(
            model_name="table",
            name="load_options",
            field=models.JSONField(db_default={}, default=dict),
        ),
        GiveDefault(
            model_name="table",
            name="namespace",
            field=models.SlugField(db_default="default", default="default", max_length=64),
        ),
        GiveDefault(
            model_name="table",
            name="owner",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        GiveDefault(
            model_name="table",
            name="tags",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
    ]
