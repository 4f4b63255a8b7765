"""Validation: compare the files in the metadata table, which Apache Hudi's readers use, with
storage (metadata page 3.1 and 7).

It only reads. A committed file that the metadata table does not list is invisible to Hudi, without
an error. A listed file that is missing makes Hudi's readers fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from workers.errors import ServiceBusy, ServiceRefused
from workers.files.partition import files_by_partition
from workers.metadata_table.files_partition import FILES, MetadataListing
from workers.storage.base import FileInfo, join
from workers.table.table import Table
from workers.table.view import GroupFiles, GroupKey, VisibleFiles
from workers.table.writability import METADATA_KEY
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

_LOOKS_MAX: Final = 5
_DELETING: Final = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})


class Fault(StrEnum):
    """How the metadata table and storage differ over a file."""

    UNLISTED = "unlisted"
    """A commit wrote it, and the metadata table does not know it: its rows are not read."""
    MISSING = "missing"
    """The metadata table lists it, and it is not on storage: readers fail."""
    SIZE = "size"
    """Both have it, in different lengths."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One file over which the metadata table and storage differ; sizes are bytes."""

    fault: Fault
    path: str
    """Relative to the table."""
    listed_bytes: int | None
    stored_bytes: int | None

    def __str__(self) -> str:
        """Such as `unlisted city=oslo/a_0-0-0_2026….parquet: listed -, stored 4711 bytes`."""
        listed, stored = (_text(size) for size in (self.listed_bytes, self.stored_bytes))
        return f"{self.fault} {self.path}: listed {listed}, stored {stored} bytes"


@dataclass(frozen=True, slots=True)
class Validation:
    """What a comparison showed."""

    partitions: int
    files: int
    """How many files were compared, of all ages."""
    differences: tuple[Difference, ...]
    """By path."""
    unsettled: int = 0
    """Listed files that are gone while a clean, a rollback or a restore is at work."""

    @property
    def is_sound(self) -> bool:
        """True if storage and the metadata table agree."""
        return not self.differences


def validate(table: Table) -> Validation:
    """Compare them as of one state of the timeline.

    Raises ServiceRefused for a table without a metadata table, ServiceBusy where others commit all
    the time, StorageFailed, MalformedTable, UnsupportedTable.
    """
    _check_listed(table)
    for _ in range(_LOOKS_MAX):
        timeline = table.timeline()
        validation = _compare(table, timeline)
        if table.timeline().instants == timeline.instants:
            return validation
    raise ServiceBusy("others write while the table is compared; try again later")


def _check_listed(table: Table) -> None:
    partitions = table.properties.get(METADATA_KEY, "").split(",")
    if FILES not in (name.strip() for name in partitions):
        raise ServiceRefused(
            "the table has no metadata table that lists its files; every reader lists directories"
        )


def _compare(table: Table, timeline: Timeline) -> Validation:
    pending = frozenset(instant.requested_at for instant in timeline.pending())
    listing = MetadataListing.load(table.storage, pending)
    stored = files_by_partition(table.storage)
    counting = _counting(table, timeline, stored)
    listed = {
        join(partition, name): size
        for partition, files in listing.partitions.items()
        for name, size in files.items()
    }
    sizes = {join(partition, file.name): file.size for partition, file in _files(stored)}
    differences = list(_differences(listed, sizes, counting))
    is_deleting = any(instant.action in _DELETING for instant in timeline.pending())
    lasting = [
        difference
        for difference in differences
        if not (is_deleting and difference.fault is Fault.MISSING)
    ]
    return Validation(
        partitions=len(listing.partitions),
        files=len(listed.keys() | counting),
        differences=tuple(lasting),
        unsettled=len(differences) - len(lasting),
    )


def _differences(
    listed: Mapping[str, int], stored: Mapping[str, int], counting: frozenset[str]
) -> Iterator[Difference]:
    for path in sorted(listed.keys() | counting):
        listed_bytes, stored_bytes = listed.get(path), stored.get(path)
        if listed_bytes is None:
            yield Difference(Fault.UNLISTED, path, None, stored_bytes)
        elif stored_bytes is None:
            yield Difference(Fault.MISSING, path, listed_bytes, None)
        elif listed_bytes != stored_bytes:
            yield Difference(Fault.SIZE, path, listed_bytes, stored_bytes)


def _counting(
    table: Table, timeline: Timeline, stored: Mapping[str, Sequence[FileInfo]]
) -> frozenset[str]:
    """Paths of the data files that committed instants wrote, of any age."""
    visible = VisibleFiles(table, timeline, None)
    groups: dict[GroupKey, GroupFiles] = {}
    for partition, files in stored.items():
        visible.collect_partition(groups, partition, [file.name for file in files])
    return frozenset(
        path
        for group in groups.values()
        for path in (*group.bases.values(), *(log for _, _, log in group.logs))
    )


def _files(stored: Mapping[str, Sequence[FileInfo]]) -> Iterator[tuple[str, FileInfo]]:
    return ((partition, file) for partition, files in stored.items() for file in files)


def _text(size: int | None) -> str:
    return "-" if size is None else str(size)
