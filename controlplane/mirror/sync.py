"""The sync: one pass makes the mirror of one table equal to its storage, after any gap, and does
nothing twice.

Facts are read outside any transaction, then applied in one, and only by the holder of the table's
sync turn: a pass that lost its turn applies nothing, so facts are never overwritten by older ones
(invariant MR2). On SQLite a transaction locks the whole database, and storage may be slow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.events import Kind
from controlplane.mirror.applying import apply_observed
from controlplane.mirror.history_counts import is_count_due
from controlplane.mirror.models import SyncMark
from controlplane.mirror.observing import ERROR_CHARS_MAX, PROJECTION, claims_hash, observe
from controlplane.mirror.problems import note_problem
from controlplane.mirror.repairing import forget_rows, mark_without
from controlplane.mirror.row_sums import KINDS
from controlplane.mirror.storage import engine_table
from controlplane.mirror.turns import Turn, given_back, take_turn
from controlplane.tables.models import Table
from workers.errors import LakehouseError, MalformedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at a table found."""

    changed: frozenset[Kind] = frozenset()
    changed_at: datetime | None = None
    """When a round found something new before."""
    is_whole: bool = False
    """All that was there to be read was read, and applied."""
    is_applied: bool = True
    """False when it could not be read, or another process has the turn: no row was touched."""
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

    A mirror that an older program made is thrown away and read anew, in one transaction: nobody
    sees it empty.
    """
    mark = SyncMark.objects.filter(table=turn.table).first()
    if mark is None or mark.synced_at is None or mark.made_by == PROJECTION:
        return _look(turn, mark)
    return read_anew(turn, [kind for kind in KINDS if kind != "undone"])


def read_anew(turn: Turn, kinds: Collection[str]) -> Looked:
    """Forget the rows of these kinds and read the table, all or nothing.

    Of a table that cannot be read now all stays as it was.
    """
    mark = SyncMark.objects.filter(table=turn.table).first()
    looked = _look(turn, mark and mark_without(mark, kinds))
    if looked.is_applied:
        turn.ending["repaired_at"] = timezone.now()
    return looked


def forget_mirror(table: Table) -> None:
    """Empty the mirror of one table; the next sync brings all of it back."""
    with transaction.atomic():
        forget_rows(table, KINDS)


def _look(turn: Turn, mark: SyncMark | None) -> Looked:
    table, began = turn.table, timezone.now()
    if mark is None:
        return Looked(is_applied=False)  # It was unregistered meanwhile.
    try:
        opened = engine_table(table)
        observed = observe(table, opened, mark)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        note_problem(table, mark, error, began)
        return Looked(is_applied=False, error=str(error)[:ERROR_CHARS_MAX])
    except (MemoryError, RecursionError) as error:  # Not for the other tables of this round.
        damaged = MalformedTable("the table's files take more memory than there is to read them")
        damaged.__cause__ = error
        note_problem(table, mark, damaged, began)
        return Looked(is_applied=False, error=str(damaged)[:ERROR_CHARS_MAX])
    claims = claims_hash(opened, observed)
    is_known = observed.instants is None and mark.claims_hash == claims and not is_count_due(mark)
    if is_known and (mark.claims_until is None or began < mark.claims_until):
        turn.ending["synced_at"] = began
        Table.objects.filter(pk=table.pk).update(synced_at=began)
        return Looked(changed_at=mark.changed_at, is_whole=True, error=table.sync_error)
    changed = apply_observed(opened, observed, turn, claims, began)
    if changed is None:
        return Looked(is_applied=False)
    return Looked(
        changed=changed,
        changed_at=mark.changed_at,
        is_whole=observed.is_complete,
        error=table.sync_error if observed.instants is None else observed.problem,
    )
