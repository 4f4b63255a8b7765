"""File slices that a filter cannot meet by the statistics of their base files.

A read in this process opens the file anyway and leaves out its row groups. A reader that gives each
slice a task of its own asks here first, and starts no task for such a slice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from workers.errors import NotFound
from workers.read.row_groups import RowGroupPruner
from workers.read.scan import PlannedSlice, Scan
from workers.read.statistics import FileKnown, FooterStatistics, StatisticsSource
from workers.read.undisturbed import expired
from workers.threads import beside_each_other

FILES_MAX: Final = 1_000
"""Of more files the footers are not read before the tasks begin."""


def leave_out_unmatched(scan: Scan, statistics: StatisticsSource | None = None) -> Scan:
    """Return the scan without slices whose base file has no row group that may match.

    A slice with logs is kept: a log may hold a newer row. Reads footers. Raises SnapshotExpired,
    MalformedTable, UnsupportedTable.
    """
    pruner = scan.reading().pruner
    judged = {at for at, planned in enumerate(scan.planned) if _is_judged(scan, planned)}
    if not pruner.columns or not 0 < len(judged) <= FILES_MAX:
        return scan
    storage = scan.table.storage
    source = statistics or FooterStatistics(storage)

    def judge(at: int) -> PlannedSlice:
        planned = scan.planned[at]
        assert planned.slice_.base_file is not None, planned
        file = source.of_file(planned.slice_.base_file, pruner.columns)
        reason = None if file is None else find_refuting_columns(file, pruner)
        return replace(planned, left_out_by=None if reason is None else f"statistics of {reason}")

    numbers = sorted(judged)
    try:
        answers = beside_each_other(judge, numbers, threads=storage.files_at_once)
    except NotFound as error:
        raise expired(error) from error
    by_number = dict(zip(numbers, answers, strict=True))
    planned = tuple(by_number.get(at, slice_) for at, slice_ in enumerate(scan.planned))
    return replace(scan, planned=planned)


def find_refuting_columns(file: FileKnown, pruner: RowGroupPruner) -> str | None:
    """Return the columns by which all row groups of a file are left out; None if one is read."""
    reasons = pruner.reasons(file).values()
    if any(reason is None for reason in reasons):
        return None
    return ", ".join(sorted({str(reason) for reason in reasons})) or "no rows"


def _is_judged(scan: Scan, planned: PlannedSlice) -> bool:
    slice_ = planned.slice_
    is_plain = planned.left_out_by is None and planned.window is None and not slice_.log_files
    return is_plain and slice_.base_file is not None and scan.table.config.groups is None
