"""The view of a table service's plan, by the rights of its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from controlplane.operations.permissions import is_destructive
from controlplane.tables.masks import masked_rows
from controlplane.tables.row_access import RowAccess
from workers.clock import InstantTime
from workers.table_services.input_rows import PATH_KEY
from workers.table_services.service import ServicePlan

if TYPE_CHECKING:
    import pyarrow as pa

STORED_ITEMS_MAX = 2000
SAMPLE_CHARS_MAX = 200
"""A value in a sample row is cut there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItemRow:
    what: str
    effect: str
    bytes: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlanView:
    """What a service would do, exactly."""

    service: str
    summary: str
    instant: InstantTime | None
    """The pending instant that running carries out."""
    items: list[PlanItemRow]
    bytes_total: int
    figures: Mapping[str, int]
    blockers: list[str]
    """Why it cannot run now; empty when it can."""
    warnings: list[str]
    sample: list[Mapping[str, Any]]
    """Some of the rows that go, by column, each value as text or null. Empty for readers without
    row access; masked columns have the mark. It is never stored.
    """
    is_empty: bool
    """There is nothing to do."""
    is_destructive: bool
    plan_hash: str

    @property
    def is_executable(self) -> bool:
        return not self.blockers and not self.is_empty

    @property
    def plan(self) -> dict[str, Any]:
        """The same as JSON. A very long list of items is cut there, with a note."""
        return {
            "service": self.service,
            "summary": self.summary,
            "instant": self.instant,
            "items": [
                {
                    "what": item.what,
                    "effect": item.effect,
                    "bytes": item.bytes,
                    "detail": item.detail,
                }
                for item in self.items[:STORED_ITEMS_MAX]
            ],
            "item_count": len(self.items),
            "bytes_total": self.bytes_total,
            "figures": dict(self.figures),
            "blockers": self.blockers,
            "warnings": self.warnings,
            "plan_hash": self.plan_hash,
        }


def read_sample(sample: pa.Table | None, access: RowAccess | None) -> list[Mapping[str, Any]]:
    """Return the rows as the reader may see them, each value as text or None."""
    if sample is None or access is None or not access.may_read:
        return []
    rows = masked_rows(sample, access.masked).to_pylist()
    return [
        {
            name: None if value is None else str(value)[:SAMPLE_CHARS_MAX]
            for name, value in row.items()
        }
        for row in rows
    ]


def name_upload(
    view: ServicePlanView, requested: Mapping[str, str], stored: Mapping[str, str]
) -> ServicePlanView:
    """Return the plan with the file as the request names it, in place of the stored file."""
    path, place = requested.get(PATH_KEY, "").strip(), stored.get(PATH_KEY, "")
    if not path or place == path:
        return view
    items = [replace(item, what=item.what.replace(place, path)) for item in view.items]
    return replace(view, items=items)


def view_plan(plan: ServicePlan, access: RowAccess | None) -> ServicePlanView:
    """Return what the reader may see of the plan; without access no sample rows."""
    return ServicePlanView(
        service=plan.service,
        summary=plan.summary,
        instant=plan.instant,
        items=[
            PlanItemRow(what=item.what, effect=item.effect, bytes=item.bytes, detail=item.detail)
            for item in plan.items
        ],
        bytes_total=plan.bytes_total,
        figures=dict(plan.figures),
        blockers=list(plan.blockers),
        warnings=list(plan.warnings),
        sample=read_sample(plan.sample, access),
        is_empty=plan.is_empty,
        is_destructive=is_destructive(plan.service),
        plan_hash=plan.plan_hash,
    )
