"""What each look asks of a long history is found by indexes of few rows; the database does not check
again for each row that its table is registered.
"""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0002_fleet"), ("tables", "0001_schema")]

    operations = [
        migrations.AlterField(
            model_name="instantrecord",
            name="table",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="instants",
                to="tables.table",
            ),
        ),
        *(
            migrations.AddIndex(
                model_name="instantrecord",
                index=models.Index(fields=["table", column], condition=condition, name=name),
            )
            for name, column, condition in (
                ("instant_active", "requested_at", models.Q(is_archived=False)),
                (
                    "instant_undoing",
                    "requested_at",
                    models.Q(action__in=("rollback", "restore")),
                ),
                (
                    "instant_read_otherwise",
                    "completed_at",
                    models.Q(metadata__has_key="read_otherwise"),
                ),
            )
        ),
    ]
