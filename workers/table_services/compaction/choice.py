"""The choice of file groups for a compaction: pure rules over the figures of each file group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workers.table_services.compaction.settings import CompactionSettings, Strategy
from workers.timeline.service_plans import PlannedSlice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file group with logs that no pending plan holds."""

    slice: PlannedSlice
    base_bytes: int
    log_bytes: int

    @property
    def io_bytes(self) -> int:
        """Read once and written once, logs counted as growth."""
        return 2 * (self.base_bytes + self.log_bytes)

    @property
    def bytes(self) -> int:
        """The bytes of its base file and its logs on storage."""
        return self.base_bytes + self.log_bytes


def choose(candidates: Iterable[Candidate], settings: CompactionSettings) -> list[Candidate]:
    """Return the file groups that the strategy takes, in the order in which they will be merged."""
    eligible = list(candidates)
    match settings.strategy:
        case Strategy.UNBOUNDED:
            return eligible
        case Strategy.BOUNDED_IO:
            pass
        case Strategy.LOG_FILE_SIZE_BASED:
            eligible = [
                candidate
                for candidate in eligible
                if candidate.log_bytes >= settings.log_bytes_least
            ]
            eligible.sort(key=lambda candidate: -candidate.log_bytes)
        case Strategy.LOG_FILE_NUM_BASED:
            eligible = [
                candidate
                for candidate in eligible
                if len(candidate.slice.log_files) >= settings.log_files_least
            ]
            eligible.sort(key=lambda candidate: -len(candidate.slice.log_files))
    return _within(eligible, settings.io_bytes_max)


def _within(candidates: list[Candidate], io_bytes_max: int) -> list[Candidate]:
    """Return as many as the bound pays for, and one more that reaches it: the bound never makes a
    plan empty.
    """
    chosen_candidates: list[Candidate] = []
    spent = 0
    for candidate in candidates:
        if spent >= io_bytes_max:
            break
        chosen_candidates.append(candidate)
        spent += candidate.io_bytes
    return chosen_candidates
