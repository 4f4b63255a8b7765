"""What a write leaves that no commit takes: files of other attempts, markers, rows put aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.late_writers import forget_beginner
from workers.markers.store import delete_markers
from workers.storage.base import FileInfo, Storage
from workers.timeline.metadata import WriteStat
from workers.write.dead_letters import DeadLetters
from workers.write.finalize import drop_strays
from workers.write.status import DeadLetterFile, WriteStatus


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """The files that one instant left behind; each step may be repeated."""

    storage: Storage
    instant: InstantTime
    dead_letter_path: str
    """Where rows are put aside; empty where none are."""

    def drop_strays(
        self, written: Sequence[WriteStatus], letters: Iterable[DeadLetterFile]
    ) -> None:
        """Delete what attempts left that were not taken: of these are `written` and `letters`."""
        drop_strays(self.storage, self.instant, written)
        self.drop_letters(kept=letters)

    def drop_letters(self, kept: Iterable[DeadLetterFile] = ()) -> None:
        """Delete the rows that this instant put aside, but those of `kept`."""
        if self.dead_letter_path:
            DeadLetters(self.dead_letter_path, self.instant).keep_only(kept)

    def drop_all(self, written: Iterable[FileInfo | WriteStat]) -> None:
        """Decided by another, so these are nobody's; he may have listed before we wrote them."""
        for file in written:
            self.storage.delete(file.path)
        self.drop_markers()
        self.forget_beginner()
        self.drop_letters()

    def drop_markers(self, again: InstantTime | None = None) -> None:
        """Delete the instant's markers, and those of `again`, which was committed with it."""
        for instant in (self.instant, again):
            if instant is not None:
                delete_markers(self.storage, instant)

    def forget_beginner(self) -> None:
        """Whoever began the instant is no late writer any more."""
        forget_beginner(self.storage, self.instant)
