"""Thresholds of health checks that admins set on a table, in a namespace, or everywhere. The
nearest threshold applies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.http import Http404

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Check
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.thresholds import THRESHOLDS, Limits, defaults
from controlplane.monitoring.alert_rules import CHECKS
from controlplane.monitoring.models import HealthThreshold
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope, may_administer

Source = Literal["default", "everywhere", "namespace", "table"]
_RANKS: dict[Source, int] = {"default": 0, "everywhere": 1, "namespace": 2, "table": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRow:
    name: str
    check: str
    title: str
    """The title of the check."""
    meaning: str
    unit: str
    amount: float
    """The effective value."""
    source: Source
    """The origin of the value."""
    set_by: str
    """The user who set it; empty for a default."""
    set_at: datetime | None
    least: float
    most: float
    is_set_here: bool


def load_limits(table: Table) -> Limits:
    """Load the effective limits of a table. One query."""
    scope = Scope(table=table)
    return {**defaults(), **{name: row.amount for name, row in _load_nearest(scope).items()}}


def check_table_health(table: Table, now: datetime) -> list[Check]:
    """Run the health checks of a table with its effective thresholds."""
    return health_checks(table, now, load_limits(table))


def list_thresholds(scope: Scope) -> list[ThresholdRow]:
    """List all thresholds with their effective values. One query."""
    nearest, amounts = _load_nearest(scope), defaults()
    return [_row(name, nearest.get(name), amounts[name], scope) for name in THRESHOLDS]


def get_threshold_row(name: str, scope: Scope) -> ThresholdRow:
    """Return a threshold with its effective value. Raises Http404 for an unknown threshold."""
    if name not in THRESHOLDS:
        raise Http404(f"threshold {name[:64]} not found")
    return _row(name, _load_nearest(scope).get(name), defaults()[name], scope)


def do_set_threshold(
    name: str, amount: float | None, *, scope: Scope, by: User, reason: str = ""
) -> ThresholdRow:
    """Set a threshold, from the next evaluation of each table. None removes it, so that the next
    wider one applies. Raises PermissionDenied, InvalidRequest.
    """
    if not may_administer(by, scope):
        raise PermissionDenied("this requires the admin role")
    threshold = THRESHOLDS.get(name)
    if threshold is None:
        raise InvalidRequest("threshold not found", threshold=name[:64])
    is_number = amount is None or math.isfinite(amount)
    if not is_number or (amount is not None and not threshold.least <= amount <= threshold.most):
        raise InvalidRequest(
            f"{name} must be {threshold.least:g} to {threshold.most:g} {threshold.unit}",
            given=str(amount)[:40],
        )
    fields = {"amount": amount, "set_by": by.get_username()}
    with transaction.atomic():
        if amount is None:
            HealthThreshold.objects.filter(
                name=name, table=scope.table, namespace=scope.namespace
            ).delete()
        else:
            HealthThreshold.objects.update_or_create(
                name=name, table=scope.table, namespace=scope.namespace, defaults=fields
            )
        do_record(
            who=by.get_username(),
            what="health.threshold",
            subject=str(scope),
            result="done",
            reason=reason,
            details={"threshold": name, "amount": amount, "scope": scope.kind},
        )
    return next(row for row in list_thresholds(scope) if row.name == name)


def _load_nearest(scope: Scope) -> dict[str, HealthThreshold]:
    namespace = scope.table.namespace if scope.table is not None else scope.namespace
    condition = Q(table__isnull=True, namespace__in=["", namespace])
    if scope.table is not None:
        condition |= Q(table=scope.table)
    return _choose_nearest(HealthThreshold.objects.filter(condition))


def _choose_nearest(rows: Iterable[HealthThreshold]) -> dict[str, HealthThreshold]:
    """Return the nearest threshold by name."""
    nearest: dict[str, HealthThreshold] = {}
    for row in sorted(rows, key=lambda row: _RANKS[_get_source(row)]):
        nearest[row.name] = row
    return nearest


def _get_source(row: HealthThreshold) -> Source:
    if row.table_id is not None:
        return "table"
    return "namespace" if row.namespace else "everywhere"


def _row(name: str, row: HealthThreshold | None, default: float, scope: Scope) -> ThresholdRow:
    threshold = THRESHOLDS[name]
    return ThresholdRow(
        name=name,
        check=threshold.check,
        title=CHECKS[threshold.check],
        meaning=threshold.meaning,
        unit=threshold.unit,
        amount=default if row is None else row.amount,
        source="default" if row is None else _get_source(row),
        set_by="" if row is None else row.set_by,
        set_at=None if row is None else row.set_at,
        least=threshold.least,
        most=threshold.most,
        is_set_here=row is not None and _get_source(row) == scope.kind,
    )
