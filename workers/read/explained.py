"""A scan's plan in words: a line for each slice, some at most, below what all of them come to."""

from __future__ import annotations

from dataclasses import dataclass

from workers.errors import NotFound
from workers.read.scan import PlannedSlice, Scan
from workers.read.statistics import FooterStatistics, StatisticsSource
from workers.read.undisturbed import expired
from workers.storage.base import size_of
from workers.table.file_group import FileSlice

_LINES_MAX = 20


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    is_read: bool
    bytes: int


def explained(scan: Scan, statistics: StatisticsSource | None = None) -> str:
    """The text of `Scan.explain`. Raises SnapshotExpired, MalformedTable, UnsupportedTable."""
    source = statistics or FooterStatistics(scan.table.storage)
    try:
        lines = [
            _line(scan, planned, slice_, source)
            for planned in scan.planned
            for slice_ in planned.slices
        ]
    except NotFound as error:
        raise expired(error) from error
    read = sum(one.is_read for one in lines)
    limit = "" if scan.limit is None else f", at most {scan.limit} rows"
    head = (
        f"{scan.table.config.name}: {read} of {len(lines)} file slices; {_filter(scan)}{limit}; "
        f"{len(scan.columns)} columns; {sum(one.bytes for one in lines)} bytes to read"
    )
    texts = [one.text for one in lines[:_LINES_MAX]]
    if (more := len(lines) - len(texts)) > 0:
        texts.append(f"  and {more} more")
    return "\n".join([head, *texts])


def _filter(scan: Scan) -> str:
    if scan.predicate is None:
        return "no filter"
    if not scan.predicate.conditions:
        return "a filter that says nothing of single columns"
    return "filtered on " + ", ".join(sorted({one.column for one in scan.predicate.conditions}))


def _line(
    scan: Scan, planned: PlannedSlice, slice_: FileSlice, statistics: StatisticsSource
) -> _Line:
    place = f"{slice_.partition or '.'}/{slice_.file_id}"
    if planned.left_out_by is not None:
        return _Line(f"  left out by {planned.left_out_by}: {place}", False, 0)
    reading = scan.reading()
    logs = sum(size_of(scan.table.storage, path) for path in slice_.log_files)
    if slice_.base_file is None:
        return _Line(f"  read: {place}, {len(slice_.log_files)} logs, {logs} bytes", True, logs)
    pruner = reading.pruner
    known = statistics.of_file(slice_.base_file, sorted({*reading.names, *pruner.columns}))
    assert known is not None, slice_
    reasons = pruner.reasons(known)
    kept = [one for one in known.groups if reasons[one.number] is None]
    if not kept and not slice_.log_files:
        by = ", ".join(sorted({str(one) for one in reasons.values()})) or "no rows"
        return _Line(f"  left out by statistics of {by}: {place}", False, 0)
    size = logs + sum(sum(one.bytes_of.values()) for one in kept)
    text = (
        f"  read: {place}, {len(kept)} of {len(known.groups)} row groups, "
        f"{len(slice_.log_files)} logs, {size} bytes"
    )
    return _Line(text, True, size)
