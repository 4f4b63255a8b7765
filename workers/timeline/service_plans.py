"""The plans of compaction and clustering as values: the file slices to rewrite, and how.

A compaction plan names files without their directory, a clustering plan by full URI (format pages
3.4, 3.5). Only partition and file name of both are trusted, and each name must follow the grammar:
a planted plan must not reach outside its file group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.clock import InstantTime
from workers.errors import InvalidInput, MalformedTable, UnsupportedTable
from workers.files.avro_container import decode_record, encode_record
from workers.files.names import check_partition_path, parse_base_file, parse_log_file
from workers.storage.base import join
from workers.timeline.plan_schemas import COMPACTION_PLAN, REQUESTED_REPLACE

FileGroupKey = tuple[str, str]
"""(partition, file id)."""

_COMPACTION_VERSION = 2
_SINGLE_FILE_SORT = (
    "org.apache.hudi.client.clustering.run.strategy.SparkSingleFileSortExecutionStrategy"
)


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """A file slice as it was when the plan was made. Paths are relative to the table."""

    partition: str
    file_id: str
    base_instant: InstantTime
    """For a slice of logs alone: the request instant of its first log."""
    base_file: str | None
    log_files: tuple[str, ...]
    """In the order of merging."""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> FileGroupKey:
        """(partition, file id)."""
        return self.partition, self.file_id

    @property
    def files(self) -> tuple[str, ...]:
        """The base file first, then the logs in the order of merging; relative to the table."""
        return ((self.base_file,) if self.base_file else ()) + self.log_files


@dataclass(frozen=True, slots=True)
class CompactionPlanFile:
    """The content of a compaction's requested file (format page 3.5)."""

    slices: tuple[PlannedSlice, ...]
    extra: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Encode as Avro; a slice's files are named without their directory, as in Hudi."""
        operations = [
            {
                "baseInstantTime": file_slice.base_instant,
                "deltaFilePaths": [_name(path) for path in file_slice.log_files],
                "dataFilePath": _name(file_slice.base_file) if file_slice.base_file else None,
                "fileId": file_slice.file_id,
                "partitionPath": file_slice.partition,
                "metrics": dict(file_slice.metrics),
            }
            for file_slice in self.slices
        ]
        plan = {
            "operations": operations,
            "extraMetadata": dict(self.extra),
            "version": _COMPACTION_VERSION,
            "preserveHoodieMetadata": True,
        }
        return encode_record(COMPACTION_PLAN, plan)


@dataclass(frozen=True, slots=True)
class ClusteringPlanFile:
    """The content of a clustering's requested file (format page 3.4)."""

    slices: tuple[PlannedSlice, ...]
    """Each becomes one new file group."""
    strategy: Mapping[str, str] = field(default_factory=dict)
    """`hoodie.…` settings for the order of rows."""
    extra: Mapping[str, str] = field(default_factory=dict)

    def encode(self, location: str) -> bytes:
        """Encode as Avro; paths become absolute below `location`."""
        groups = [
            {"slices": [_slice_record(file_slice, location)], "metrics": dict(file_slice.metrics)}
            for file_slice in self.slices
        ]
        strategy = {"strategyClassName": _SINGLE_FILE_SORT, "strategyParams": dict(self.strategy)}
        plan = {
            "inputGroups": groups,
            "strategy": strategy,
            "extraMetadata": {},
            "preserveHoodieMetadata": True,
        }
        requested = {
            "operationType": "CLUSTER",
            "clusteringPlan": plan,
            "extraMetadata": dict(self.extra),
        }
        return encode_record(REQUESTED_REPLACE, requested)


def _slice_record(planned: PlannedSlice, location: str) -> dict[str, Any]:
    root = location if "://" in location else f"file:{location}"
    return {
        "dataFilePath": f"{root}/{planned.base_file}" if planned.base_file else "",
        "deltaFilePaths": [f"{root}/{path}" for path in planned.log_files],
        "fileId": planned.file_id,
        "partitionPath": planned.partition,
        "bootstrapFilePath": "",
    }


def read_compaction_plan(content: bytes) -> CompactionPlanFile:
    """Read the plan in a requested compaction's file. Raises MalformedTable, UnsupportedTable."""
    record = decode_record(content)
    slices = tuple(_slice(operation) for operation in record.get("operations") or [])
    return CompactionPlanFile(slices, record.get("extraMetadata") or {})


def read_clustering_plan(content: bytes) -> ClusteringPlanFile | None:
    """Read the plan in a requested replacecommit's file; None when that is not a clustering.

    A foreign plan may combine several slices in one group; here each slice stays alone. Raises
    MalformedTable, UnsupportedTable.
    """
    record = decode_record(content)
    plan = record.get("clusteringPlan")
    if plan is None:
        return None
    slices = tuple(
        _slice(slice_record)
        for group in plan.get("inputGroups") or []
        for slice_record in group.get("slices") or []
    )
    strategy = (plan.get("strategy") or {}).get("strategyParams") or {}
    return ClusteringPlanFile(slices, strategy, record.get("extraMetadata") or {})


def _slice(record: Mapping[str, Any]) -> PlannedSlice:
    """Build a slice from a compaction operation or a clustering slice: the required fields have the
    same names.
    """
    if record.get("bootstrapFilePath"):
        raise UnsupportedTable(
            "plan names a bootstrap file", bootstrap_file=record["bootstrapFilePath"]
        )
    partition, file_id = record.get("partitionPath") or "", record.get("fileId") or ""
    base = record.get("dataFilePath")
    logs = tuple(_in_group(path, partition, file_id) for path in record.get("deltaFilePaths") or [])
    base_file = _in_group(base, partition, file_id) if base else None
    if base_file is None and not logs:
        raise MalformedTable("plan names a file slice without files", file_id=file_id)
    return PlannedSlice(
        partition=partition,
        file_id=file_id,
        base_instant=record.get("baseInstantTime") or _instant(base_file or logs[0]),
        base_file=base_file,
        log_files=logs,
        metrics=record.get("metrics") or {},
    )


def _in_group(text: str, partition: str, file_id: str) -> str:
    """Return the file's path in the table, ignoring the directory in the plan."""
    name = _name(text)
    parsed = parse_base_file(name) or parse_log_file(name)
    try:
        check_partition_path(partition, url_encode=True)
    except InvalidInput as error:
        raise MalformedTable("plan names a strange partition", partition=partition) from error
    if parsed is None or parsed.file_id != file_id:
        raise MalformedTable("plan names a file of another group", path=text, file_id=file_id)
    return join(partition, name)


def _instant(path: str) -> InstantTime:
    parsed = parse_base_file(_name(path)) or parse_log_file(_name(path))
    assert parsed is not None, path
    return parsed.instant


def _name(path: str) -> str:
    return path.rpartition("/")[2]
