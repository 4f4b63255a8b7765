"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0008_held_archiving"),
    ]

    operations = [
        migrations.AddField(
            model_name="syncmark",
            name="claims_hash",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="syncmark",
            name="claims_until",
            field=models.DateTimeField(null=True),
        ),
    ]
