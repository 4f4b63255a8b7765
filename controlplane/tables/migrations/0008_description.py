"""What a table holds, in words."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tables", "0007_load_options")]

    operations = [
        migrations.AddField(
            "table", "description", models.CharField(blank=True, default="", max_length=500)
        ),
    ]
