"""Generated."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0010_undone_instants"),
        ("tables", "0007_time_units"),
    ]

    operations = [
        migrations.AddField(
            model_name="syncmark",
            name="measured_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="instantrecord",
            index=models.Index(
                condition=models.Q(("stream", ""), _negated=True),
                fields=["table", "-completed_at"],
                name="instant_by_stream",
            ),
        ),
    ]
