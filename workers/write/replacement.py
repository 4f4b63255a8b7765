"""The file groups that a replacing write removes, as of the snapshot that it started from, and a
digest of their files: the same files, the same text.

If a file group joins them later, the transaction rejects the commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from workers.errors import PlanChanged
from workers.options.table_options import TableConfig
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.request import WriteRequest
from workers.write.status import WriteStatus

_DIGEST_CHARS = 16


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a replacecommit takes away."""

    file_ids: dict[str, list[str]]
    """Partition -> ids of the file groups that go."""
    whole_partitions: frozenset[str]
    """Partitions that hold nothing afterwards but what this write wrote."""
    is_whole_table: bool


def warn_of_no_rows(operation: str, config: TableConfig, rows: int) -> tuple[str, ...]:
    """Return what an overwrite by so many rows does, if it has none."""
    if rows or operation not in ("insert_overwrite", "insert_overwrite_table"):
        return ()
    if operation == "insert_overwrite" and config.partition_by:
        return ("no rows name a partition, so nothing is replaced",)
    return ("no rows replace the whole table, so it is empty afterwards",)


def find_replacement(
    context: WriteContext, request: WriteRequest, written: Iterable[WriteStatus]
) -> Replacement:
    """Return what `request` replaces by the files `written`; empty if it does not replace."""
    is_whole_table = request.operation == "insert_overwrite_table"
    touched = {status.stat.partition_path for status in written} | set(request.partitions)
    if not request.replaces:
        return Replacement({}, frozenset(), is_whole_table=False)
    if request.operation == "insert_overwrite" and not context.config.partition_by:
        touched.add("")  # The one partition that there is, also without rows.
    file_ids: dict[str, list[str]] = {partition: [] for partition in touched}
    for slice_ in context.slices.values():
        if is_whole_table or slice_.partition in touched:
            file_ids.setdefault(slice_.partition, []).append(slice_.file_id)
    return Replacement(file_ids, frozenset(file_ids), is_whole_table)


def digest_slices(slices: Iterable[FileSlice]) -> str:
    """Return one digest of all files of these slices, whatever their order."""
    paths = sorted(path for file_slice in slices for path in file_slice.files)
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()[:_DIGEST_CHARS]


def check_replaced(slices: Iterable[FileSlice], planned: str) -> None:
    """Check that the slices are the planned ones. Raises PlanChanged if the snapshot that a write
    starts from is another one.
    """
    if digest_slices(slices) != planned:
        raise PlanChanged("the table changed since what is overwritten was planned")
