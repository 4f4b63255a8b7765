"""Whoever had a role keeps reading them where he had it.

Admins read rows where they are admins; auditors, operators and viewers everywhere are given the
right one by one, since whoever joins their groups later is not to have it.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations

OF_ROLES = ("viewer", "operator", "auditor")
BY = "the upgrade"


def keep_reading(apps: Any, _editor: Any) -> None:
    user = apps.get_model("auth", "User")
    grant = apps.get_model("accounts", "Grant")
    row_grant = apps.get_model("tables", "RowGrant")
    everywhere = [
        row_grant(user=reader, right="rows", granted_by=BY)
        for reader in user.objects.filter(groups__name__in=OF_ROLES).distinct().order_by("pk")
    ]
    in_places = [
        row_grant(
            user_id=held.user_id,
            group_id=held.group_id,
            namespace=held.namespace,
            table_id=held.table_id,
            right="rows",
            granted_by=BY,
        )
        for held in grant.objects.exclude(role="admin").order_by("pk")
    ]
    row_grant.objects.bulk_create([*everywhere, *in_places])


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_grants"),
        ("tables", "0004_reading_rows"),
    ]

    operations = [migrations.RunPython(keep_reading, migrations.RunPython.noop)]
