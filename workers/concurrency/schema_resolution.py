"""The schema that a commit publishes, or the conflict that prevents it: RFC-82 applied to a real
timeline, under the table lock.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from typing import Any

from workers.clock import InstantTime
from workers.concurrency.conflicts import (
    Conflict,
    SchemaDifference,
    SchemaTriple,
    find_concurrent_commits,
)
from workers.concurrency.ordered_deletes import find_other_ordering_type, find_widened_type
from workers.errors import TableChanged
from workers.options.group_types import check_ordering_columns
from workers.options.write_options import WriteOptions
from workers.schema.conflict import Party, format_advice, format_conflict, resolve
from workers.schema.equality import canonical_text, equal
from workers.schema.table_schema import TableSchema
from workers.schema.three_way import Clash
from workers.schema.verdict import SchemaConflict, SchemaVerdict
from workers.table.schema_history import SchemaVersion, find_schema_at, read_instant
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import WRITER_KEY
from workers.timeline.timeline import Timeline

_CHANGES_KEPT = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaAtStart:
    """The schema with which the transaction began, and its writer schema."""

    instant: InstantTime
    timeline: Timeline
    version: SchemaVersion | None
    writer: str
    schema: TableSchema
    """The writer schema."""
    written: frozenset[str] | None
    """Columns into which its files bring values; None without files."""
    deletes_only: bool
    logs: tuple[str, ...] = ()
    """Log files that it wrote."""


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """The schema that a commit may publish, and why."""

    schema: TableSchema
    record: str
    """What the commit keeps of the verdict, as JSON."""


def resolve_commit_schema(
    table: Table, options: WriteOptions, start: SchemaAtStart, timeline: Timeline
) -> ResolvedSchema | Conflict:
    """Resolve the writer schema against the table's schema on `timeline`, which must be published.
    Raises MalformedTable for a commit that cannot be read, and TableChanged or InvalidInput for
    columns that conflict with groups that were declared since.
    """
    now = find_schema_at(table, timeline)
    before = start.version
    verdict = resolve(
        before.schema if before else None,
        now.schema if now else None,
        None if start.deletes_only else start.schema,
        same_instant=before is not None and now is not None and before.instant == now.instant,
        enabled=options.resolves_schema_conflicts,
        deletes_only=start.deletes_only,
        strategy=options.schema_strategy,
        pinned=table.config.pinned_columns,
        ordering=table.config.ordering_columns,
        written=start.written,
    )
    if isinstance(verdict, SchemaConflict):
        rival = _find_rival(table, start, timeline)
        assert rival is not None, "a schema conflict needs a rival"
        return _build_conflict(table, start, verdict, rival)
    if verdict.warning:
        _log.warning("%s: writer=%s instant=%s", verdict.warning, start.writer, start.instant)
    schema = verdict.schema or start.schema
    if (clash := _find_incomparable_deletes(table, start, timeline, schema)) is not None:
        rival, reason = clash
        return _build_conflict(
            table, start, _build_ordering_conflict(table, start, verdict, reason), rival
        )
    if not start.deletes_only:
        _check_groups_allow(table, start, schema)
    return ResolvedSchema(schema, json.dumps(_build_record(start, now, verdict, schema)))


def _find_incomparable_deletes(
    table: Table, start: SchemaAtStart, timeline: Timeline, committed: TableSchema
) -> tuple[Instant, str] | None:
    """Find the commit that widened the ordering column while this write wrote deletes, or that
    wrote deletes while this one widens it. Return it with the reason; None if there is none.
    """
    storage = table.storage
    wider = find_widened_type(table, start.schema, committed)
    if wider is not None and find_other_ordering_type(storage, start.logs, wider) is not None:
        widening = _find_rival(table, start, timeline)
        assert widening is not None, "no commit widened it"
        return widening, "was widened, and this write's deletes tell ages of the older type"
    before = start.version.schema if start.version else None
    if (wider := find_widened_type(table, before, committed)) is None:
        return None
    for rival in find_concurrent_commits(start.timeline.instants, timeline.instants, start.instant):
        logs = (stat.path for stat in read_instant(table, rival).stats if stat.is_log)
        if find_other_ordering_type(storage, logs, wider) is not None:
            return rival, "is widened here, and there deletes tell ages of the older type"
    return None


def _build_ordering_conflict(
    table: Table, start: SchemaAtStart, verdict: SchemaVerdict, reason: str
) -> SchemaConflict:
    before = start.version.schema if start.version else None
    clash = Clash(str(table.config.ordering_field), reason)
    return SchemaConflict(
        case=verdict.case,
        at_start=before,
        at_validation=verdict.schema or start.schema,
        writer=start.schema,
        reason="Apache Hudi does not compare the ages of these deletes with those of rows",
        strategy=verdict.strategy,
        scenario=verdict.scenario,
        changes=verdict.changes,
        clashes=(clash,),
    )


def _check_groups_allow(table: Table, start: SchemaAtStart, committed: TableSchema) -> None:
    """Check that groups that were declared since the table was opened allow the columns of this
    write. Requires the table lock, under which groups are declared.

    Raises TableChanged, InvalidInput.
    """
    now, at_open = table.load_groups(), table.config.groups
    if now is None or at_open is None or now == at_open:
        return
    names = set(start.schema.field_names)
    if joined := sorted((now.grouped - at_open.grouped) & names):
        raise TableChanged(
            "columns joined a group since the table was opened; open it again, and write them with "
            "what orders their group",
            columns=joined,
            table=table.storage.location,
        )
    check_ordering_columns(now, committed.field_names)


def _find_rival(table: Table, start: SchemaAtStart, timeline: Timeline) -> Instant | None:
    """Return the first commit since the start that changed the schema. Later ones only carry it."""
    before = start.version.schema if start.version else None
    for rival in find_concurrent_commits(start.timeline.instants, timeline.instants, start.instant):
        text = read_instant(table, rival).schema_json
        if text and (before is None or not equal(before, TableSchema.from_avro_json(text))):
            return rival
    # The change was rolled back or is older than the start: the newest commit with a schema
    # must do.
    newest = find_schema_at(table, timeline)
    return timeline.find(newest.instant) if newest else None


def _build_conflict(
    table: Table, start: SchemaAtStart, conflict: SchemaConflict, rival: Instant
) -> Conflict:
    rival_writer = read_instant(table, rival).extra_metadata.get(WRITER_KEY)
    ours, theirs = Party(start.instant, start.writer), Party(rival.requested_at, rival_writer)
    return Conflict(
        kind="schema",
        message=format_conflict(conflict, ours=ours, rival=theirs),
        rival=rival.requested_at,
        rival_writer=rival_writer,
        writer=start.writer,
        instant=start.instant,
        schemas=SchemaTriple(
            at_start=_to_json(conflict.at_start),
            at_validation=_to_json(conflict.at_validation),
            writer=_to_json(conflict.writer),
            strategy=conflict.strategy,
            scenario=conflict.scenario,
            reason=conflict.reason,
            advice=format_advice(conflict),
            differences=tuple(
                SchemaDifference(change.path, change.kind, change.by, change.before, change.after)
                for change in conflict.changes
            ),
            clashes=tuple((clash.path, clash.reason) for clash in conflict.clashes),
        ),
        case=conflict.case,
    )


def _to_json(schema: TableSchema | None) -> str | None:
    return schema.avro_json if schema else None


def _build_record(
    start: SchemaAtStart, now: SchemaVersion | None, verdict: SchemaVerdict, schema: TableSchema
) -> dict[str, Any]:
    """Return instants and fingerprints instead of schemas: the commits of the instants contain
    those.
    """
    record: dict[str, Any] = {
        "mode": verdict.strategy,
        "case": verdict.case,
        "scenario": verdict.scenario,
        "start_instant": start.version.instant if start.version else None,
        "validation_instant": now.instant if now else None,
        "writer_fingerprint": _fingerprint(start.schema),
        "schema_fingerprint": _fingerprint(schema),
        "fields": [asdict(change) for change in verdict.changes[:_CHANGES_KEPT]],
    }
    if len(verdict.changes) > _CHANGES_KEPT:
        record["fields_left_out"] = len(verdict.changes) - _CHANGES_KEPT
    if verdict.warning:
        record["warning"] = verdict.warning
    return record


def _fingerprint(schema: TableSchema) -> str:
    """Return a text that is equal exactly for equal schemas."""
    return hashlib.sha256(canonical_text(schema).encode()).hexdigest()[:16]
