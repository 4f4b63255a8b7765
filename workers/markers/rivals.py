"""Early conflicts of a running write: the rule, and the search on storage that applies it.

A writer loses to a rival that writes the same file groups if the rival is alive and **older**, or
has completed since the writer began; to no other. So the oldest of any conflicting writers loses to
none of them unless one has committed: some writer always survives, however the searches interleave
(invariant EC3). A rival is alive while its heartbeat is within the bound that it sets itself and
its instant is pending and not decided to be rolled back. Plans of table services lose to writers,
as in Hudi: only what they completed counts.

Order: heartbeats, then markers, then the timeline. A rival that commits in between is missing in
the first or no longer pending in the last, and then it is among the completed ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from workers.clock import Clock, InstantTime
from workers.concurrency.conflicts import (
    Conflict,
    FileGroupKey,
    WriteSet,
    overlapping_file_groups,
    write_set,
)
from workers.concurrency.heartbeat import Heartbeat, read_heartbeats
from workers.errors import NotFound
from workers.files.names import parse_base_file, parse_log_file
from workers.markers.marker import Marker, parse_marker
from workers.markers.store import read_names
from workers.options.early_detection import EarlyDetection
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import CompletedInstant, Instant
from workers.timeline.layout import TimelineLayout
from workers.timeline.metadata import WRITER_KEY, read_commit_metadata
from workers.timeline.timeline import Timeline

_log = logging.getLogger(__name__)


def build_claims(
    instant: InstantTime, markers: Iterable[Marker], writer: str | None = None
) -> WriteSet:
    """Build the write set of the instant's markers; names that are not of data files are
    ignored.
    """
    based: set[FileGroupKey] = set()
    logged: set[FileGroupKey] = set()
    for marker in markers:
        name = marker.data_file_name
        if base := parse_base_file(name):
            based.add((marker.partition, base.file_id))
        elif log := parse_log_file(name):
            logged.add((marker.partition, log.file_id))
    return WriteSet(instant, frozenset(based | logged), writer, appended=frozenset(logged - based))


class RivalSearch:
    """A repeated search for rivals that win against one instant; remembers what cannot change."""

    def __init__(
        self, storage: Storage, instant: InstantTime, settings: EarlyDetection, clock: Clock
    ) -> None:
        self._storage = storage
        self._instant = instant
        self._settings = settings
        self._clock = clock
        self._layout = TimelineLayout()
        self._claimed: dict[InstantTime, frozenset[str]] = {}
        """Marker names by live rival. They only grow: what was read while a foreign writer was
        rewriting its file is added to, never believed to be all (bug D6).
        """
        self._completed: dict[InstantTime, WriteSet] = {}

    def find(self, ours: WriteSet) -> Conflict | None:
        """Return the conflict with the oldest rival that wins. Raises whatever storage raises."""
        if not ours.file_groups:
            return None
        conflicts = self._live_met(ours)
        if not conflicts and not self._settings.checks_commits:
            return None
        timeline = Timeline.load(self._storage, self._layout)
        for conflict in conflicts:
            if conflict.rival is not None and self._is_running(timeline, conflict.rival):
                return conflict
        return (
            self._find_completed_conflict(ours, timeline) if self._settings.checks_commits else None
        )

    def _live_met(self, ours: WriteSet) -> list[Conflict]:
        """Return conflicts with live rivals, oldest rival first."""
        now_ms = self._clock.now_ms()
        live = {
            beat.instant: beat
            for beat in read_heartbeats(self._storage)
            if beat.instant < self._instant and not beat.is_expired(now_ms)
        }
        self._claimed = {
            instant: names for instant, names in self._claimed.items() if instant in live
        }
        conflicts = (self._find_rival_conflict(ours, live[instant]) for instant in sorted(live))
        return [conflict for conflict in conflicts if conflict is not None]

    def _find_rival_conflict(self, ours: WriteSet, rival: Heartbeat) -> Conflict | None:
        claimed = self._claimed.get(rival.instant, frozenset())
        names = claimed | set(read_names(self._storage, rival.instant).all())
        self._claimed[rival.instant] = names
        theirs = build_claims(rival.instant, map(parse_marker, names), rival.writer)
        return self._compare_claims(ours, theirs, "are being written by an older writer")

    def _is_running(self, timeline: Timeline, rival: InstantTime) -> bool:
        rival_instant = timeline.find(rival)
        if (
            rival_instant is None
            or rival_instant.is_completed
            or not rival_instant.action.writes_data
        ):
            return False
        return not isinstance(decisions.read(self._storage, rival), RollbackDecision)

    def _find_completed_conflict(self, ours: WriteSet, timeline: Timeline) -> Conflict | None:
        for instant in timeline.list_completed_writes():
            if instant.requested_at == self._instant or not self._is_since_start(instant):
                continue
            theirs = self._write_set(instant)
            if theirs is None:
                continue
            what = "were written by another writer first"
            if conflict := self._compare_claims(ours, theirs, what):
                return conflict
        return None

    def _is_since_start(self, instant: CompletedInstant) -> bool:
        # Both times come from one sequence, given out under the table lock.
        return instant.completed_at > self._instant

    def _write_set(self, instant: Instant) -> WriteSet | None:
        """Return the write set; None when it was archived or rolled back since the timeline was
        listed.
        """
        if instant.requested_at not in self._completed:
            try:
                metadata = read_commit_metadata(self._storage.read(self._layout.path(instant)))
            except NotFound:
                return None
            self._completed[instant.requested_at] = write_set(
                instant.requested_at, metadata, metadata.extra_metadata.get(WRITER_KEY)
            )
        return self._completed[instant.requested_at]

    def _compare_claims(self, ours: WriteSet, theirs: WriteSet, what: str) -> Conflict | None:
        conflict = overlapping_file_groups(ours, theirs)
        if conflict is None:
            return None
        return replace(
            conflict,
            message=f"{len(conflict.file_groups)} file group(s) {what}",
            detected="early",
            strategy=self._settings.strategy.value,
        )
