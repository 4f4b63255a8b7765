"""Upgrade a table of version 6 or 8 to version 9, which is what Sluice writes.

No data file changes. From version 8 only the properties change. From version 6 the timeline is
written in layout 2 next to the old one. Then one write of the properties switches over, and the old
active timeline is removed. A process that dies leaves one of the two versions, and the next run
continues. The archive of version 6 stays: it may contain more than the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from workers.clock import format_instant
from workers.concurrency.lock_takeover import table_lock
from workers.errors import InvalidInput
from workers.files.properties import drop_backup, load_properties, store_properties
from workers.options.option_values import parse_list
from workers.options.payloads import (
    LEGACY_PAYLOAD_KEY,
    MERGE_MODE_KEY,
    STRATEGY_KEYS,
    TABLE_PAYLOAD_KEY,
)
from workers.options.readability import HISTORY_KEY, INITIAL_KEY, LAYOUT_KEY, VERSION_KEY
from workers.options.table_keys import KEY_GENERATOR_KEY
from workers.options.table_options import TableConfig
from workers.options.write_options import WriteOptions
from workers.storage.base import FileInfo
from workers.table.table import Table, open_
from workers.table.writability import METADATA_KEY, METADATA_REFUSAL, WRITTEN_VERSION
from workers.table_layout import HISTORY
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.table_services.upgrade.old_logs import OldLogs, inspect_logs
from workers.table_services.upgrade.old_timeline import (
    ConvertedTimeline,
    convert_timeline,
    find_foreign_instants,
    list_old_files,
    remove_old,
    write_new_timeline,
)

ORDERING_KEY: Final = "hoodie.table.ordering.fields"
PARTITION_KEY: Final = "hoodie.table.partition.fields"
_PRECOMBINE_KEY: Final = "hoodie.table.precombine.field"
_PLACES: Final = {
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}
_FIELDS_KEY: Final = "hoodie.datasource.write.partitionpath.field"
_WARNING: Final = (
    "stop writers of other engines before, and start them again afterwards with a release that "
    "writes version 9 (Apache Hudi 1.1 or newer)"
)


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """Properties to set, and the keys of those to take away."""

    write: Mapping[str, str]
    remove: tuple[str, ...]

    def apply(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return all properties of the table after the change."""
        unchanged = {key: value for key, value in properties.items() if key not in self.remove}
        return {**unchanged, **self.write}


def plan_property_changes(
    properties: Mapping[str, str], config: TableConfig, *, partition_fields: str = ""
) -> PropertyChanges:
    """Return what has to be written and removed; both are empty for a table of version 9.

    The merge stays the one that readers of the table used so far. Version 9 names it by the mode
    alone, and stores the payload class as a legacy property.
    """
    if config.version == WRITTEN_VERSION:
        return PropertyChanges({}, ())
    new_properties = {
        VERSION_KEY: str(WRITTEN_VERSION),
        LAYOUT_KEY: "2",
        INITIAL_KEY: properties.get(INITIAL_KEY) or str(config.version),
        MERGE_MODE_KEY: config.merge_mode.value,
        **_PLACES,
    }
    if config.key_generator:
        new_properties[KEY_GENERATOR_KEY] = config.key_generator
    if config.ordering:
        new_properties[ORDERING_KEY] = ",".join(config.ordering)
    if payload := properties.get(TABLE_PAYLOAD_KEY):
        new_properties[LEGACY_PAYLOAD_KEY] = payload
    if partition_fields:
        new_properties[PARTITION_KEY] = partition_fields
    obsolete = (*STRATEGY_KEYS, TABLE_PAYLOAD_KEY, _PRECOMBINE_KEY)
    return PropertyChanges(
        {key: value for key, value in new_properties.items() if properties.get(key) != value},
        tuple(key for key in obsolete if key in properties),
    )


@dataclass(frozen=True, slots=True)
class _Proposal:
    plan: ServicePlan
    changes: PropertyChanges
    carried: ConvertedTimeline | None = None


class Upgrade:
    """The service `upgrade`."""

    name = "upgrade"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Plan the upgrade. Parameters: `hoodie.datasource.write.partitionpath.field`, needed for a
        table of version 6 with a custom key generator, whose properties do not contain the types of
        its fields.
        """
        return _build_proposal(_reopen(table), _parse_fields(parameters)).plan

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, at once and under the table lock. Raises LeaseLost when that was
        lost midway: the next run continues.
        """
        fields = _parse_fields(request.parameters)
        with table_lock(table, options).hold() as lease:
            table = _reopen(table)
            proposal = _build_proposal(table, fields)
            if table.config.version != WRITTEN_VERSION:
                proposal.plan.check(request)  # The rest of it was confirmed with the whole.
            if proposal.carried is not None:
                write_new_timeline(table, proposal.carried, lease.confirm, on_progress)
            if proposal.changes.write:
                lease.confirm()
                stored = load_properties(table.storage)
                properties = proposal.changes.apply(stored)
                # Every instant that begins from now on is younger than all existing ones.
                now = format_instant(table.ports.clock.now_ms())
                since = table.timeline().last_time or now
                properties = {**properties, HISTORY_KEY: since}
                store_properties(table.storage, properties, read=stored)
            if open_(table.storage, table.ports).config.has_old_logs:
                remove_old(table.storage, lease.confirm)
            drop_backup(table.storage)
        return ServiceOutcome(self.name, None, proposal.plan.summary, proposal.plan.figures)


