"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0007_sync_rounds"),
    ]

    operations = [
        migrations.AddField(
            model_name="syncmark",
            name="held_by",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="syncmark",
            name="unproved",
            field=models.JSONField(default=list),
        ),
    ]
