"""Tokens with a name, a scope, places and a last use. Those that there were keep all that their
owners may.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

KEPT = ("digest", "token_key", "user_id", "created", "expiry")


def take_over(apps: Any, schema_editor: Any) -> None:
    using = schema_editor.connection.alias
    older = apps.get_model("knox", "AuthToken").objects.using(using)
    token = apps.get_model("accounts", "Token")
    token.objects.using(using).bulk_create(
        token(scope="administer", **row) for row in older.values(*KEPT)
    )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_grants"),
        ("knox", "0009_extend_authtoken_field"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Token",
            fields=[
                ("digest", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("token_key", models.CharField(db_index=True, max_length=25)),
                ("name", models.CharField(blank=True, max_length=100)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("read", "read"),
                            ("operate", "operate"),
                            ("administer", "administer"),
                        ],
                        max_length=16,
                    ),
                ),
                ("namespaces", models.JSONField(default=list)),
                ("table_keys", models.JSONField(default=list)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("expiry", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="auth_token_set",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ("read", "operate", "administer"))),
                        name="token_of_a_scope",
                    )
                ],
            },
        ),
        migrations.RunPython(take_over, migrations.RunPython.noop),
        # Nobody's any more, it would keep users from being flushed on PostgreSQL.
        migrations.RunSQL("DROP TABLE knox_authtoken", migrations.RunSQL.noop),
    ]
