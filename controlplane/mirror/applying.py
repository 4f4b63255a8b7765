"""What one pass read becomes rows: in one transaction, and only while the turn is still its own."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.events import Kind, publish_change
from controlplane.mirror.apply import (
    apply_conflicts,
    apply_heartbeats,
    apply_markers,
    describe_table,
    forgets_heartbeats_at,
)
from controlplane.mirror.apply_claims import apply_directories, apply_lock
from controlplane.mirror.apply_files import apply_file_groups
from controlplane.mirror.apply_instants import apply_instants
from controlplane.mirror.apply_properties import described_properties
from controlplane.mirror.apply_read_otherwise import read_otherwise_now
from controlplane.mirror.apply_schemas import rebuild_schemas
from controlplane.mirror.apply_sinks import apply_sinks
from controlplane.mirror.apply_undone import apply_undone
from controlplane.mirror.file_totals import store_file_totals
from controlplane.mirror.health_history import describe_lost
from controlplane.mirror.history_counts import keep_counts
from controlplane.mirror.models import SyncMark
from controlplane.mirror.observing import PROJECTION, Observed, held_by, listing_hash
from controlplane.mirror.problems import note_files_problem
from controlplane.mirror.repairing import HistorySum, forget_rows, note_sums
from controlplane.mirror.row_sums import OF_BOTH, OF_CLAIMS, OF_LISTING
from controlplane.mirror.turns import Turn
from controlplane.tables.models import Table
from workers.table import table as engine

log = logging.getLogger(__name__)

UNPROVED_MAX = 100
UNMARKED_MAX = 100
"""Instants that are named; there are hardly ever any."""


def apply_observed(
    opened: engine.Table, observed: Observed, turn: Turn, claims: str, began: datetime
) -> frozenset[Kind] | None:
    """What changed; None when the turn was lost, and nothing was applied.

    `claims` is the hash of what was read besides the listing, `began` when reading began.
    """
    table = turn.table
    properties = described_properties(table, opened, observed.claims.overtaken, timezone.now())
    changed: set[Kind] = set()
    written: list[str] = []
    synced: dict[str, Any] = {"synced_at": began}
    with transaction.atomic():
        # There is none of a table that was unregistered meanwhile.
        mark = SyncMark.objects.select_for_update().filter(table=table).first()
        if mark is None or mark.running_until != turn.until:
            log.warning("sync lost its lease and applied nothing: table=%s", table.slug)
            return None
        if observed.mark.forgotten:
            forget_rows(table, observed.mark.forgotten)
            mark.refresh_from_db()
        history = HistorySum(table, mark, observed.archive)
        if observed.instants is not None:
            changed |= _apply_listing(table, opened, observed, mark)
            note_files_problem(mark, observed.problem, began)
            synced["sync_error"] = observed.problem
            if table.sync_error != observed.problem:
                changed.add("instants")
            written += OF_LISTING
        if _are_new(claims, mark, began):
            describe_table(table, opened, observed.lock_provider, properties)
            changed |= _apply_claims(table, mark, observed)
            # Whom the lock's history names is noted at each look while it is held.
            mark.claims_hash = "" if observed.claims.lock.holder else claims
            mark.claims_until = forgets_heartbeats_at(table, mark)
            written += OF_CLAIMS
        # After the instants: a sink's offsets are those of its newest commit.
        if (observed.claims.sinks or "table" in written) and apply_sinks(
            table, mark, observed.claims.sinks
        ):
            changed.add("sinks")
        holder = held_by(observed.claims.late)
        if mark.held_by != holder:
            mark.held_by = holder
            changed.add("instants")
        lost = describe_lost(observed.lost_history)
        if mark.lost_history != lost:
            mark.lost_history = lost
            changed.add("instants")
        mark.synced_at, mark.made_by = began, PROJECTION
        note_sums(table, mark, [*written, *OF_BOTH], history)
        keep_counts(table, mark, observed.archive)
        mark.save(update_fields=_columns(turn))
        Table.objects.filter(pk=table.pk).update(**synced)
        for kind in sorted(changed):
            publish_change(table.slug, kind)
    return frozenset(changed)


def _are_new(claims: str, mark: SyncMark, now: datetime) -> bool:
    """Whether they are not those that were applied last, or some of them run out."""
    return mark.claims_hash != claims or (
        mark.claims_until is not None and now >= mark.claims_until
    )


def _apply_listing(
    table: Table, opened: engine.Table, observed: Observed, mark: SyncMark
) -> set[Kind]:
    """Instants, and all that is read when they change."""
    changed = set[Kind]()
    assert observed.instants is not None, observed.listing
    applied = apply_instants(table, mark, observed.listing, observed.instants, observed.archive)
    if applied.needs_schemas or "schemas" not in mark.sums:
        read = [*observed.instants, *observed.archive.contents]
        rebuild_schemas(table, mark, opened, read)
    if apply_undone(table, mark, observed.undone, applied.gone) or applied.is_changed:
        changed.add("instants")
    if apply_conflicts(table, mark, observed.listing, observed.conflicts):
        changed.add("conflicts")
    if observed.files is not None:
        files = apply_file_groups(table, mark, observed.files, observed.base_rows)
        if files.is_changed:
            changed.add("files")
        store_file_totals(table, files.records, files.left_out)
        mark.file_groups_left_out = len(observed.files.left_out)
        mark.unproved = list(observed.files.unproved[:UNPROVED_MAX])
        mark.unmarked = list(observed.files.unmarked[:UNMARKED_MAX])
    mark.read_otherwise = read_otherwise_now(
        table, observed.files.left_out if observed.files else ()
    )
    mark.history_version = str(observed.listing.history or "")
    if mark.names_only or observed.archive.names.num_rows:
        mark.names_only = table.instants.filter(has_content=False).count()
    mark.listing_hash = (
        listing_hash(observed.listing, observed.beats) if observed.is_complete else ""
    )
    completed = observed.listing.timeline.iterate_completed()
    mark.last_completed_at = max((one.completed_at for one in completed), default="")
    return changed


def _apply_claims(table: Table, mark: SyncMark, observed: Observed) -> set[Kind]:
    """What changes without a name on the timeline."""
    now, changed = timezone.now(), set[Kind]()
    if apply_heartbeats(table, mark, observed.beats, now):
        changed.add("writers")
    is_changed = apply_markers(table, mark, observed.markers)
    if apply_directories(table, mark, observed.claims.directories, now) or is_changed:
        changed.add("markers")
    if apply_lock(table, mark, observed.claims.lock, now):
        changed.add("locks")
    return changed


def _columns(turn: Turn) -> list[str]:
    """All of the mark but whose turn it is, and what its rounds note."""
    others = {
        "id",
        "table",
        "running_until",
        "running_by",
        "tried_at",
        "changed_at",
        "look_at",
        "measured_at",
    }
    others |= {"sight", "repaired_at", *turn.ending}
    return [one.name for one in SyncMark._meta.concrete_fields if one.name not in others]
