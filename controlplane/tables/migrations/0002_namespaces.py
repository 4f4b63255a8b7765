"""Tables stand in namespaces; those that were registered before stand in the default one."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tables", "0001_schema")]

    operations = [
        migrations.AddField(
            model_name="table",
            name="namespace",
            field=models.SlugField(default="default", max_length=64),
        ),
    ]
