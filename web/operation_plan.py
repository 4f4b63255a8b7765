"""The plan that an operation is bound to, as its page and its audit rows show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane.operations.descriptions.services import get_service
from controlplane.operations.queries import OperationDetail

LINES_MAX: Final = 2_000
"""Every item that the plan of an operation stores."""
_CHOICE_CHARS_MAX: Final = 2_000
_CHOICES: Final = ("predicate", "keys", "path", "partitions")
"""Parameters that choose what is deleted. Values are masked in the detail."""
_OF_OVERWRITE: Final = ("partitions", "file_groups", "files", "bytes")


@dataclass(frozen=True, slots=True)
class PlannedLine:
    effect: str
    what: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PlannedEffect:
    summary: str
    choices: list[tuple[str, str]]
    figures: list[tuple[str, int]]
    lines: list[PlannedLine]
    note: str
    """Why the plan has no sample rows; empty where that needs no words."""
    hidden: int
    """How many more things the plan names."""


def describe_plan(
    operation: OperationDetail, current: Mapping[str, Any] | None = None
) -> PlannedEffect | None:
    """Return what the plan of the operation would do, or its current plan; None if there is none
    with a summary.
    """
    plan = operation.plan if current is None else current
    if not plan.get("summary"):
        return None
    job: Mapping[str, Any] = operation.parameters.get("job", {})
    parameters = job.get("parameters", {})
    items = plan.get("items", [])
    figures = plan.get("figures") or {name: plan[name] for name in _OF_OVERWRITE if name in plan}
    return PlannedEffect(
        summary=plan["summary"],
        choices=[
            (field.label, str(parameters[field.name])[:_CHOICE_CHARS_MAX])
            for field in get_service(operation.row.service).fields
            if field.name in _CHOICES and parameters.get(field.name)
        ],
        figures=list(figures.items()),
        lines=[
            PlannedLine(item["effect"], item["what"], item["bytes"]) for item in items[:LINES_MAX]
        ],
        note=str(plan.get("sample_note", "")),
        hidden=max(0, plan.get("item_count", len(items)) - LINES_MAX),
    )
