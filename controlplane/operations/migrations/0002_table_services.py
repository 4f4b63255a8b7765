"""Generated."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import controlplane.operations.states


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0001_initial"),
        ("tables", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ServiceSetting",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("service", models.CharField(max_length=32)),
                ("is_enabled", models.BooleanField(default=False)),
                ("every_s", models.PositiveIntegerField(default=3600)),
                ("trigger_commits", models.PositiveIntegerField(default=0)),
                ("parameters", models.JSONField(default=dict)),
                ("last_run_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="operation",
            name="service",
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.AlterField(
            model_name="operation",
            name="kind",
            field=models.CharField(
                choices=[
                    ("write", "write"),
                    ("rollback", "rollback"),
                    ("service", "service"),
                    ("cancel", "cancel"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("kind", "service"),
                    (
                        "state__in",
                        [
                            controlplane.operations.states.OperationState["CANCELLING"],
                            controlplane.operations.states.OperationState["QUEUED"],
                            controlplane.operations.states.OperationState["RUNNING"],
                            controlplane.operations.states.OperationState["STARTING"],
                            controlplane.operations.states.OperationState["UNKNOWN"],
                        ],
                    ),
                ),
                fields=("table", "service"),
                name="one_open_service_per_table",
            ),
        ),
        migrations.AddField(
            model_name="servicesetting",
            name="changed_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="servicesetting",
            name="table",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="service_settings",
                to="tables.table",
            ),
        ),
        migrations.AddConstraint(
            model_name="servicesetting",
            constraint=models.UniqueConstraint(
                fields=("table", "service"), name="service_setting_once"
            ),
        ),
    ]
