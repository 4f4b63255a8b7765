"""Names before content, sums of the rows, and since when a table cannot be read."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0001_schema"), ("tables", "0001_schema")]

    operations = [
        migrations.AddField(
            model_name="instantrecord",
            name="has_content",
            field=models.BooleanField(default=True),
        ),
        migrations.AlterField(
            model_name="instantrecord",
            name="table",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="instants",
                to="tables.table",
            ),
        ),
        migrations.RemoveIndex(model_name="instantrecord", name="instant_by_state"),
        migrations.AddIndex(
            model_name="instantrecord",
            index=models.Index(
                fields=["table", "state"],
                condition=models.Q(completed_at__isnull=True),
                name="instant_pending",
            ),
        ),
        *(
            migrations.AddField(model_name="syncmark", name=name, field=field)
            for name, field in (
                ("made_by", models.CharField(blank=True, max_length=16)),
                ("names_only", models.PositiveIntegerField(default=0)),
                ("sums", models.JSONField(default=dict)),
                ("compare_at", models.DateTimeField(null=True)),
                ("repaired_at", models.DateTimeField(null=True)),
                ("problem", models.CharField(blank=True, max_length=16)),
                ("failing_since", models.DateTimeField(null=True)),
            )
        ),
    ]
