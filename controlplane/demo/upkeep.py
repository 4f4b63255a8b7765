"""What both demos need of the control plane: somebody to act for, and services that keep their
tables small.
"""

from __future__ import annotations

import shutil

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from controlplane.accounts.roles import ADMIN
from controlplane.monitoring.thresholds import do_set_threshold
from controlplane.operations.actions import do_update_service_setting
from controlplane.operations.models import ServiceSetting
from controlplane.tables.models import Table as TableRow
from controlplane.tables.scopes import Scope
from workers.installation import format_command
from workers.locations import is_bucket_location
from workers.storage.opener import open_storage

SERVICES = {"compaction": (60, 15), "clean": (120, 30), "archive": (60, 30)}
"""Service -> (at most every so many seconds, after so many commits)."""
LIMITS = {"compaction-commits": 60, "active-commits": 200}
"""Threshold -> commits before health warns. Three streams commit some 22 times a minute, and a
visitor who has done nothing yet must see nothing that needs a person.
"""
CANCEL_WAIT_S = 90.0
POLL_S = 0.5


def keep_small(row: TableRow, by: User) -> None:
    """Each run leaves hundreds of small logs. What somebody has set stays as it is."""
    if ServiceSetting.objects.filter(table=row).exists():
        return
    for service, (every_s, trigger_commits) in SERVICES.items():
        do_update_service_setting(
            table=row,
            service=service,
            enabled=True,
            every_s=every_s,
            trigger_commits=trigger_commits,
            by=by,
        )
    for name, commits in LIMITS.items():
        do_set_threshold(
            name,
            commits,
            scope=Scope(table=row),
            by=by,
            reason="the demo's streams commit every few seconds",
        )


def delete_files(location: str) -> None:
    """Delete everything at a location, which may be absent. Raises StorageFailed for a bucket."""
    if not is_bucket_location(location):
        shutil.rmtree(location, ignore_errors=True)
        return
    storage = open_storage(location)
    storage.delete_many([file.path for file in storage.list_tree("")])


def admin() -> User:
    user = User.objects.filter(groups__name=ADMIN, is_active=True).order_by("pk").first()
    if user is None:
        raise CommandError(f"no admin yet: run `{format_command('up')}` first")
    return user
