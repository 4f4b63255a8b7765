"""The group operator, between viewer and admin."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def create_group(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("auth", "Group").objects.get_or_create(name="operator")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_roles")]
    operations = [migrations.RunPython(create_group, migrations.RunPython.noop)]
