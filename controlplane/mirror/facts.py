"""What table storage says at one moment, as values. Reads only, and reads no more than changed.

Everything here is a function of storage alone, so that a mirror that was emptied comes back the
same (invariant MR4).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.mirror.conflict_facts import ConflictFacts, conflict_of_decision
from controlplane.mirror.conflict_facts import text as _text
from controlplane.mirror.group_facts import groups_of_commit
from controlplane.mirror.pending_facts import pending_operation
from controlplane.mirror.plan_facts import (
    completed_clean,
    completed_restore,
    completed_savepoint,
    pending_plan,
)
from controlplane.mirror.read_otherwise_facts import read_otherwise_of_commit
from controlplane.mirror.schema_verdicts import schema_verdict
from controlplane.mirror.sink_facts import sink_of_commit
from workers.clock import InstantTime
from workers.concurrency.heartbeat import Heartbeat
from workers.errors import LakehouseError, MalformedTable, NotFound, UnsupportedTable
from workers.json_text import read_json
from workers.markers.store import StoredNames, pending_marker_instants, read_names
from workers.sink.sink_commits import OFFSETS_KEY
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table_layout import DECISIONS
from workers.timeline import conflict_archive, decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.extra_metadata import PHASES_KEY, READ_OTHERWISE_KEY, read_phases
from workers.timeline.group_facts import GROUP_FACTS_KEY
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import (
    OPERATION_KEY,
    PROCESS_KEY,
    ROWS_KEY,
    SCHEMA_KEY,
    SCHEMA_RESOLUTION_KEY,
    STREAM_KEY,
    WRITER_KEY,
    CommitMetadata,
    read_commit_metadata,
    read_rollback_targets,
    read_rolled_back,
)
from workers.timeline.timeline import Timeline

FILE_GROUPS_KEPT = 100
PARTITIONS_KEPT = 100
MARKERS_SHOWN = 5
EXTRA_CHARS_MAX = 500
_SHOWN_ELSEWHERE = (
    SCHEMA_KEY,
    SCHEMA_RESOLUTION_KEY,
    GROUP_FACTS_KEY,
    OFFSETS_KEY,
    READ_OTHERWISE_KEY,
    PHASES_KEY,
)
_REWRITES = ("COMPACT", "CLUSTER", "LOG_COMPACT")
Key = tuple[str, str]
"""(requested time, action): what tells two instants of one table apart."""
CommitNote = Callable[[CommitMetadata], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantFacts:
    instant: Instant
    operation_type: str = ""
    writer: str = ""
    stream: str = ""
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    partitions: int | None = None
    operation_ref: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    file_times: Mapping[str, int] = field(default_factory=dict)
    """When the files of its states were made, epoch ms by state; empty in the history."""
    schema_json: str | None = None
    """Only of commits that can set the table's schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFacts:
    instant: InstantTime
    kind: str
    count: int
    sample: list[str]


@dataclass(frozen=True, slots=True)
class Listing:
    """The names that decide what must be read again."""

    timeline: Timeline
    decided: frozenset[InstantTime]
    undone: frozenset[InstantTime]
    lost: frozenset[InstantTime] = frozenset()
    """Archived instants whose conflict is kept."""
    history: int = 0
    """Another number each time that something was archived; 0 while nothing was."""

    @property
    def fingerprint(self) -> str:
        names = [
            *(
                f"{one.requested_at}.{one.action}.{one.state}.{one.completed_at}"
                for one in self.timeline.instants
            ),
            *sorted(self.decided),
            *sorted(self.undone),
            *sorted(self.lost),
            str(self.history),
        ]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()


def list_table(table: Table) -> Listing:
    names = [file.name for file in table.storage.list_files(DECISIONS.path)]
    timeline = table.timeline()
    return Listing(
        timeline=timeline,
        decided=frozenset(name for name in names if name.isdigit()),
        undone=frozenset(name.removesuffix(".undo") for name in names if name.endswith(".undo")),
        lost=frozenset(conflict_archive.list_instants(table.storage)),
        history=table.archive_mark(),
    )


def key_of(instant: Instant) -> Key:
    return instant.requested_at, instant.action.value


def instant_facts(
    table: Table, instant: Instant, beat: Heartbeat | None, note: CommitNote | None = None
) -> InstantFacts | None:
    """What one instant's file says; None when it went away since the listing. `note` is called
    with the metadata of a commit.

    Damaged content is a fact too: the instant is kept, with the damage in its metadata.
    """
    if not instant.is_completed:
        return _pending(table, instant, beat)
    content = _content(table, instant)
    return None if content is None else completed_facts(table, instant, content, note)


