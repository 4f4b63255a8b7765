"""A file slice: one base file, or none, and the log files to merge into it."""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One state of a file group, as a snapshot reads it."""

    partition: str
    file_id: str
    base_instant: InstantTime | None
    """Requested time of the base file's commit; None for a slice of logs alone."""
    base_file: str | None
    """Relative to the table."""
    log_files: tuple[str, ...] = ()
    """In the order in which they became visible, which is the order of merging."""
    block_instants: tuple[InstantTime, ...] | None = None
    """Version 6, where a log holds blocks of several writers: whose blocks count. None: all."""
    archived_before: InstantTime | None = None
    """With `block_instants`: older blocks count as well."""
    late_blocks: frozenset[InstantTime] | None = None
    """For a table that was version 6, whose logs may hold blocks of several writers: the instants
    whose blocks do not count yet. None: the name of a log contains its only writer.
    """

    @property
    def files(self) -> tuple[str, ...]:
        """Paths relative to the table: the base file, if there is one, then the logs."""
        return ((self.base_file,) if self.base_file else ()) + self.log_files
