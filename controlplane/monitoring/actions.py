"""Actions on alerts: silences and changes of rules."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.monitoring.alert_rules import (
    HOLD_MINUTES_MAX,
    TITLES,
    WINDOW_MINUTES_DEFAULT,
    WINDOW_MINUTES_MAX,
    Rule,
    get_default_rule,
    parse_fires,
)
from controlplane.monitoring.models import Alert, AlertRule, Silence
from controlplane.monitoring.queries import can_silence
from controlplane.monitoring.severities import parse_severity
from controlplane.monitoring.silences import EVERY_CHECK, Reach, Silences, get_reach
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.tables.access import Permission, may_everywhere
from controlplane.tables.models import Table

HOURS_MAX = 7 * 24


def do_silence(
    *,
    table: Table,
    check: str,
    hours: int,
    reason: str,
    by: User,
    reach: Reach = "table",
    every_check: bool = False,
) -> Silence:
    """Silence a check, or every check, of a table, of its namespace or of all tables, for some
    hours. It replaces an earlier silence with the same scope.

    Raises PermissionDenied for a user who is not an operator there, InvalidRequest.
    """
    _check_can_silence(table, by, reach)
    _check_exists(check)
    if not 1 <= hours <= HOURS_MAX:
        raise InvalidRequest(f"a silence must last 1 to {HOURS_MAX} hours", hours=hours)
    if not reason.strip() or len(reason) > REASON_CHARS_MAX:
        raise InvalidRequest(f"a silence requires a reason of up to {REASON_CHARS_MAX} characters")
    until = timezone.now() + timedelta(hours=hours)
    name = EVERY_CHECK if every_check else check
    namespace = table.namespace if reach == "namespace" else ""
    with transaction.atomic():
        silence, _ = Silence.objects.update_or_create(
            table=table if reach == "table" else None,
            namespace=namespace,
            check_name=name,
            defaults={"until": until, "by": by.get_username(), "reason": reason.strip()},
        )
        _record(by, "alert.silence", table.slug, reason, **_details(silence, until=until))
    return silence


def do_end_silence(*, alert_id: int, by: User) -> None:
    """End the narrowest silence of an alert at once; do nothing if there is none.

    Raises PermissionDenied for a user who is not an operator in the scope of the silence.
    """
    alert = Alert.objects.select_related("table").get(pk=alert_id)
    _check_can_silence(alert.table, by, "table")
    silence = Silences.load(timezone.now()).find(alert)
    if silence is None:
        return
    _check_can_silence(alert.table, by, get_reach(silence))
    with transaction.atomic():
        ended, _ = Silence.objects.filter(pk=silence.pk).delete()
        if ended:
            _record(by, "alert.unsilence", alert.table.slug, "", **_details(silence))


def _details(silence: Silence, *, until: datetime | None = None) -> dict[str, object]:
    """Return the details for the audit log, whose slug is that of the requested table."""
    ends = {"until": until.isoformat()} if until is not None else {}
    place = {"reach": get_reach(silence), "namespace": silence.namespace}
    return {"check": silence.check_name or "every check", **place, **ends}


def do_change_rule(
    *,
    check: str,
    fires: str,
    hold_minutes: int,
    by: User,
    severity: str = "",
    window_minutes: int = WINDOW_MINUTES_DEFAULT,
) -> None:
    """Change the rule of a check for all tables, from the next evaluation of each. With an empty
    severity the verdict determines it.

    Raises PermissionDenied, InvalidRequest.
    """
    if not may_everywhere(by, Permission.ADMINISTER):
        raise PermissionDenied("this requires the admin role")
    _check_exists(check)
    if not 0 <= hold_minutes <= HOLD_MINUTES_MAX:
        raise InvalidRequest(
            f"the delay must be 0 to {HOLD_MINUTES_MAX} minutes", given=hold_minutes
        )
    if not 1 <= window_minutes <= WINDOW_MINUTES_MAX:
        raise InvalidRequest(
            f"the window of an event must be 1 to {WINDOW_MINUTES_MAX} minutes",
            given=window_minutes,
        )
    rule = Rule(
        fires=parse_fires(fires),
        hold=timedelta(minutes=hold_minutes),
        severity=parse_severity(severity) if severity else "",
        window=timedelta(minutes=window_minutes),
    )
    fields = {
        "fires": rule.fires,
        "hold_minutes": hold_minutes,
        "severity": rule.severity,
        "window_minutes": window_minutes,
    }
    with transaction.atomic():
        if rule == get_default_rule(check):
            AlertRule.objects.filter(check_name=check).delete()
        else:
            AlertRule.objects.update_or_create(check_name=check, defaults=fields)
        _record(by, "alert.rule", check, "", **fields)


def _check_can_silence(table: Table, by: User, reach: Reach) -> None:
    if not can_silence(by, reach, table, table.namespace):
        where = {"table": "", "namespace": " in the whole namespace", "everywhere": " everywhere"}
        raise PermissionDenied(f"this requires the operator role{where[reach]}")


def _check_exists(check: str) -> None:
    if check not in TITLES:
        raise InvalidRequest("health check not found", check=check[:64])


def _record(by: User, what: str, subject: str, reason: str, **details: object) -> None:
    do_record(
        who=by.get_username(),
        what=what,
        subject=subject,
        result="done",
        reason=reason,
        details=details,
    )
