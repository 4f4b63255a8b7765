"""A scan's plan: each slice, whether it is read, by what it is left out, and the bytes to read; as
values, and as text with some lines at most below their total.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.errors import NotFound
from workers.read.refuted_slices import find_refuting_columns
from workers.read.scan import PlannedSlice, Scan
from workers.read.statistics import FooterStatistics, StatisticsSource
from workers.read.undisturbed import expired
from workers.storage.base import get_size
from workers.table.file_group import FileSlice

_LINES_MAX = 20


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """One file slice of a scan."""

    partition: str
    file_id: str
    left_out_by: str
    """`partition`, `bucket`, `statistics of` some columns, or `statistics of no rows`; empty for a
    slice that is read.
    """
    groups_read: int | None
    """Row groups of its base file that are read; None without a base file, or if it is not read."""
    groups: int | None
    logs: int
    bytes: int
    """To read."""

    @property
    def is_read(self) -> bool:
        """Return whether it may hold rows that are wanted."""
        return not self.left_out_by


def plan_lines(scan: Scan, statistics: StatisticsSource | None = None) -> list[SlicePlan]:
    """Read the footers of base files that may be read. Raises SnapshotExpired, MalformedTable,
    UnsupportedTable.
    """
    source = statistics or FooterStatistics(scan.table.storage)
    try:
        return [
            _line(scan, planned, slice_, source)
            for planned in scan.planned
            for slice_ in planned.slices
        ]
    except NotFound as error:
        raise expired(error) from error


def explained(scan: Scan, statistics: StatisticsSource | None = None) -> str:
    """The text of `Scan.explain`. Raises SnapshotExpired, MalformedTable, UnsupportedTable."""
    lines = plan_lines(scan, statistics)
    read = sum(line.is_read for line in lines)
    limit = "" if scan.limit is None else f", at most {scan.limit} rows"
    head = (
        f"{scan.table.config.name}: {read} of {len(lines)} file slices; {_filter(scan)}{limit}; "
        f"{len(scan.columns)} columns; {sum(line.bytes for line in lines)} bytes to read"
    )
    texts = [_text(line) for line in lines[:_LINES_MAX]]
    if (more := len(lines) - len(texts)) > 0:
        texts.append(f"  and {more} more")
    return "\n".join([head, *texts])


def _filter(scan: Scan) -> str:
    if scan.predicate is None:
        return "no filter"
    if not scan.predicate.conditions:
        return "a filter that says nothing of single columns"
    return "filtered on " + ", ".join(sorted({one.column for one in scan.predicate.conditions}))


def _text(line: SlicePlan) -> str:
    place = f"{line.partition or '.'}/{line.file_id}"
    if line.left_out_by:
        return f"  left out by {line.left_out_by}: {place}"
    groups = "" if line.groups is None else f"{line.groups_read} of {line.groups} row groups, "
    return f"  read: {place}, {groups}{line.logs} logs, {line.bytes} bytes"


def _line(
    scan: Scan, planned: PlannedSlice, slice_: FileSlice, statistics: StatisticsSource
) -> SlicePlan:
    place, logs = (slice_.partition, slice_.file_id), len(slice_.log_files)
    if planned.left_out_by is not None:
        return SlicePlan(*place, planned.left_out_by, None, None, logs, 0)
    reading = scan.reading()
    log_bytes = sum(get_size(scan.table.storage, path) for path in slice_.log_files)
    if slice_.base_file is None:
        return SlicePlan(*place, "", None, None, logs, log_bytes)
    pruner = reading.pruner
    known = statistics.of_file(slice_.base_file, sorted({*reading.names, *pruner.columns}))
    assert known is not None, slice_
    by = find_refuting_columns(known, pruner)
    if by is not None and not slice_.log_files:
        return SlicePlan(*place, f"statistics of {by}", None, None, logs, 0)
    reasons = pruner.reasons(known)
    kept = [group for group in known.groups if reasons[group.number] is None]
    size = log_bytes + sum(sum(group.bytes_of.values()) for group in kept)
    return SlicePlan(*place, "", len(kept), len(known.groups), logs, size)
