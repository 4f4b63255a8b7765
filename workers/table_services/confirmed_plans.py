"""Confirmed plans of services that delete without an instant of their own. Each is durable before
its first effect, so a run that is sent again after a death continues with the rest.
"""

from __future__ import annotations

import json

from workers.errors import MalformedTable, NotFound
from workers.json_text import read_json
from workers.storage.base import Storage
from workers.table_layout import REPAIR
from workers.table_services.service import ServicePlan, ServiceRequest


def check_or_resume(storage: Storage, plan: ServicePlan, request: ServiceRequest) -> None:
    """Accept `plan` as confirmed, or as the rest of a kept plan that was. Raises PlanChanged,
    ServiceRefused, MalformedTable.
    """
    confirmed = request.expected_plan_hash
    if confirmed is None or not _is_rest(plan, _read_plan(storage, confirmed)):
        plan.check(request)


def store_plan(storage: Storage, plan: ServicePlan, request: ServiceRequest) -> None:
    """Write the plan down under the hash that was confirmed."""
    path = _path(request.expected_plan_hash or plan.plan_hash)
    content = json.dumps([item.what for item in plan.items]).encode()
    try:
        storage.put_if_absent(path, content)
    except NotFound:  # Another run ended at this moment and deleted the directory.
        storage.put_if_absent(path, content)


def delete_plans(storage: Storage) -> None:
    """Delete every kept plan. A run that still needs one is refused and planned again."""
    storage.delete_tree(REPAIR.path)


def _read_plan(storage: Storage, plan_hash: str) -> frozenset[str]:
    """Return what the kept plan of this hash names; nothing without one. Raises MalformedTable."""
    if not plan_hash.isalnum():
        return frozenset()
    path = _path(plan_hash)
    try:
        return frozenset(map(str, read_json(storage.read(path))))
    except NotFound:
        return frozenset()
    except ValueError as error:
        raise MalformedTable("a kept plan must be valid JSON", path=path) from error


def _path(plan_hash: str) -> str:
    return f"{REPAIR.path}/{plan_hash}.json"


def _is_rest(plan: ServicePlan, confirmed: frozenset[str]) -> bool:
    return not plan.blockers and not plan.is_empty and {i.what for i in plan.items} <= confirmed
