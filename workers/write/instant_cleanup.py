"""The remains of a write that no commit names: files of other attempts, markers, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.late_writers import delete_beginner
from workers.markers.store import delete_markers
from workers.storage.base import FileInfo, Storage
from workers.timeline.metadata import WriteStat
from workers.write.dead_letters import DeadLetters
from workers.write.finalize import delete_unreferenced_files
from workers.write.status import DeadLetterFile, WriteStatus


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
