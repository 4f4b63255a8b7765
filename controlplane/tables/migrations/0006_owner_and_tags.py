"""Whom to ask about a table, and the words that it is filtered by."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tables", "0005_keep_reading_rows")]

    operations = [
        migrations.AddField(
            "table", "owner", models.CharField(blank=True, default="", max_length=150)
        ),
        migrations.AddField(
            "table", "tags", models.CharField(blank=True, default="", max_length=300)
        ),
    ]
