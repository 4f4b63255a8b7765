"""The sync: one pass makes the mirror of one table equal to its storage, after any gap, and does
nothing twice.

Facts are read outside any transaction, then applied in one, and only by the holder of the table's
sync turn: a pass that lost its turn applies nothing, so facts are never overwritten by older ones
(invariant MR2).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.events import Kind, publish_change
from controlplane.mirror import facts
from controlplane.mirror.apply import (
    apply_conflicts,
    apply_heartbeats,
    apply_instants,
    apply_markers,
    describe_table,
    forgets_heartbeats_at,
    rebuild_schemas,
)
from controlplane.mirror.apply_claims import apply_directories, apply_lock
from controlplane.mirror.apply_files import apply_file_groups
from controlplane.mirror.apply_properties import described_properties, overtaken_commits
from controlplane.mirror.apply_read_otherwise import read_otherwise_now
from controlplane.mirror.apply_sinks import apply_sinks
from controlplane.mirror.apply_undone import apply_undone
from controlplane.mirror.archive_facts import ArchiveFacts, read_archive
from controlplane.mirror.claim_facts import DirectoryFacts, directory_facts
from controlplane.mirror.conflict_facts import ConflictFacts
from controlplane.mirror.facts import InstantFacts, Listing, MarkerFacts
from controlplane.mirror.file_facts import FileListing, list_file_groups
from controlplane.mirror.models import InstantRecord, LockRecord, SyncMark
from controlplane.mirror.sink_facts import SinkFacts, observe_sinks
from controlplane.mirror.storage import engine_table
from controlplane.mirror.turns import Turn, given_back, take_turn
from controlplane.mirror.undone_facts import UndoneFacts, read_undone
from controlplane.tables.models import Table
from workers.concurrency.heartbeat import Heartbeat, read_heartbeats
from workers.concurrency.late_writers import LateWriter
from workers.concurrency.locks.binding import lock_provider
from workers.concurrency.locks.showing import LockView, read_lock
from workers.errors import LakehouseError, MalformedTable, UnsupportedTable
from workers.table import table as engine
from workers.table.overtaken import Overtaken
from workers.table_services.archive_policy import late_writer_hold
from workers.timeline.instant import Instant

log = logging.getLogger(__name__)

INSTANTS_PER_PASS_MAX = 2000
"""More than this are read over several passes, newest first, so that no pass outlives its turn."""
ERROR_CHARS_MAX = 500
UNPROVED_MAX = 100
"""Instants that are named; there are hardly ever any."""
_PROJECTION = "7"
"""Changes with what is mirrored: a mirror that an older program made is read again."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What changes without a name on the timeline: markers, who has the lock, sinks, and what other
    engines did meanwhile.
    """

    directories: list[DirectoryFacts]
    lock: LockView
    sinks: list[SinkFacts]
    overtaken: list[Overtaken]
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
    mark: SyncMark
    """As it was before this pass."""
    instants: list[InstantFacts] | None
    """Those that are new or changed; None when the listing is the one that was applied last."""
    conflicts: list[ConflictFacts] = field(default_factory=list)
    undone: list[UndoneFacts] = field(default_factory=list)
    archive: ArchiveFacts = field(default_factory=ArchiveFacts)
    files: FileListing | None = None
    """None as well when files cannot be listed; `problem` says why."""
    problem: str = ""
    is_complete: bool = True
    """False when something vanished while it was read, or was left: the next pass must not skip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at a table found."""

    changed: frozenset[Kind] = frozenset()
    changed_at: datetime | None = None
    """When a round found something new before."""
    is_whole: bool = False
    """All that was there to be read was read, and applied."""
    error: str = ""
    """Why it, or its files, could not be read."""


def sync_table(table: Table) -> frozenset[Kind] | None:
    """Make the mirror of `table` equal to its storage. What changed; None when another process is
    at it.

    What storage or the table's content refuses ends up in `sync_error`, never as an exception.
    """
    turn = take_turn(table)
    if turn is None:
        return None
    with given_back(turn):
        return look(turn).changed


def look(turn: Turn) -> Looked:
    """The same, by whoever has the turn. A look that finds nothing asks the database twice, and
    says the rest when the turn is given back.
    """
    table = turn.table
    try:
        opened = engine_table(table)
        observed = observe(table, opened)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        reason = str(error)[:ERROR_CHARS_MAX]
        _note_error(table, reason)
        return Looked(error=reason)
    now, mark = timezone.now(), observed.mark
    claims_hash = _claims_hash(opened, observed)
    is_known = observed.instants is None and mark.claims_hash == claims_hash
    if is_known and (mark.claims_until is None or now < mark.claims_until):
        turn.ending["synced_at"] = now
        Table.objects.filter(pk=table.pk).update(synced_at=now)
        return Looked(changed_at=mark.changed_at, is_whole=True, error=table.sync_error)
    changed = _apply(opened, observed, turn, claims_hash)
    if changed is None:
        return Looked()
    return Looked(
        changed=changed,
        changed_at=mark.changed_at,
        is_whole=observed.is_complete,
        error=table.sync_error if observed.instants is None else observed.problem,
    )


def observe(table: Table, opened: engine.Table) -> Observed:
    """Read what changed since the pass that stored the mark."""
    listing = facts.list_table(opened)
    beats = read_heartbeats(opened.storage)
    names = facts.marker_names(opened.storage)
    markers = facts.marker_facts(names)
    claims = Claims(
        [directory_facts(opened.storage, instant, names[instant]) for instant in names],
        read_lock(opened.storage, opened.ports.clock.now_ms()),
        observe_sinks(opened.storage),
        overtaken_commits(table, opened),
        late_writer_hold(opened, listing.timeline),
    )
    provider = lock_provider(opened.storage)
    mark = SyncMark.objects.get(table=table)
    if mark.listing_hash == _listing_hash(listing, beats):
        return Observed(listing, beats, markers, claims, provider, mark, None)
    by_instant = {beat.instant: beat for beat in beats}
    changed = _changed(table, listing)
    wanted = changed[-INSTANTS_PER_PASS_MAX:]
    read = [
        facts.instant_facts(opened, instant, by_instant.get(instant.requested_at))
        for instant in wanted
    ]
    conflicts = [
        conflict
        for loser in _undone(table, listing)
        if (conflict := facts.conflict_facts(opened.storage, loser))
    ]
    present = [one for one in read if one is not None]
    archive = read_archive(table, opened, listing, known_version=mark.history_version)
    files, problem = _list_files(opened, listing)
    return Observed(
        listing=listing,
        beats=beats,
        markers=markers,
        claims=claims,
        lock_provider=provider,
        mark=mark,
        instants=present,
        conflicts=conflicts,
        undone=read_undone(table, opened.storage, listing),
        archive=archive,
        files=files,
        problem=problem,
        is_complete=len(present) == len(changed) and archive.is_complete,
    )


def _undone(table: Table, listing: Listing) -> list[str]:
    """Decided instants that completed nowhere, and whose story is not known."""
    completed = {one.requested_at for one in listing.timeline.completed()}
    known = set(table.conflicts.values_list("loser_instant", flat=True))
    left = (listing.decided | listing.lost) - completed - known
    archived = InstantRecord.objects.filter(
        table=table, is_archived=True, requested_at__in=sorted(left)
    )
    return sorted(left - set(archived.values_list("requested_at", flat=True)))


def _list_files(opened: engine.Table, listing: Listing) -> tuple[FileListing | None, str]:
    """A file that nobody can place must not hide the timeline."""
    try:
        return list_file_groups(opened, listing.timeline), ""
    except (MalformedTable, UnsupportedTable) as error:
        return None, str(error)[:ERROR_CHARS_MAX]


def forget_mirror(table: Table) -> None:
    """Empty the mirror of one table; the next sync brings all of it back."""
    with transaction.atomic():
        table.instants.all().delete()
        table.undone.all().delete()
        table.schemas.all().delete()
        table.heartbeats.all().delete()
        table.marker_counts.all().delete()
        table.marker_directories.all().delete()
        LockRecord.objects.filter(table=table).delete()
        table.conflicts.all().delete()
        table.file_groups.all().delete()
        table.sinks.all().delete()
        SyncMark.objects.filter(table=table).update(
            listing_hash="", claims_hash="", last_completed_at="", history_version=""
        )


def _apply(
    opened: engine.Table, observed: Observed, turn: Turn, claims_hash: str
) -> frozenset[Kind] | None:
    """What changed; None when the turn was lost, and nothing was applied."""
    table, now = turn.table, timezone.now()
    changed: set[Kind] = set()
    with transaction.atomic():
        mark = SyncMark.objects.select_for_update().get(table=table)
        if mark.running_until != turn.until:
            log.warning("sync lost its turn and applies nothing: table=%s", table.slug)
            return None
        properties = described_properties(table, opened, observed.claims.overtaken, now)
        describe_table(table, opened, observed.lock_provider, properties)
        if observed.instants is not None:
            applied = apply_instants(table, observed.listing, observed.instants, observed.archive)
            if applied.needs_schemas:
                rebuild_schemas(table, opened)
            if apply_undone(table, observed.undone, applied.gone) or applied.is_changed:
                changed.add("instants")
            if apply_conflicts(table, observed.listing, observed.conflicts):
                changed.add("conflicts")
            if observed.files is not None:
                if apply_file_groups(table, observed.files):
                    changed.add("files")
                mark.file_groups_left_out = observed.files.left_out
                mark.unproved = list(observed.files.unproved[:UNPROVED_MAX])
            mark.read_otherwise = read_otherwise_now(table)
            if observed.archive.is_complete:
                mark.history_version = str(observed.listing.history or "")
            mark.listing_hash = (
                _listing_hash(observed.listing, observed.beats) if observed.is_complete else ""
            )
            completed = observed.listing.timeline.completed()
            mark.last_completed_at = max((one.completed_at for one in completed), default="")
        if apply_heartbeats(table, observed.beats, now):
            changed.add("writers")
        is_changed = apply_markers(table, observed.markers)
        if apply_directories(table, observed.claims.directories, now) or is_changed:
            changed.add("markers")
        if apply_lock(table, observed.claims.lock, now):
            changed.add("locks")
        if apply_sinks(table, observed.claims.sinks):
            changed.add("sinks")
        held_by = _told(observed.claims.late)
        if mark.held_by != held_by:
            mark.held_by = held_by
            changed.add("instants")
        synced: dict[str, Any] = {"synced_at": now}
        if observed.instants is not None:
            synced["sync_error"] = observed.problem
        mark.synced_at = now
        # Whom the lock's history names is noted at each look while it is held.
        mark.claims_hash = "" if observed.claims.lock.holder else claims_hash
        mark.claims_until = forgets_heartbeats_at(table)
        mark.save(
            update_fields=[
                "listing_hash",
                "claims_hash",
                "claims_until",
                "last_completed_at",
                "history_version",
                "file_groups_left_out",
                "held_by",
                "unproved",
                "read_otherwise",
                "synced_at",
            ]
        )
        Table.objects.filter(pk=table.pk).update(**synced)
        for kind in sorted(changed):
            publish_change(table.slug, kind)
    return frozenset(changed)


def _told(late: LateWriter | None) -> dict[str, str]:
    return {"instant": late.instant, "writer": str(late)} if late else {}


def _changed(table: Table, listing: Listing) -> list[Instant]:
    """Instants that the mirror does not have as they are. Pending ones always: their heartbeat
    tells more later.
    """
    known = {
        (requested_at, action): (state, completed_at)
        for requested_at, action, state, completed_at in InstantRecord.objects.filter(
            table=table, is_archived=False
        ).values_list("requested_at", "action", "state", "completed_at")
    }
    return [
        one
        for one in listing.timeline.instants
        if not one.is_completed
        or known.get((one.requested_at, one.action.value)) != (one.state.value, one.completed_at)
    ]


def _listing_hash(listing: Listing, beats: list[Heartbeat]) -> str:
    """Includes who has a heartbeat: a pending instant's writer is known from there alone."""
    pending = {one.requested_at for one in listing.timeline.pending()}
    named = sorted(beat.instant for beat in beats if beat.instant in pending)
    return sha256(" ".join([_PROJECTION, listing.fingerprint, *named]).encode()).hexdigest()


def _claims_hash(opened: engine.Table, observed: Observed) -> str:
    """Of all that a pass applies besides the listing. No sets are among it: they have no order."""
    claims = observed.claims
    said = (
        _PROJECTION,
        sorted(opened.properties.items()),
        opened.write_refusal,
        opened.is_foreign,
        observed.lock_provider,
        observed.beats,
        observed.markers,
        replace(claims, late=None),
        sorted(_told(claims.late).items()),
    )
    return sha256(repr(said).encode()).hexdigest()


def _note_error(table: Table, error: str) -> None:
    if table.sync_error == error:
        return
    log.warning("table cannot be synced: table=%s error=%s", table.slug, error)
    Table.objects.filter(pk=table.pk).update(sync_error=error)
    # So that the next pass reads it all, and takes the error away when there is none.
    SyncMark.objects.filter(table=table).update(listing_hash="", claims_hash="")
    publish_change(table.slug, "instants")
