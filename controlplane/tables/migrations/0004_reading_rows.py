"""Reading rows is a right of its own, and columns can be masked."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tables", "0003_former_slugs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="MaskedColumn",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=500)),
                (
                    "table",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="masked_columns",
                        to="tables.table",
                    ),
                ),
            ],
            options={
                "ordering": ["path"],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("table"),
                        django.db.models.functions.text.Lower("path"),
                        name="masked_column_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RowGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "right",
                    models.CharField(
                        choices=[("rows", "rows"), ("masked", "masked")], max_length=16
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
                        related_name="row_grants",
                        to="auth.group",
                    ),
                ),
                (
                    "table",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="row_grants",
                        to="tables.table",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="row_grants",
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
                        name="row_grant_of_one_holder",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("namespace", ""), ("table__isnull", True), _connector="OR"
                        ),
                        name="row_grant_at_one_place",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("right__in", ("rows", "masked"))),
                        name="row_grant_of_a_right",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("table__isnull", True), ("user__isnull", False)),
                        fields=("user", "namespace"),
                        name="row_grant_of_user_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("table__isnull", False), ("user__isnull", False)),
                        fields=("user", "table"),
                        name="row_grant_of_user_on_table_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", False), ("table__isnull", True)),
                        fields=("group", "namespace"),
                        name="row_grant_of_group_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", False), ("table__isnull", False)),
                        fields=("group", "table"),
                        name="row_grant_of_group_on_table_once",
                    ),
                ],
            },
        ),
    ]
