"""The file groups that a clustering would rewrite: those that are not sorted that way already."""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.table.file_group import FileSlice
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.clustering.settings import ClusteringSettings, format_strategy
from workers.table_services.slices import sum_file_sizes, to_planned_slice
from workers.timeline.instant import Action
from workers.timeline.metadata import CommitMetadata
from workers.timeline.pending_plans import pending_file_groups
from workers.timeline.service_plans import ClusteringPlanFile, PlannedSlice
from workers.timeline.timeline import Timeline

CLUSTER_OPERATION = "CLUSTER"


@dataclass(frozen=True, slots=True)
class UnsortedSlice:
    """A file group that is not sorted as wanted, and the bytes of its files."""

    slice: PlannedSlice
    bytes: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A clustering that may be scheduled."""

    chosen: tuple[UnsortedSlice, ...]
    commits: int
    """Since the last clustering was planned."""
    figures: dict[str, int]

    def plan_file(self, settings: ClusteringSettings, extra: dict[str, str]) -> ClusteringPlanFile:
        """Build the plan to make durable; `extra` is stored in it."""
        slices = tuple(candidate.slice for candidate in self.chosen)
        return ClusteringPlanFile(slices, format_strategy(settings.order), extra)


def propose(table: Table, timeline: Timeline, settings: ClusteringSettings) -> Proposal:
    """Return what would be scheduled now: at most `groups_max` file groups that are in no pending
    plan, none if too few commits came since the last clustering. Raises MalformedTable.
    """
    view = FileSystemView.load(table, timeline=timeline)
    busy = pending_file_groups(table.storage, timeline)
    clusterings = _clusterings(table, timeline)
    sorted_by = {
        instant for instant, metadata in clusterings.items() if _is_so_ordered(metadata, settings)
    }
    unsorted = [
        _to_unsorted(table, slice_)
        for slice_ in view.slices
        if (slice_.log_files or slice_.base_instant not in sorted_by)
        and (not settings.partitions or slice_.partition in settings.partitions)
    ]
    commits = _commits_since(timeline, max(clusterings, default=None))
    free = [candidate for candidate in unsorted if candidate.slice.key not in busy]
    is_due = commits >= settings.commits_least
    figures = {
        "file_groups": len(view.slices),
        "unsorted_groups": len(unsorted),
        "unsorted_bytes": sum(candidate.bytes for candidate in unsorted),
        "pending_groups": sum((slice_.partition, slice_.file_id) in busy for slice_ in view.slices),
        "commits": commits,
    }
    return Proposal(tuple(free[: settings.groups_max]) if is_due else (), commits, figures)


def _clusterings(table: Table, timeline: Timeline) -> dict[InstantTime, CommitMetadata]:
    """The completed ones that are still on the active timeline."""
    replaced = [
        instant
        for instant in timeline.iterate_completed()
        if instant.action is Action.REPLACECOMMIT
    ]
    metadata_by_instant = {
        instant.requested_at: read_instant(table, instant) for instant in replaced
    }
    return {
        at: metadata
        for at, metadata in metadata_by_instant.items()
        if metadata.operation_type == CLUSTER_OPERATION
    }


def _is_so_ordered(metadata: CommitMetadata, settings: ClusteringSettings) -> bool:
    strategy = format_strategy(settings.order)
    return all(metadata.extra_metadata.get(key) == value for key, value in strategy.items())


def _commits_since(timeline: Timeline, since: InstantTime | None) -> int:
    return sum(
        since is None or write.completed_at > since
        for write in timeline.list_completed_writes()
        if write.requested_at != since
    )


def _to_unsorted(table: Table, slice_: FileSlice) -> UnsortedSlice:
    size = sum_file_sizes(table.storage, slice_.files)
    metrics = {"TOTAL_LOG_FILES": float(len(slice_.log_files)), "TOTAL_IO_READ_MB": size / 2**20}
    return UnsortedSlice(to_planned_slice(slice_, metrics), size)
