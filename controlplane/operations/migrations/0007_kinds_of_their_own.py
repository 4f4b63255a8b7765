"""Kinds are named by their modules, so the column lists none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0006_request_digest"),
    ]

    operations = [
        migrations.AlterField(
            model_name="operation",
            name="kind",
            field=models.CharField(max_length=16),
        ),
    ]
