"""Did the service do what its plan said? Asked of the mirror and of storage, not of the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.operations.selectors import OperationDetail
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import LakehouseError
from workers.files.names import parse_base_file, parse_log_file
from workers.files.properties import load_properties

ITEMS_CHECKED_MAX = 2000
LEFT_SHOWN_MAX = 20
_NO_INSTANT = frozenset({"adopt", "archive", "delete_savepoint", "upgrade"})
"""They leave nothing of their own on the timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProof:
    is_synced: bool
    """Whether the mirror has read storage since the service ended."""
    instant: InstantTime | None
    is_on_timeline: bool | None
    """Whether its instant is completed there; None for a service that leaves none."""
    items_checked: int
    left_count: int | None
    """Planned items that storage or the mirror still shows as they were; None when it did not
    answer.
    """
    left: tuple[str, ...]
    """The first of them."""

    @property
    def is_proved(self) -> bool:
        return self.is_synced and self.is_on_timeline is not False and self.left_count == 0


def service_proof(table: Table, operation: OperationDetail) -> ServiceProof:
    """What is left of a service's plan. At most four queries, and one look at storage per planned
    file.
    """
    service, instant = operation.row.service, operation.row.instant
    ended = operation.row.finished_at or timezone.now()
    is_synced = table.synced_at is not None and table.synced_at > ended
    items: list[Mapping[str, Any]] = list(operation.plan.get("items", []))[:ITEMS_CHECKED_MAX]
    left = _left(table, service, instant, items)
    is_here = None
    if service not in _NO_INSTANT:
        is_here = InstantRecord.objects.filter(
            table=table, requested_at=instant, state="completed"
        ).exists()
    return ServiceProof(
        is_synced=is_synced,
        instant=instant or None,
        is_on_timeline=is_here,
        items_checked=len(items),
        left_count=None if left is None else len(left),
        left=tuple((left or [])[:LEFT_SHOWN_MAX]),
    )


def _left(
    table: Table, service: str, instant: InstantTime, items: list[Mapping[str, Any]]
) -> list[str] | None:
    by_effect: dict[str, list[str]] = {}
    for item in items:
        by_effect.setdefault(str(item["effect"]), []).append(str(item["what"]))
    found: list[str] = []
    for effect, names in by_effect.items():
        check = _CHECKS.get((service, effect))
        if check is None:
            continue
        left = check(table, instant, names)
        if left is None:
            return None
        found += left
    return found


def _files_left(table: Table, _: InstantTime, paths: list[str]) -> list[str] | None:
    try:
        storage = storage_of(table)
        return [path for path in paths if storage.info(path) is not None]
    except (LakehouseError, ControlPlaneError, OSError):
        return None


def _properties_left(table: Table, _: InstantTime, keys: list[str]) -> list[str] | None:
    try:
        standing = load_properties(storage_of(table))
    except (LakehouseError, ControlPlaneError, OSError):
        return None
    return [key for key in keys if not standing.get(key)]


def _instants_left(table: Table, _: InstantTime, instants: list[str]) -> list[str]:
    return _known(table, instants, is_archived=False)


def _savepoints_left(table: Table, _: InstantTime, instants: list[str]) -> list[str]:
    return _known(table, instants, action="savepoint")


def _known(table: Table, instants: Iterable[str], **filters: Any) -> list[str]:
    asked = [one for one in instants if INSTANT_TIME.match(one)]
    rows = InstantRecord.objects.filter(table=table, requested_at__in=asked, **filters)
    if "action" not in filters:
        rows = rows.exclude(action="savepoint")  # It has its commit's time.
    return sorted(set(rows.values_list("requested_at", flat=True)))


def _groups_not_rewritten(table: Table, instant: InstantTime, names: list[str]) -> list[str]:
    """Compacted groups have a base file of the compaction, or of a later one."""
    since = FileGroupRecord.objects.filter(table=table, base_instant__gte=instant)
    done = {_name(*key) for key in since.values_list("partition", "file_id")}
    standing = _standing(table) - done
    return [name for name in names if name in standing]


def _groups_not_replaced(table: Table, _: InstantTime, names: list[str]) -> list[str]:
    standing = _standing(table)
    return [name for name in names if name in standing]


def _files_not_replaced(table: Table, instant: InstantTime, paths: list[str]) -> list[str]:
    """Emptied partitions keep their files until a clean, in file groups that are replaced."""
    groups = dict.fromkeys(name for path in paths if (name := _group_of(path)))
    return _groups_not_replaced(table, instant, list(groups))


def _standing(table: Table) -> set[str]:
    groups = FileGroupRecord.objects.filter(table=table, is_replaced=False)
    return {_name(*key) for key in groups.values_list("partition", "file_id")}


def _group_of(path: str) -> str | None:
    partition, _, file = path.rpartition("/")
    parsed = parse_base_file(file) or parse_log_file(file)
    return _name(partition, parsed.file_id) if parsed else None


def _name(partition: str, file_id: str) -> str:
    return f"{partition}/{file_id}" if partition else file_id


_Check = Callable[[Table, InstantTime, list[str]], list[str] | None]
_CHECKS: Mapping[tuple[str, str], _Check] = {
    ("adopt", "write"): _properties_left,
    ("upgrade", "write"): _properties_left,
    ("upgrade", "delete"): _files_left,
    ("clean", "delete"): _files_left,
    ("restore", "delete"): _files_left,
    ("restore", "undo"): _instants_left,
    ("archive", "archive"): _instants_left,
    ("archive", "delete"): _files_left,
    ("delete_savepoint", "delete"): _savepoints_left,
    ("compaction", "merge"): _groups_not_rewritten,
    ("clustering", "rewrite"): _groups_not_replaced,
    ("delete_partition", "delete"): _files_not_replaced,
    ("insert_overwrite", "delete"): _files_not_replaced,
    ("insert_overwrite_table", "delete"): _files_not_replaced,
}
