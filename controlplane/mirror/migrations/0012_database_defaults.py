"""Columns that a program of an earlier version does not know get their default in the database."""

from django.db import migrations, models

from controlplane.fields import GiveDefault


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0011_base_rows"),
    ]

    operations = [
        GiveDefault(
            model_name="instantrecord",
            name="has_content",
            field=models.BooleanField(db_default=True, default=True),
        ),
        GiveDefault(
            model_name="syncmark",
            name="is_history_counted",
            field=models.BooleanField(db_default=False, default=False),
        ),
        GiveDefault(
            model_name="syncmark",
            name="lost_history",
            field=models.JSONField(db_default={}, default=dict),
        ),
        GiveDefault(
            model_name="syncmark",
            name="made_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        GiveDefault(
            model_name="syncmark",
            name="names_only",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        GiveDefault(
            model_name="syncmark",
            name="problem",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        GiveDefault(
            model_name="syncmark",
            name="running_by",
            field=models.JSONField(db_default={}, default=dict),
        ),
        GiveDefault(
            model_name="syncmark",
            name="sums",
            field=models.JSONField(db_default={}, default=dict),
        ),
        GiveDefault(
            model_name="syncmark",
            name="unmarked",
            field=models.JSONField(db_default=[], default=list),
        ),
    ]
