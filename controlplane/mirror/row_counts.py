"""Count the rows in the base files of the newest slices: by the write stats of the commits that a
pass reads, else by the footers of the files, a bounded number per pass.

A base file is written once, so a count that is stored is never read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.mirror.file_facts import FileListing
from controlplane.mirror.models import FileGroupRecord, SyncMark
from controlplane.tables.models import Table
from workers.errors import MalformedTable, NotFound, UnsupportedTable
from workers.files.base_parts import read_footer
from workers.storage.base import Storage
from workers.timeline.metadata import CommitMetadata

FOOTERS_PER_PASS_MAX: Final = 200
UNREADABLE: Final = -1
"""The count of a base file whose footer is damaged."""

BaseFile = tuple[str, str]
"""Partition and file name."""


class RowCounts:
    """The counts of one pass by base file."""

    def __init__(self, stored: Mapping[BaseFile, int], listing: FileListing | None) -> None:
        newest = {
            (group.partition, group.slices[0].base.name): group.slices[0].base.path
            for group in (listing.groups if listing else ())
            if group.slices[0].base is not None
        }
        self.rows = {file: rows for file, rows in stored.items() if file in newest}
        self._missing = {file: path for file, path in newest.items() if file not in self.rows}

    @property
    def is_complete(self) -> bool:
        return not self._missing

    def count_written(self, commit: CommitMetadata) -> None:
        """Take the counts of the base files that this commit wrote. Zero may also mean that the
        writer stored no count.
        """
        if not self._missing:
            return
        for stat in commit.stats:
            file = (stat.partition_path, stat.file_name)
            if file in self._missing and not stat.is_log and stat.num_writes > 0:
                self._note(file, stat.num_writes)

    def count_by_footers(self, storage: Storage) -> None:
        """Read the footers of files that no commit of this pass wrote. A file that was deleted
        since the listing stays uncounted until the next pass.
        """
        for file, path in list(self._missing.items())[:FOOTERS_PER_PASS_MAX]:
            try:
                self._note(file, read_footer(storage, path).num_rows)
            except NotFound:
                continue
            except (MalformedTable, UnsupportedTable):
                self._note(file, UNREADABLE)

    def _note(self, file: BaseFile, rows: int) -> None:
        self.rows[file] = rows
        del self._missing[file]


def load_counts(table: Table, mark: SyncMark) -> dict[BaseFile, int]:
    """Return the counts that earlier passes stored. One query."""
    rows = FileGroupRecord.objects.filter(table=table, base_rows__isnull=False)
    groups = mark.stored(rows, "files")
    return {
        (partition, name): rows
        for partition, name, rows in groups.values_list("partition", "base_file", "base_rows")
        if name and rows is not None
    }
