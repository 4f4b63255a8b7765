"""A write compared with every commit that completed since it began.

File groups are compared first. Where they show no overlap, keys are compared: keys that both
inserted, keys in two partitions, and keys that one of the two did not find.
"""

from __future__ import annotations

import logging

from workers.concurrency.conflicts import (
    Conflict,
    WriteSet,
    find_concurrent_commits,
    overlapping_file_groups,
    unmergeable_file_groups,
    write_set,
)
from workers.concurrency.inserted_keys import InsertedKeys
from workers.concurrency.key_partitions import KeyPartitions
from workers.concurrency.read_keys import ReadKeysCheck, ReadKeysSource
from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.options.writer_modes import ConcurrencyMode
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import WRITER_KEY, CommitMetadata
from workers.timeline.timeline import Timeline

_log = logging.getLogger(__name__)


class RivalCheck:
    """The competing commits of one write. A completed commit never changes, so each is read and
    compared once. The timeline under the lock decides which of them count.
    """

    def __init__(
        self,
        table: Table,
        mode: ConcurrencyMode,
        at_start: Timeline,
        ours: WriteSet,
        metadata: CommitMetadata,
        read_keys: ReadKeysSource | None = None,
    ) -> None:
        is_non_blocking = mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
        self._rule = unmergeable_file_groups if is_non_blocking else overlapping_file_groups
        self._table = table
        self._at_start = at_start
        self._ours = ours
        self._inserted = (
            InsertedKeys(table, ours.instant, metadata) if table.config.looks_up else None
        )
        self._partitions = (
            KeyPartitions(table, ours.instant, metadata) if table.config.keeps_keys_single else None
        )
        self._sought = None if read_keys is None else ReadKeysCheck(table.storage, read_keys)
        self._read: dict[Instant, CommitMetadata] = {}
        self._by_keys: dict[Instant, Conflict | None] = {}

    def check_ahead(self) -> None:
        """Compare with the commits that have completed by now, before other writers wait for the
        lock. Later ones are compared under the lock.
        """
        try:
            self.find_conflict(self._table.timeline())
        except (MalformedTable, NotFound, StorageFailed) as error:
            _log.info("rivals are looked at under the lock instead: error=%s", error)

    def find_conflict(self, timeline: Timeline) -> Conflict | None:
        """Return the first conflict with a commit that completed since the start; None if there is
        none. File groups of all commits are compared first, then keys.

        Raises MalformedTable, StorageFailed.
        """
        completed_rivals = find_concurrent_commits(
            self._at_start.instants, timeline.instants, self._ours.instant
        )
        for rival in completed_rivals:
            if conflict := self._rule(self._ours, self._write_set(rival)):
                return conflict
        for rival in completed_rivals:
            if conflict := self._find_key_conflict(rival):
                return conflict
        return None

    def list_partitions(self, timeline: Timeline) -> frozenset[str]:
        """Return the partitions that got files since the start. Raises MalformedTable,
        StorageFailed.
        """
        completed_rivals = find_concurrent_commits(
            self._at_start.instants, timeline.instants, self._ours.instant
        )
        stats = (stat for rival in completed_rivals for stat in self._metadata(rival).stats)
        return frozenset(stat.partition_path for stat in stats)

    def _write_set(self, rival: Instant) -> WriteSet:
        metadata = self._metadata(rival)
        return write_set(rival.requested_at, metadata, metadata.extra_metadata.get(WRITER_KEY))

    def _find_key_conflict(self, rival: Instant) -> Conflict | None:
        looking = (self._inserted, self._partitions, self._sought)
        checks = [check for check in looking if check is not None]
        if rival not in self._by_keys:
            theirs, written = self._write_set(rival), self._metadata(rival)
            conflicts = (check.find_conflict(self._ours, theirs, written) for check in checks)
            self._by_keys[rival] = next(
                (conflict for conflict in conflicts if conflict is not None), None
            )
        return self._by_keys[rival]

    def _metadata(self, rival: Instant) -> CommitMetadata:
        if rival not in self._read:
            self._read[rival] = read_instant(self._table, rival)
        return self._read[rival]