def completed_facts(
    table: Table, instant: Instant, content: bytes, note: CommitNote | None = None
) -> InstantFacts:
    """What the completed file, or the history's copy of it, says."""
    try:
        return _completed(table, instant, content, note)
    except (MalformedTable, UnsupportedTable) as error:
        return _damaged(instant, error)


def _content(table: Table, instant: Instant) -> bytes | None:
    """From the active timeline, else from the history."""
    try:
        return table.storage.read(table.layout.path(instant))
    except NotFound:
        archived = table.find_archived(instant.requested_at, instant.completed_at)
        return next((one.metadata for one in archived if one.instant == instant), None)


def _damaged(instant: Instant, error: LakehouseError) -> InstantFacts:
    return InstantFacts(instant=instant, metadata={"error": str(error)[:EXTRA_CHARS_MAX]})


def conflict_facts(storage: Storage, loser: InstantTime) -> ConflictFacts | None:
    """Why `loser` was refused; None when its decision is no refused commit."""
    path = decisions.get_decision_path(loser)
    decision_file = storage.info(path)
    decision = decisions.read(storage, loser) if decision_file else None
    if decision_file is None:
        kept = conflict_archive.read_kept(storage, loser)
        return conflict_of_decision(loser, *kept) if kept else None
    if not isinstance(decision, RollbackDecision) or not decision.conflict:
        return None
    return conflict_of_decision(loser, decision, decision_file.modified_ms)


def marker_names(storage: Storage) -> dict[InstantTime, StoredNames]:
    """Marker directories that exist, those of dead writers included."""
    return {instant: read_names(storage, instant) for instant in pending_marker_instants(storage)}


def marker_facts(by_instant: Mapping[InstantTime, StoredNames]) -> list[MarkerFacts]:
    return [
        MarkerFacts(instant=instant, kind=kind, count=len(names), sample=names[:MARKERS_SHOWN])
        for instant, stored in by_instant.items()
        for kind, names in sorted(_by_kind(stored.all()).items())
    ]


def normal_schema(schema_json: str) -> tuple[dict[str, Any], str]:
    """The schema without meta columns, and a fingerprint that ignores docs, record names and
    attribute order.

    Raises MalformedTable.
    """
    try:
        avro = read_json(schema_json)
        fields = [one for one in avro["fields"] if not one["name"].startswith("_hoodie_")]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("schema must be an Avro record", text=schema_json[:200]) from error
    avro = {**avro, "fields": fields}
    compared = json.dumps(_without_names(fields, is_field=True), sort_keys=True)
    return avro, hashlib.sha256(compared.encode()).hexdigest()


def _pending(table: Table, instant: Instant, beat: Heartbeat | None) -> InstantFacts:
    try:
        plan = pending_plan(table, instant)
    except (MalformedTable, UnsupportedTable) as error:
        return _damaged(instant, error)
    metadata = {"plan": plan} if plan else {}
    if beat is None or not beat.operation:
        operation_type = pending_operation(table, instant)
    else:
        operation_type = _text(beat.operation)
    if beat is None:
        return InstantFacts(instant=instant, metadata=metadata, operation_type=operation_type)
    return InstantFacts(
        instant=instant,
        metadata=metadata,
        operation_type=operation_type,
        writer=_text(beat.writer),
        stream=_text(beat.stream),
        operation_ref=_text(beat.operation_id),
    )


def _completed(
    table: Table, instant: Instant, content: bytes, note: CommitNote | None
) -> InstantFacts:
    if instant.action is Action.ROLLBACK:
        return InstantFacts(
            instant=instant,
            operation_type="ROLLBACK",
            metadata={
                "rolled_back": read_rollback_targets(content),
                "rolled_back_actions": read_rolled_back(content),
            },
        )
    if (read := _OF_SERVICES.get(instant.action)) is not None:
        small = read(content)
        return InstantFacts(
            instant=instant,
            operation_type=instant.action.value.upper(),
            files=small.get("files"),
            partitions=small.get("partitions"),
            metadata=small,
        )
    if not instant.action.writes_data:
        return InstantFacts(instant=instant)
    commit = read_commit_metadata(content)
    if note is not None:
        note(commit)
    extra = commit.extra_metadata
    stats = commit.stats
    return InstantFacts(
        instant=instant,
        operation_type=_text(commit.operation_type),
        writer=_text(extra.get(WRITER_KEY)),
        stream=_text(extra.get(STREAM_KEY)),
        rows=_rows(commit),
        files=len(stats),
        bytes=sum(stat.bytes for stat in stats),
        partitions=len({stat.partition_path for stat in stats}),
        operation_ref=_text(extra.get(OPERATION_KEY)),
        metadata=_small_metadata(commit),
        schema_json=commit.schema_json if _sets_schema(table, instant, commit) else None,
    )


