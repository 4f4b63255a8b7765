"""Target for the age of a table's newest commit: the threshold `commit-sla`, or the default."""

from __future__ import annotations

from dataclasses import dataclass

from django.apps import apps
from django.conf import settings
from django.db.models import F, OuterRef, Q, Subquery


@dataclass(frozen=True, slots=True)
class FreshnessTarget:
    minutes: float
    is_default: bool
    """It is SLUICE_FRESHNESS_TARGET_MIN, which checks and alerts do not use."""

    @property
    def seconds(self) -> float:
        return self.minutes * 60


def query_target_minutes() -> Subquery:
    """Return the nearest threshold of a table: its own, of its namespace, or everywhere; null for
    none. The app of the thresholds is above this one, so their model is loaded by its name.
    """
    thresholds = apps.get_model("monitoring", "HealthThreshold")._default_manager
    is_wider = Q(namespace="") | Q(namespace=OuterRef("namespace"))
    nearest = thresholds.filter(
        Q(table=OuterRef("pk")) | Q(table__isnull=True) & is_wider, name="commit-sla"
    ).order_by(F("table").asc(nulls_last=True), "-namespace")
    return Subquery(nearest.values("amount")[:1])


def get_freshness_target(threshold_min: float | None) -> FreshnessTarget | None:
    """Return the target by the threshold that holds for a table; 0 turns the target off."""
    if threshold_min is not None:
        return FreshnessTarget(threshold_min, is_default=False) if threshold_min else None
    default_min = settings.SLUICE_FRESHNESS_TARGET_MIN
    return FreshnessTarget(default_min, is_default=True) if default_min else None
