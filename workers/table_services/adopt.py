"""Adopt a table that another engine created, so that Sluice can write into it together with that
engine.

Hudi stores neither the index nor the number of buckets with a table, and its timeline uses the
writers' own time zone. Adopting derives the placement of keys from the rows, and writes it into the
table's properties, under Hudi's names. No file and no instant changes, and Hudi works as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from workers.clock import format_instant
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.errors import InvalidInput
from workers.files.properties import drop_backup, load_properties, store_properties
from workers.options.index_kind import (
    INDEX_KEY,
    INDEX_OPTIONS,
    IndexKind,
    find_index,
    index_options,
    moves_rows,
)
from workers.options.option_values import integer, parse_list
from workers.options.readability import ADOPTED_KEY, HISTORY_KEY
from workers.options.table_keys import BUCKETS_KEY, HASH_FIELD_KEY
from workers.options.table_options import config_from_properties
from workers.options.time_partitions import TIME_KEYS, time_rule
from workers.options.write_options import WriteOptions
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table.writability import TIME_ZONE_KEY, find_lasting_refusal
from workers.table_layout import BUCKET_INDEX
from workers.table_services.placement import (
    Placement,
    PlacementMismatch,
    observe_placement,
    observe_spelling,
)
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline.timeline import Timeline

_BUCKETS_MAX: Final = 100_000
_RESTART: Final = (
    "start writers of other engines that run now again: they read the properties at their start"
)
_SAME_BUCKETS: Final = (
    "other engines must keep their metadata table off and write with the same number of buckets"
)
_SAME_INDEX: Final = (
    "other engines must keep their metadata table off and write with the same index: what they "
    "insert without looking keys up may exist twice"
)


@dataclass(frozen=True, slots=True)
class _Adoption:
    buckets: int | None
    hash_fields: tuple[str, ...]
    index: Mapping[str, str]
    """The options of the table's index, its kind first."""
    times: Mapping[str, str]
    """How partitions are made of times, where Hudi does not keep it: of custom key generators."""

    @property
    def kind(self) -> IndexKind:
        return IndexKind(self.index[INDEX_KEY])

    def with_times(self, table: Table, properties: Mapping[str, str]) -> Table:
        if not self.times:
            return table
        return replace(table, config=config_from_properties({**properties, **self.times}))


class Adopt:
    """The service `adopt`."""

    name = "adopt"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Plan the adoption. Parameters: `hoodie.index.type` and its like, needed if it is not the
        bucket index; `hoodie.bucket.index.num.buckets`, needed only if the rows allow several
        numbers; `hoodie.bucket.index.hash.field`, needed if only some fields of the key are hashed;
        `hoodie.keygen.timebased.*`, needed if Hudi's writers alone have them.
        """
        return _build_proposal(table, table.timeline(), _parse_parameters(table, parameters))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, at once and under the table lock: only properties of the table are
        written.

        Raises InvalidInput for parameters, LeaseLost, and as `Service.run`.
        """
        adoption = _parse_parameters(table, request.parameters)
        with table_lock(table, options).hold() as lease:
            plan = _build_proposal(table, load_published_timeline(table), adoption)
            plan.check(request)
            if not plan.is_done:
                changed = {item.what: item.detail for item in plan.items}
                now = format_instant(table.ports.clock.now_ms())
                changed |= {ADOPTED_KEY: now, HISTORY_KEY: now}
                lease.confirm()
                stored = load_properties(table.storage)
                store_properties(table.storage, {**stored, **changed}, read=stored)
            drop_backup(table.storage)
        return ServiceOutcome(self.name, None, plan.summary, plan.figures)


def _parse_parameters(table: Table, parameters: Mapping[str, str]) -> _Adoption:
    valid_keys = (BUCKETS_KEY, HASH_FIELD_KEY, *INDEX_OPTIONS, *TIME_KEYS)
    for key in parameters:
        if key not in valid_keys:
            raise InvalidInput("unknown parameter", key=key, known=valid_keys)
    fields = parse_list(parameters.get(HASH_FIELD_KEY))
    if not set(fields) <= set(table.config.record_key):
        raise InvalidInput(
            "only fields of the record key choose the bucket",
            key=HASH_FIELD_KEY,
            given=fields,
            record_key=table.config.record_key,
        )
    times = {key: parameters[key] for key in TIME_KEYS if parameters.get(key)}
    if times:
        time_rule(times)
    index = _index(table, parameters)
    if IndexKind(index[INDEX_KEY]).looks_up and (parameters.get(BUCKETS_KEY) or fields):
        raise InvalidInput("only the bucket index has buckets", index=index[INDEX_KEY])
    if not parameters.get(BUCKETS_KEY):
        return _Adoption(None, fields, index, times)
    buckets = integer(parameters, BUCKETS_KEY, least=1, most=_BUCKETS_MAX)
    return _Adoption(buckets, fields, index, times)


