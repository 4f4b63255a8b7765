"""What a table's services and its history do to its timeline: how far back cleaning keeps files,
which moments a savepoint keeps, and where the history begins. Reads of the mirror, one query each.

All but the border look at the active timeline alone, so a long history costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant

SAVEPOINTS_MAX = 100


@dataclass(frozen=True, slots=True)
class RetainedRange:
    """Every state of the table since `since` can still be read."""

    since: InstantTime
    """Empty where the newest clean does not say: it kept versions, not commits."""
    clean: InstantTime
    """The clean that says so."""

    @property
    def since_ms(self) -> int | None:
        """Epoch ms of `since`, where the clean says it."""
        return parse_instant(self.since) if self.since else None


@dataclass(frozen=True, slots=True)
class KeptMoment:
    """A completed savepoint."""

    commit: InstantTime
    made_at: InstantTime
    by: str
    comment: str

    @property
    def commit_ms(self) -> int:
        """Epoch ms of `commit`."""
        return parse_instant(self.commit)


@dataclass(frozen=True, slots=True)
class ArchiveBorder:
    """Instants up to this one were moved from the active timeline into the history."""

    newest: InstantTime
    completed_at: InstantTime
    first_active: InstantTime
    """Empty where the active timeline has none."""

    @property
    def completed_ms(self) -> int:
        """Epoch ms of `completed_at`."""
        return parse_instant(self.completed_at)


def retained_range(table: Table) -> RetainedRange | None:
    """By the newest clean of the active timeline; None where it has none."""
    clean = (
        _active(table)
        .filter(action="clean", state="completed")
        .order_by("-requested_at")
        .values_list("requested_at", "metadata__earliest_to_retain")
        .first()
    )
    return None if clean is None else RetainedRange(since=str(clean[1] or ""), clean=clean[0])


def kept_moments(table: Table) -> list[KeptMoment]:
    """Newest commit first, the newest hundred."""
    savepoints = (
        _active(table)
        .filter(action="savepoint", state="completed")
        .order_by("-requested_at")
        .values_list("requested_at", "completed_at", "metadata__by", "metadata__comment")
    )
    return [
        KeptMoment(commit, made_at or commit, str(by or ""), str(comment or ""))
        for commit, made_at, by, comment in savepoints[:SAVEPOINTS_MAX]
    ]


def archive_border(table: Table) -> ArchiveBorder | None:
    """None where nothing was archived. Two queries."""
    newest = (
        InstantRecord.objects.filter(table=table, is_archived=True)
        .order_by("-requested_at")
        .values_list("requested_at", "completed_at")
        .first()
    )
    if newest is None:
        return None
    first = _active(table).order_by("requested_at").values_list("requested_at", flat=True).first()
    return ArchiveBorder(newest[0], newest[1] or newest[0], first or "")


def _active(table: Table) -> QuerySet[InstantRecord]:
    return InstantRecord.objects.filter(table=table, is_archived=False)
