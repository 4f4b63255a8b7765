"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0011_measure_rounds"),
    ]

    operations = [
        migrations.AddField(
            model_name="syncmark",
            name="read_otherwise",
            field=models.JSONField(default=dict),
        ),
    ]
