"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0005_sinks"),
    ]

    operations = [
        migrations.AddField(
            model_name="sinkparticipant",
            name="is_member",
            field=models.BooleanField(default=True),
        ),
    ]
