"""The sync: one pass makes the mirror of one table equal to its storage, after any gap, and does
nothing twice.

Facts are read outside any transaction, then applied in one, and only by the holder of the table's
sync turn: a pass that lost its turn applies nothing, so facts are never overwritten by older ones
(invariant MR2).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.events import Kind, publish_change
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
from controlplane.mirror.apply_properties import described_properties
from controlplane.mirror.apply_read_otherwise import read_otherwise_now
from controlplane.mirror.apply_sinks import apply_sinks
from controlplane.mirror.apply_undone import apply_undone
from controlplane.mirror.models import LockRecord, SyncMark
from controlplane.mirror.observing import (
    ERROR_CHARS_MAX,
    Observed,
    claims_hash,
    held_by,
    listing_hash,
    observe,
)
from controlplane.mirror.storage import engine_table
from controlplane.mirror.turns import Turn, given_back, take_turn
from controlplane.tables.models import Table
from workers.errors import LakehouseError
from workers.table import table as engine

log = logging.getLogger(__name__)

UNPROVED_MAX = 100
"""Instants that are named; there are hardly ever any."""


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
    except SyncMark.DoesNotExist:
        return Looked()  # It was unregistered meanwhile.
    except (LakehouseError, ControlPlaneError, OSError) as error:
        reason = str(error)[:ERROR_CHARS_MAX]
        _note_error(table, reason)
        return Looked(error=reason)
    now, mark = timezone.now(), observed.mark
    claims = claims_hash(opened, observed)
    is_known = observed.instants is None and mark.claims_hash == claims
    if is_known and (mark.claims_until is None or now < mark.claims_until):
        turn.ending["synced_at"] = now
        Table.objects.filter(pk=table.pk).update(synced_at=now)
        return Looked(changed_at=mark.changed_at, is_whole=True, error=table.sync_error)
    changed = _apply(opened, observed, turn, claims)
    if changed is None:
        return Looked()
    return Looked(
        changed=changed,
        changed_at=mark.changed_at,
        is_whole=observed.is_complete,
        error=table.sync_error if observed.instants is None else observed.problem,
    )


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
    opened: engine.Table, observed: Observed, turn: Turn, claims: str
) -> frozenset[Kind] | None:
    """What changed; None when the turn was lost, and nothing was applied."""
    table, now = turn.table, timezone.now()
    changed: set[Kind] = set()
    with transaction.atomic():
        # There is none of a table that was unregistered meanwhile.
        mark = SyncMark.objects.select_for_update().filter(table=table).first()
        if mark is None or mark.running_until != turn.until:
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
                listing_hash(observed.listing, observed.beats) if observed.is_complete else ""
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
        holder = held_by(observed.claims.late)
        if mark.held_by != holder:
            mark.held_by = holder
            changed.add("instants")
        synced: dict[str, Any] = {"synced_at": now}
        if observed.instants is not None:
            synced["sync_error"] = observed.problem
        mark.synced_at = now
        # Whom the lock's history names is noted at each look while it is held.
        mark.claims_hash = "" if observed.claims.lock.holder else claims
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


def _note_error(table: Table, error: str) -> None:
    if table.sync_error == error:
        return
    log.warning("table cannot be synced: table=%s error=%s", table.slug, error)
    Table.objects.filter(pk=table.pk).update(sync_error=error)
    # So that the next pass reads it all, and takes the error away when there is none.
    SyncMark.objects.filter(table=table).update(listing_hash="", claims_hash="")
    publish_change(table.slug, "instants")