def _reopen(table: Table) -> Table:
    """Open the table again: the handle may have been opened before another run."""
    return open_(table.storage, table.ports)


def _parse_fields(parameters: Mapping[str, str]) -> str:
    if unknown := set(parameters) - {_FIELDS_KEY}:
        raise InvalidInput("unknown parameter", key=min(unknown), known=[_FIELDS_KEY])
    return parameters.get(_FIELDS_KEY, "").strip()


def _build_proposal(table: Table, fields: str) -> _Proposal:
    properties = load_properties(table.storage)
    version = table.config.version
    if version == WRITTEN_VERSION:
        left = list_old_files(table.storage) if table.config.has_old_logs else []
        return _Proposal(_plan_tidying(left), PropertyChanges({}, ()))
    changes = plan_property_changes(properties, table.config, partition_fields=fields)
    summary = f"upgrade the table from version {version} to version {WRITTEN_VERSION}"
    if blockers := _find_blockers(table, properties, fields):
        plan = ServicePlan(Upgrade.name, summary, blockers=tuple(blockers))
        return _Proposal(plan, changes)
    carried, logs = None, OldLogs()
    if table.layout.version == 1:
        carried = convert_timeline(table)
        logs = inspect_logs(table, table.timeline(), carried.completed_at)
    plan = ServicePlan(
        service=Upgrade.name,
        summary=summary,
        items=(
            *_property_items(changes),
            *_timeline_items(carried),
        ),
        blockers=tuple(logs.blockers),
        warnings=(_WARNING,),
        figures={
            "instants": len(carried.completed) if carried else 0,
            "archived_instants": len(carried.archived) if carried else 0,
            "log_files_read": logs.files,
            "log_bytes_read": logs.bytes,
        },
    )
    return _Proposal(plan, changes, carried)


def _find_blockers(table: Table, properties: Mapping[str, str], fields: str) -> list[str]:
    blockers = []
    if properties.get(METADATA_KEY):
        blockers.append(METADATA_REFUSAL)
    blockers += [
        f"{instant.action} {instant.requested_at} is {instant.state}: let the engine that began it "
        "finish or roll it back"
        for instant in table.timeline().pending()
    ]
    if unknown := find_foreign_instants(table):
        blockers.append(
            f"another engine began an upgrade and moved {len(unknown)} instants, such as "
            f"{unknown[0]}; let it finish"
        )
    typed_fields = fields or properties.get(PARTITION_KEY, "")
    if table.config.key_generator.startswith("CUSTOM") and not _are_typed(typed_fields):
        blockers.append(
            f"the properties do not contain the types of the partition fields; give {_FIELDS_KEY}, "
            "such as place:SIMPLE,ts:TIMESTAMP"
        )
    names = tuple(field.partition(":")[0] for field in parse_list(fields))
    if fields and names != table.config.partition_by:
        blockers.append(f"{_FIELDS_KEY} names other fields than the table: {fields}")
    return blockers


def _are_typed(fields: str) -> bool:
    kinds = [field.partition(":")[2].upper() for field in parse_list(fields)]
    return all(kind in ("SIMPLE", "TIMESTAMP") for kind in kinds)


def _property_items(changes: PropertyChanges) -> list[PlanItem]:
    written = [
        PlanItem(key, "write", detail=value, digest=value) for key, value in changes.write.items()
    ]
    return written + [PlanItem(key, "remove", detail="property") for key in changes.remove]


def _timeline_items(carried: ConvertedTimeline | None) -> list[PlanItem]:
    if carried is None:
        return []
    archived = [PlanItem(HISTORY.path, "archive", detail=f"{len(carried.archived)} instants")]
    moved = [
        PlanItem(file.path, "lay", file.old.size, f"from {file.old.path}", file.old.path)
        for file in carried.files
    ]
    deleted = [PlanItem(file.old.path, "delete", file.old.size) for file in carried.files]
    return moved + (archived if carried.archived else []) + deleted


def _plan_tidying(files: list[FileInfo]) -> ServicePlan:
    if not files:
        return ServicePlan(Upgrade.name, "the table is of version 9 already", is_done=True)
    return ServicePlan(
        service=Upgrade.name,
        summary="remove the old timeline, of an upgrade that was interrupted",
        items=tuple(PlanItem(file.path, "delete", file.size) for file in files),
    )
