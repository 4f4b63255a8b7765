"""What people and programs did."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("audit", "0001_initial"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("who", models.CharField(max_length=150)),
                ("what", models.CharField(max_length=64)),
                ("object", models.CharField(max_length=255)),
                ("reason", models.TextField(blank=True)),
                ("plan_hash", models.CharField(blank=True, max_length=64)),
                ("result", models.CharField(max_length=32)),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("details", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
    ]
