"""What one pass reads of a table, outside any transaction, and how it sees that nothing is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from django.conf import settings

from controlplane.mirror import facts
from controlplane.mirror.apply_properties import overtaken_commits
from controlplane.mirror.archive_facts import ArchiveFacts, read_archive
from controlplane.mirror.claim_facts import DirectoryFacts, directory_facts
from controlplane.mirror.conflict_facts import ConflictFacts
from controlplane.mirror.facts import InstantFacts, Key, Listing, MarkerFacts, key_of
from controlplane.mirror.file_facts import FileListing, list_file_groups
from controlplane.mirror.models import InstantRecord, SyncMark
from controlplane.mirror.phase_facts import file_times, phase_key
from controlplane.mirror.row_counts import BaseFile, RowCounts, load_counts
from controlplane.mirror.row_sums import HISTORY
from controlplane.mirror.sink_facts import SinkFacts, observe_sinks
from controlplane.mirror.undone_facts import UndoneFacts, read_undone
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.concurrency.heartbeat import Heartbeat, read_heartbeats
from workers.concurrency.late_writers import LateWriter
from workers.concurrency.locks.bindings import lock_provider
from workers.concurrency.locks.status import LockView, read_lock
from workers.errors import MalformedTable, UnsupportedTable
from workers.table import table as engine
from workers.table.external_changes import ExternalChange
from workers.table_services.archive_policy import find_late_writer
from workers.timeline.history_files import LostFile
from workers.timeline.instant import Instant, State

INSTANTS_PER_PASS_MAX = 2000
"""More than this are read over several passes, newest first, so that no pass outlives its turn."""
ERROR_CHARS_MAX = 500
PROJECTION = "13"
"""Changes with what is mirrored: a mirror that an older program made is read again, whole."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What changes without a name on the timeline: markers, who has the lock, sinks, and what other
    engines did meanwhile.
    """

    directories: list[DirectoryFacts]
    lock: LockView
    sinks: list[SinkFacts]
    overtaken: list[ExternalChange]
    late: LateWriter | None
    """Whom archiving waits for."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that one pass read."""

    listing: Listing
    beats: list[Heartbeat]
    markers: list[MarkerFacts]
    claims: Claims
    lock_provider: str
    lost_history: tuple[LostFile, ...]
    mark: SyncMark
    """As it was before this pass."""
    instants: list[InstantFacts] | None
    """Those that are new or changed; None when the listing is the one that was applied last."""
    conflicts: list[ConflictFacts] = field(default_factory=list)
    undone: list[UndoneFacts] = field(default_factory=list)
    archive: ArchiveFacts = field(default_factory=ArchiveFacts)
    files: FileListing | None = None
    """None as well when files cannot be listed; `problem` says why."""
    base_rows: Mapping[BaseFile, int] = field(default_factory=dict)
    """Rows by base file of the newest slices, as far as they are counted."""
    problem: str = ""
    is_complete: bool = True
    """False when something vanished while it was read, or was left: the next pass must not skip."""


def observe(table: Table, opened: engine.Table, mark: SyncMark) -> Observed:
    """Read what changed since the pass that stored the mark."""
    listing = facts.list_table(opened)
    beats = read_heartbeats(opened.storage)
    names = facts.marker_names(opened.storage)
    markers = facts.marker_facts(names)
    lock = read_lock(opened.storage, opened.ports.clock.now_ms(), is_foreign=opened.is_foreign)
    claims = Claims(
        [directory_facts(opened.storage, instant, names[instant]) for instant in names],
        lock,
        observe_sinks(opened.storage),
        overtaken_commits(table, opened),
        find_late_writer(opened, listing.timeline),
    )
    provider = lock.provider if opened.is_foreign else lock_provider(opened.storage)
    lost = opened.list_lost_history()
    if mark.listing_hash == listing_hash(listing, beats):
        return Observed(listing, beats, markers, claims, provider, lost, mark, None)
    by_instant = {beat.instant: beat for beat in beats}
    known = _known(table, mark)
    changed = [one for one in listing.timeline.instants if _is_news(one, known)]
    wanted = changed[-INSTANTS_PER_PASS_MAX:]
    files, problem = _list_files(opened, listing)
    counts = RowCounts(load_counts(table, mark), files)
    note = counts.count_written
    read = [
        facts.instant_facts(opened, instant, by_instant.get(instant.requested_at), note)
        for instant in wanted
    ]
    conflicts = [
        conflict
        for loser in _undone(table, listing, mark)
        if (conflict := facts.conflict_facts(opened.storage, loser))
    ]
    times = file_times(opened)
    present = [
        replace(one, file_times=times.get(phase_key(one.instant), {}))
        for one in read
        if one is not None
    ]
    completed = [key for key, (state, _) in known.items() if state == State.COMPLETED.value]
    archive = read_archive(table, opened, listing, mark, completed, note)
    counts.count_by_footers(opened.storage)
    return Observed(
        listing=listing,
        beats=beats,
        markers=markers,
        claims=claims,
        lock_provider=provider,
        lost_history=lost,
        mark=mark,
        instants=present,
        conflicts=conflicts,
        undone=read_undone(table, opened.storage, listing, mark),
        archive=archive,
        files=files,
        base_rows=counts.rows,
        problem=problem,
        is_complete=len(present) == len(changed) and archive.is_complete and counts.is_complete,
    )


