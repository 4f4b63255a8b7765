"""The markers of one instant beside the files that they announce: read from storage, because a
person asked for exactly that.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from controlplane.errors import NotAllowedNow, StorageUnavailable
from controlplane.mirror.conflict_facts import text
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import LakehouseError, StorageFailed
from workers.markers.marker import Marker
from workers.markers.store import read_markers
from workers.storage.base import FileInfo, Storage

MARKERS_SHOWN_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFile:
    name: str
    """Of the data file."""
    kind: str
    """CREATE, MERGE or APPEND"""
    is_there: bool
    bytes: int
    is_orphan: bool
    """There, though its instant is not pending any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedPartition:
    partition: str
    files: list[AnnouncedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerTree:
    instant: InstantTime
    is_pending: bool
    partitions: list[AnnouncedPartition]
    markers: int
    hidden: int
    """Further markers that were not looked at."""
    there: int
    """Of those looked at, how many announced files exist."""
    not_yet: int


def marker_tree(table: Table, instant: InstantTime) -> MarkerTree | None:
    """None when the instant has no markers. Raises StorageUnavailable, NotAllowedNow."""
    try:
        storage = storage_of(table)
        markers = read_markers(storage, instant)
        shown = markers[:MARKERS_SHOWN_MAX]
        files_by_path = _data_files(storage, shown)
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    if not markers:
        return None
    pending = InstantRecord.objects.filter(table=table, requested_at=instant)
    is_pending = pending.exclude(state="completed").exists()
    grouped: dict[str, list[AnnouncedFile]] = defaultdict(list)
    for marker in shown:
        data = files_by_path.get(marker.data_path)
        grouped[marker.partition].append(
            AnnouncedFile(
                name=text(marker.data_file_name),
                kind=str(marker.io_type),
                is_there=data is not None,
                bytes=data.size if data else 0,
                is_orphan=data is not None and not is_pending,
            )
        )
    return MarkerTree(
        instant=instant,
        is_pending=is_pending,
        partitions=[
            AnnouncedPartition(partition=text(name), files=files)
            for name, files in sorted(grouped.items())
        ],
        markers=len(markers),
        hidden=len(markers) - len(shown),
        there=sum(one.is_there for files in grouped.values() for one in files),
        not_yet=sum(not one.is_there for files in grouped.values() for one in files),
    )


def _data_files(storage: Storage, markers: tuple[Marker, ...]) -> dict[str, FileInfo]:
    """By one listing for each partition."""
    files_by_path: dict[str, FileInfo] = {}
    for partition in sorted({marker.partition for marker in markers}):
        files_by_path |= {file.path: file for file in storage.list_files(partition)}
    return files_by_path
