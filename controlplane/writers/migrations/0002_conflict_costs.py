"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("writers", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="conflict",
            name="detected",
            field=models.CharField(
                choices=[("early", "Early"), ("commit", "Commit")], default="commit", max_length=16
            ),
        ),
        migrations.AddField(
            model_name="conflict",
            name="lasted_ms",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="conflict",
            name="strategy",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="conflict",
            name="wasted_bytes",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="conflict",
            name="wasted_files",
            field=models.BigIntegerField(default=0),
        ),
    ]
