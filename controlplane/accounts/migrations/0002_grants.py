"""Roles of a person or a group in a namespace or on a table."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_groups"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tables", "0002_namespaces"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "viewer"),
                            ("operator", "operator"),
                            ("admin", "admin"),
                        ],
                        max_length=16,
                    ),
                ),
                ("namespace", models.SlugField(blank=True, max_length=64)),
                ("granted_at", models.DateTimeField(auto_now_add=True)),
                ("granted_by", models.CharField(max_length=150)),
                (
                    "group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="auth.group",
                    ),
                ),
                (
                    "table",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="tables.table",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("user__isnull", True), ("group__isnull", True), _connector="XOR"
                        ),
                        name="grant_of_one_holder",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("namespace", ""), ("table__isnull", True), _connector="XOR"
                        ),
                        name="grant_at_one_place",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ("viewer", "operator", "admin"))),
                        name="grant_of_a_role",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("table__isnull", True), ("user__isnull", False)),
                        fields=("user", "namespace"),
                        name="one_role_of_user_in_namespace",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("table__isnull", False), ("user__isnull", False)),
                        fields=("user", "table"),
                        name="one_role_of_user_on_table",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", False), ("table__isnull", True)),
                        fields=("group", "namespace"),
                        name="one_role_of_group_in_namespace",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", False), ("table__isnull", False)),
                        fields=("group", "table"),
                        name="one_role_of_group_on_table",
                    ),
                ],
            },
        ),
    ]
