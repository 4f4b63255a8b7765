"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tables", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="lock_provider",
            field=models.CharField(blank=True, max_length=16),
        ),
    ]
