"""Table services that run by themselves: settings per table, and what is due.

Only services that take no committed data away can be scheduled. All are off until somebody turns
them on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import ControlPlaneError, InvalidRequest
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries.files import backlog
from controlplane.operations.kinds.table_service import do_schedule_service, plan_service
from controlplane.operations.models import Operation, ServiceSetting
from controlplane.operations.permissions import is_destructive, schedulable_services
from controlplane.operations.registered import hold_registered
from controlplane.operations.request_places import check_named_places
from controlplane.operations.states import OPEN
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime, format_instant

log = logging.getLogger(__name__)

EVERY_S_DEFAULT = 3600
EVERY_S_MIN = 10
EVERY_S_MAX = 30 * 86_400
TRIGGER_COMMITS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettingRow:
    service: str
    enabled: bool
    every_s: int
    trigger_commits: int
    """Commits that must have come since; 0 waits for none."""
    parameters: Mapping[str, str]
    last_run_at: datetime | None
    next_due_at: datetime | None
    """None while it is off."""


def service_settings(table: Table) -> list[ServiceSettingRow]:
    """Every service that can be scheduled, by name, with its defaults where nobody set it."""
    stored = {one.service: one for one in ServiceSetting.objects.filter(table=table)}
    return [
        _row(stored.get(name) or ServiceSetting(table=table, service=name))
        for name in schedulable_services()
    ]


def service_setting(table: Table, service: str) -> ServiceSettingRow:
    """As it holds. Raises Http404 for a service that cannot be scheduled."""
    for row in service_settings(table):
        if row.service == service:
            return row
    raise Http404(f"no service {service[:64]} can be scheduled")


def do_update_service_setting(
    *,
    table: Table,
    service: str,
    enabled: bool,
    every_s: int = EVERY_S_DEFAULT,
    trigger_commits: int = 0,
    parameters: Mapping[str, str] | None = None,
    by: User | None,
) -> ServiceSettingRow:
    """Change what is set. Raises InvalidRequest; the service itself checks parameters."""
    if service not in schedulable_services():
        raise InvalidRequest(
            "this service cannot be scheduled", service=service[:64], known=schedulable_services()
        )
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise InvalidRequest("the interval is out of bounds", least=EVERY_S_MIN, most=EVERY_S_MAX)
    if not 0 <= trigger_commits <= TRIGGER_COMMITS_MAX:
        raise InvalidRequest("the trigger is out of bounds", most=TRIGGER_COMMITS_MAX)
    checked = dict(parameters or {})
    if checked:
        check_named_places(by, {"parameters": checked})
        plan_service(table, service, checked, None)
    with transaction.atomic():
        hold_registered(table)
        setting, _ = ServiceSetting.objects.update_or_create(
            table=table,
            service=service,
            defaults={
                "is_enabled": enabled,
                "every_s": every_s,
                "trigger_commits": trigger_commits,
                "parameters": checked,
                "changed_by": by,
            },
        )
        do_record(
            who=by.get_username() if by else "",
            what="service.schedule",
            subject=table.slug,
            result="done",
            details={
                "service": service,
                "enabled": enabled,
                "every_s": every_s,
                "trigger_commits": trigger_commits,
                "parameters": checked,
            },
        )
    return _row(setting)


def run_due_services(*, now: datetime | None = None) -> list[Operation]:
    """Queue what is due: its interval has passed, its commits have come, nothing of its kind is
    open, and its plan has something to do.
    """
    at = now or timezone.now()
    settings = ServiceSetting.objects.filter(is_enabled=True).select_related("table")
    begun_operations = (
        _run_if_due(setting, at) for setting in settings.order_by("table_id", "service")
    )
    return [operation for operation in begun_operations if operation is not None]


def _run_if_due(setting: ServiceSetting, now: datetime) -> Operation | None:
    if is_destructive(setting.service) or not _is_due(setting, now):
        return None
    try:
        view = plan_service(setting.table, setting.service, setting.parameters, None)
    except (ControlPlaneError, OSError) as error:
        log.warning("planning failed: table=%s error=%s", setting.table.slug, error)
        view = None
    ServiceSetting.objects.filter(pk=setting.pk).update(last_run_at=now)
    if view is None or not view.is_executable:
        return None
    return do_schedule_service(setting.table, setting.service, setting.parameters)


def _is_due(setting: ServiceSetting, now: datetime) -> bool:
    if setting.last_run_at and now - setting.last_run_at < timedelta(seconds=setting.every_s):
        return False
    if Operation.objects.filter(
        table=setting.table, service=setting.service, state__in=sorted(OPEN)
    ).exists():
        return False
    return setting.trigger_commits == 0 or _commits_since(setting) >= setting.trigger_commits


def _commits_since(setting: ServiceSetting) -> int:
    """Compaction counts from the last one on the timeline, whoever ran it; others from their last
    turn here.
    """
    if setting.service == "compaction":
        return backlog(setting.table).delta_commits
    writes = InstantRecord.objects.filter(
        table=setting.table, state="completed", action__in=DATA_ACTIONS, files__gt=0
    )
    if setting.last_run_at is not None:
        writes = writes.filter(completed_at__gt=_instant(setting.last_run_at))
    return writes.count()


def _instant(at: datetime) -> InstantTime:
    return format_instant(int(at.timestamp() * 1000))


def _row(setting: ServiceSetting) -> ServiceSettingRow:
    due = None
    if setting.is_enabled:
        last = setting.last_run_at
        due = timezone.now() if last is None else last + timedelta(seconds=setting.every_s)
    return ServiceSettingRow(
        service=setting.service,
        enabled=setting.is_enabled,
        every_s=setting.every_s,
        trigger_commits=setting.trigger_commits,
        parameters=setting.parameters,
        last_run_at=setting.last_run_at,
        next_due_at=due,
    )