def _index(table: Table, parameters: Mapping[str, str]) -> dict[str, str]:
    """The index that was asked for, else the one that the table's properties name. Raises
    InvalidInput.
    """
    index_parameters = {key: parameters.get(key, "") for key in INDEX_OPTIONS}
    if not any(index_parameters.values()):
        properties = load_properties(table.storage)
        # An index that is permanently rejected stays one; a blocker has the reason.
        kind = find_index(properties) or IndexKind.BUCKET
        index_parameters[INDEX_KEY] = kind.value
        if kind.is_global:
            index_parameters[kind.moves_key] = properties.get(kind.moves_key, "")
    return index_options(index_parameters)


def _build_proposal(table: Table, timeline: Timeline, adoption: _Adoption) -> ServicePlan:
    properties = load_properties(table.storage)
    if table.write_refusal is None and (table.config.looks_up or properties.get(BUCKETS_KEY)):
        return ServicePlan(Adopt.name, "Sluice writes into this table already", is_done=True)
    table = adoption.with_times(table, properties)
    blockers = _find_blockers(table, timeline, {**properties, **adoption.times})
    if blockers:
        return ServicePlan(Adopt.name, "adopt the table", blockers=tuple(blockers))
    new_properties = {**adoption.index, TIME_ZONE_KEY: "UTC", **adoption.times}
    try:
        placement = _placement(table, timeline, adoption)
        if not adoption.kind.looks_up:
            new_properties[BUCKETS_KEY] = str(placement.buckets(adoption.buckets))
            new_properties[HASH_FIELD_KEY] = ",".join(
                adoption.hash_fields or table.config.record_key
            )
    except PlacementMismatch as reason:
        return ServicePlan(Adopt.name, "adopt the table", blockers=(str(reason),))
    buckets = new_properties.get(BUCKETS_KEY)
    by = f"{buckets} buckets per partition" if buckets else f"its index {adoption.kind}"
    return ServicePlan(
        service=Adopt.name,
        summary=f"write into this table with {by}",
        items=tuple(
            PlanItem(key, "write", detail=value, digest=value)
            for key, value in new_properties.items()
            if properties.get(key) != value
        ),
        warnings=(_RESTART, _SAME_INDEX if adoption.kind.looks_up else _SAME_BUCKETS),
        figures={
            **({"buckets": int(buckets)} if buckets else {}),
            "rows_read": placement.rows,
            "file_groups_read": placement.slices,
        },
    )


def _find_blockers(table: Table, timeline: Timeline, properties: Mapping[str, str]) -> list[str]:
    blockers = []
    if lasting := find_lasting_refusal(properties, table.config):
        blockers.append(lasting)
    blockers += [
        f"{instant.action} {instant.requested_at} is {instant.state}: let the engine that began it "
        "finish or roll it back"
        for instant in timeline.pending()
    ]
    now = format_instant(table.ports.clock.now_ms())
    if timeline.last_time is not None and timeline.last_time > now:
        blockers.append(
            f"the newest instant, {timeline.last_time}, is in the future of UTC ({now}): the "
            "timeline is in a time zone that is ahead; adopt the table when UTC has passed it"
        )
    if table.storage.list_tree(BUCKET_INDEX.path):
        blockers.append(
            "the table has consistent hashing or buckets per partition, which are not written"
        )
    return blockers


def _placement(table: Table, timeline: Timeline, adoption: _Adoption) -> Placement:
    schema = load_schema(table, timeline)
    if schema is None:
        return Placement()
    view = FileSystemView.load(table, timeline=timeline)
    if adoption.kind.looks_up:
        # Rows that stay in their first partition need not match their partition columns.
        stays = adoption.kind.is_global and not moves_rows(adoption.index)
        return observe_spelling(table, view, schema, checks_partitions=not stays)
    return observe_placement(table, view, schema, adoption.hash_fields)
