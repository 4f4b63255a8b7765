"""What both demos need of the control plane: somebody to act for, and services that keep their
tables small.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from controlplane.accounts.roles import ADMIN
from controlplane.operations.actions import do_update_service_setting
from controlplane.operations.models import ServiceSetting
from controlplane.tables.models import Table as TableRow

SERVICES = {"compaction": (60, 15), "clean": (120, 30)}
"""Service -> (at most every so many seconds, after so many commits). Compaction comes before the
table's health complains of its backlog.
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


def admin() -> User:
    user = User.objects.filter(groups__name=ADMIN, is_active=True).order_by("pk").first()
    if user is None:
        raise CommandError("there is no admin yet: run `make up` first")
    return user
