"""The remains of a write that no commit names: files of other attempts (task retries, speculation),
markers, dead letters.

Unreferenced files are deleted before the commit is decided, while no other process may be writing
for this instant. What a late attempt writes afterwards is rejected by its marker, because a
decision exists by then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.late_writers import delete_beginner
from workers.files.names import parse_name_instant
from workers.files.partition import files_by_partition
from workers.markers.store import delete_markers, read_markers
from workers.storage.base import FileInfo, Storage
from workers.timeline.metadata import WriteStat
from workers.write.dead_letters import DeadLetters
from workers.write.status import DeadLetterFile, WriteStatus

_log = logging.getLogger(__name__)


def delete_unreferenced_files(
    storage: Storage, instant: InstantTime, statuses: Iterable[WriteStatus]
) -> list[str]:
    """Delete unreferenced files of the instant. Return their paths, relative to the table,
    including files that were never written.

    Every file that was written had its marker first. Where one of `statuses` has none, markers were
    lost, and the partitions are listed instead.
    """
    referenced = {status.stat.path: status.stat.partition_path for status in statuses}
    markers = [
        marker
        for marker in read_markers(storage, instant)
        if parse_name_instant(marker.data_file_name) == instant  # A wrong marker costs no data.
    ]
    named = {marker.data_path for marker in markers}
    if not referenced.keys() <= named:
        _log.warning("markers were lost, listing instead: instant=%s", instant)
        touched = {*referenced.values(), *(marker.partition for marker in markers)}
        for listed in files_by_partition(storage, sorted(touched)).values():
            for info in listed:
                if parse_name_instant(info.name) == instant:
                    named.add(info.path)
    strays = sorted(named - referenced.keys())
    storage.delete_many(strays)
    return strays


@dataclass(frozen=True, slots=True)
class InstantCleanup:
    """The remains of one instant; each step may be repeated."""

    storage: Storage
    instant: InstantTime
    dead_letter_path: str
    """Where dead letters are written; empty if they are not."""

    def delete_unreferenced_files(
        self, written: Sequence[WriteStatus], letters: Iterable[DeadLetterFile]
    ) -> None:
        """Delete the files of unsuccessful attempts: data files not in `written`, dead letters that
        the commit does not reference.
        """
        delete_unreferenced_files(self.storage, self.instant, written)
        self.delete_dead_letters(referenced=letters)

    def delete_dead_letters(self, referenced: Iterable[DeadLetterFile] = ()) -> None:
        """Delete the dead letters of this instant, except those that the commit references."""
        if self.dead_letter_path:
            DeadLetters(self.dead_letter_path, self.instant).keep_only(referenced)

    def delete_all(self, written: Iterable[FileInfo | WriteStat]) -> None:
        """Delete all files of an instant that another process rolled back: it may have listed
        before they were written.
        """
        for file in written:
            self.storage.delete(file.path)
        self.delete_markers()
        self.forget_beginner()
        self.delete_dead_letters()

    def delete_markers(self, again: InstantTime | None = None) -> None:
        """Delete the instant's markers, and those of `again`, which was committed with it."""
        for instant in (self.instant, again):
            if instant is not None:
                delete_markers(self.storage, instant)

    def forget_beginner(self) -> None:
        """Delete the note about the process that began the instant: it is not a late writer now."""
        delete_beginner(self.storage, self.instant)
