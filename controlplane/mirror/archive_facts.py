"""What moved from the active timeline into its history, read once and kept.

The active timeline is listed first and the history after it: an archiver publishes there before it
deletes here, so nothing can be missed between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.mirror.facts import InstantFacts, Key, Listing, completed_facts, key_of
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from workers.table import table as engine
from workers.timeline.archive import ArchivedInstant
from workers.timeline.instant import CompletedInstant

INSTANTS_PER_PASS_MAX = 2000


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    moved: frozenset[Key] = frozenset()
    """Rows that stay and are archived from now on."""
    new: tuple[InstantFacts, ...] = ()
    gone: frozenset[Key] = frozenset()
    """Archived rows that the history does not have any more."""
    is_complete: bool = True
    """False when more is left for the next pass."""


def read_archive(
    table: Table, opened: engine.Table, listing: Listing, *, known_version: str
) -> ArchiveFacts:
    """Nothing is opened while the history is the one that was read last and no row misses its
    instant. Raises MalformedTable.
    """
    present = {key_of(one) for one in listing.timeline.instants}
    rows = set(
        InstantRecord.objects.filter(table=table, state="completed", is_archived=False).values_list(
            "requested_at", "action"
        )
    )
    vanished = rows - present
    if not listing.history or (str(listing.history) == known_version and not vanished):
        return ArchiveFacts()
    archived = {
        key: one.instant
        for one in opened.archived_instants()
        if (key := key_of(one.instant)) not in present
    }
    kept = set(
        InstantRecord.objects.filter(table=table, is_archived=True).values_list(
            "requested_at", "action"
        )
    )
    missing = sorted(archived.keys() - kept - rows)
    wanted = missing[-INSTANTS_PER_PASS_MAX:]
    return ArchiveFacts(
        moved=frozenset(vanished & archived.keys()),
        new=_read(opened, [archived[key] for key in wanted]),
        gone=frozenset(kept - archived.keys()),
        is_complete=len(wanted) == len(missing),
    )


def _read(opened: engine.Table, wanted: list[CompletedInstant]) -> tuple[InstantFacts, ...]:
    if not wanted:
        return ()
    keys = {key_of(one) for one in wanted}
    archived = opened.archived_instants(
        requested_from=wanted[0].requested_at,
        completed_until=max(one.completed_at for one in wanted),
        with_content=True,
    )
    return tuple(_facts(opened, one) for one in archived if key_of(one.instant) in keys)


def _facts(opened: engine.Table, archived: ArchivedInstant) -> InstantFacts:
    if archived.metadata is None:
        return InstantFacts(instant=archived.instant)
    return completed_facts(opened, archived.instant, archived.metadata)