def _undone(table: Table, listing: Listing, mark: SyncMark) -> list[str]:
    """Decided instants that completed nowhere, and whose story is not known."""
    completed = {one.requested_at for one in listing.timeline.iterate_completed()}
    left = (listing.decided | listing.lost) - completed
    if not left:
        return []
    conflicts = mark.stored(table.conflicts.all(), "conflicts")
    left -= set(conflicts.values_list("loser_instant", flat=True))
    archived = InstantRecord.objects.filter(
        table=table, is_archived=True, requested_at__in=sorted(left)
    )
    times = mark.stored(archived, HISTORY).values_list("requested_at", flat=True)
    return sorted(left - set(times))


def _list_files(opened: engine.Table, listing: Listing) -> tuple[FileListing | None, str]:
    """A file that nobody can place must not hide the timeline."""
    try:
        groups_max = settings.SLUICE_MIRROR_FILE_GROUPS_MAX
        return list_file_groups(opened, listing.timeline, groups_max), ""
    except (MalformedTable, UnsupportedTable) as error:
        return None, str(error)[:ERROR_CHARS_MAX]


def held_by(late: LateWriter | None) -> dict[str, str]:
    return {"instant": late.instant, "writer": str(late)} if late else {}


def _known(table: Table, mark: SyncMark) -> dict[Key, tuple[str, InstantTime | None]]:
    """State and completion of the instants that the mirror has of the active timeline."""
    columns = ("requested_at", "action", "state", "completed_at")
    rows = InstantRecord.objects.filter(table=table, is_archived=False)
    active = mark.stored(rows, "instants")
    return {
        (requested_at, action): (state, completed_at)
        for requested_at, action, state, completed_at in active.values_list(*columns)
    }


def _is_news(instant: Instant, known: Mapping[Key, tuple[str, InstantTime | None]]) -> bool:
    """Whether the mirror does not have it as it is. A pending one always: its heartbeat tells more
    later.
    """
    as_is = (instant.state.value, instant.completed_at)
    return not instant.is_completed or known.get(key_of(instant)) != as_is


def listing_hash(listing: Listing, beats: list[Heartbeat]) -> str:
    """Includes who has a heartbeat: a pending instant's writer is known from there alone."""
    pending = {one.requested_at for one in listing.timeline.pending()}
    named = sorted(beat.instant for beat in beats if beat.instant in pending)
    return sha256(" ".join([PROJECTION, listing.fingerprint, *named]).encode()).hexdigest()


def claims_hash(opened: engine.Table, observed: Observed) -> str:
    """A hash of all that a pass applies besides the listing. No sets are among it: they have no
    order.
    """
    claims = observed.claims
    said = (
        PROJECTION,
        sorted(opened.properties.items()),
        opened.write_refusal,
        opened.is_foreign,
        observed.lock_provider,
        observed.lost_history,
        observed.beats,
        observed.markers,
        replace(claims, late=None),
        sorted(held_by(claims.late).items()),
    )
    return sha256(repr(said).encode()).hexdigest()
