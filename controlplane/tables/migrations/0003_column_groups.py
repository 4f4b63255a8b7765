"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0002_lock_provider"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="groups",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="table",
            name="join_needs",
            field=models.JSONField(default=list),
        ),
    ]