_OF_SERVICES: Mapping[Action, Callable[[bytes], dict[str, Any]]] = {
    Action.CLEAN: completed_clean,
    Action.SAVEPOINT: completed_savepoint,
    Action.RESTORE: completed_restore,
}


def _small_metadata(commit: CommitMetadata) -> dict[str, Any]:
    stats = commit.stats
    groups = sorted(commit.file_groups)
    extra = commit.extra_metadata
    shown = {key: _text(value) for key, value in extra.items() if key not in _SHOWN_ELSEWHERE}
    return {
        "inserts": sum(stat.num_inserts for stat in stats),
        "updates": sum(stat.num_updates for stat in stats),
        "deletes": sum(stat.num_deletes for stat in stats),
        "writes": sum(stat.num_writes for stat in stats),
        "log_files": sum(stat.is_log for stat in stats),
        "base_files": sum(not stat.is_log for stat in stats),
        "file_groups": [list(group) for group in groups[:FILE_GROUPS_KEPT]],
        "file_group_count": len(groups),
        "partition_bytes": _partition_bytes(commit),
        "extra": shown,
        "process": _process(extra.get(PROCESS_KEY, "")),
        "phases": read_phases(extra.get(PHASES_KEY)),
        **groups_of_commit(extra.get(GROUP_FACTS_KEY)),
        **read_otherwise_of_commit(extra),
        **sink_of_commit(extra),
        **schema_verdict(extra.get(SCHEMA_RESOLUTION_KEY)),
    }


def _process(process_json: str) -> dict[str, Any]:
    """Host, pid and mode of the writer; empty where it does not say."""
    try:
        process = read_json(process_json)
    except ValueError:
        return {}
    if not isinstance(process, dict):
        return {}
    pid = process.get("pid")
    return {
        "host": _text(process.get("host")),
        "pid": pid if type(pid) is int else None,
        "mode": _text(process.get("mode")),
    }


def _partition_bytes(commit: CommitMetadata) -> dict[str, int]:
    """Bytes written by partition, the largest."""
    sums: Counter[str] = Counter()
    for stat in commit.stats:
        sums[_text(stat.partition_path)] += stat.bytes
    return dict(sums.most_common(PARTITIONS_KEPT))


def _rows(commit: CommitMetadata) -> int:
    """Rows that it changed. Apache Hudi counts those of the same file as written, too, that it
    copied; a rewrite changes none, and all that it wrote count.
    """
    given = commit.extra_metadata.get(ROWS_KEY, "")
    if given.isdigit():
        return int(given)
    stats = commit.stats
    changed = sum(stat.num_inserts + stat.num_updates + stat.num_deletes for stat in stats)
    if changed and commit.operation_type not in _REWRITES:
        return changed
    return sum(stat.num_writes for stat in stats)


def _sets_schema(table: Table, instant: Instant, commit: CommitMetadata) -> bool:
    """Compactions and clusterings repeat a schema, they never set one (requirements 2.1)."""
    is_compaction = table.config.is_merge_on_read and instant.action is Action.COMMIT
    return not (is_compaction or commit.compacted or commit.operation_type == "CLUSTER")


def _by_kind(names: Collection[str]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name in sorted(names):
        path, _, kind = name.rpartition(".marker.")
        kinds.setdefault(kind, []).append(path)
    return kinds


def _without_names(schema: Any, *, is_field: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without_names(one, is_field=is_field) for one in schema]
    if not isinstance(schema, dict):
        return schema
    ignored = {"doc", "namespace", "aliases"} | (set() if is_field else {"name"})
    children: dict[str, Callable[[Any], Any]] = {
        "fields": lambda value: _without_names(value, is_field=True),
        "type": _without_names,
        "items": _without_names,
        "values": _without_names,
    }
    return {
        key: children[key](value) if key in children else value
        for key, value in schema.items()
        if key not in ignored
    }
