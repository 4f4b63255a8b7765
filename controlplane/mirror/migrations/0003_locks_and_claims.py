"""Generated."""

import django.db.models.deletion
from django.db import migrations, models

import controlplane.fields


class Migration(migrations.Migration):
    dependencies = [
        ("mirror", "0002_table_services"),
        ("tables", "0002_lock_provider"),
    ]

    operations = [
        migrations.AddField(
            model_name="serversample",
            name="batch_sizes",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="serversample",
            name="markers",
            field=models.BigIntegerField(default=0),
        ),
        migrations.CreateModel(
            name="LockRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("provider", models.CharField(max_length=32)),
                ("place", models.CharField(blank=True, max_length=700)),
                ("problem", models.TextField(blank=True)),
                ("is_held", models.BooleanField(default=False)),
                ("owner", models.CharField(blank=True, max_length=500)),
                ("writer", models.CharField(blank=True, max_length=200)),
                ("instant", controlplane.fields.InstantTimeField(blank=True)),
                ("epoch", models.BigIntegerField(null=True)),
                ("since", models.DateTimeField(null=True)),
                ("until", models.DateTimeField(null=True)),
                ("waiters", models.JSONField(default=list)),
                ("holders", models.JSONField(default=list)),
                ("sampled_at", models.DateTimeField()),
                (
                    "table",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lock",
                        to="tables.table",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MarkerDirectory",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("instant", controlplane.fields.InstantTimeField()),
                ("layout", models.CharField(max_length=32)),
                ("markers", models.PositiveIntegerField(default=0)),
                ("by_file", models.JSONField(default=list)),
                ("claims", models.JSONField(default=list)),
                ("claim_count", models.PositiveIntegerField(default=0)),
                ("verdict", models.JSONField(null=True)),
                ("changed_at", models.DateTimeField()),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="marker_directories",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table", "instant"), name="marker_directory_once"
                    )
                ],
            },
        ),
    ]
