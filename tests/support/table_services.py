"""How tests run a table service: by its name, as the control plane does."""

from __future__ import annotations

from workers.options.write_options import write_options
from workers.table.table import Table
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServicePlan, ServiceRequest


def plan(table: Table, name: str, **parameters: str) -> ServicePlan:
    return get_service(name).plan(table, _dotted(parameters))


def run(
    table: Table, name: str, *, expected_plan_hash: str | None = None, **parameters: str
) -> ServiceOutcome:
    request = ServiceRequest(
        by="test",
        reason="a test",
        parameters=_dotted(parameters),
        expected_plan_hash=expected_plan_hash,
    )
    options = write_options({"hoodie.write.markers.type": "direct"})
    return get_service(name).run(table, request, options)


_SHORT = {
    "policy": "hoodie.clean.policy",
    "commits": "hoodie.clean.commits.retained",
    "hours": "hoodie.clean.hours.retained",
    "versions": "hoodie.clean.fileversions.retained",
    "retention_minutes": "sluice.reader.retention.minutes",
    "min_commits": "hoodie.keep.min.commits",
    "max_commits": "hoodie.keep.max.commits",
    "uncompacted_logs": "sluice.archive.uncompacted.logs",
    "beyond_savepoint": "hoodie.archive.beyond.savepoint",
}


def _dotted(parameters: dict[str, str]) -> dict[str, str]:
    return {_SHORT.get(key, key): value for key, value in parameters.items()}
