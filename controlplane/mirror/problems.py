"""A table that cannot be read: since when, and why. Its last good rows stay until it can again."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db.models import F
from django.db.models.functions import Coalesce

from controlplane.events import publish_change
from controlplane.mirror.models import SyncMark
from controlplane.mirror.observing import ERROR_CHARS_MAX
from controlplane.tables.models import Table
from controlplane.tables.problems import Problem, problem_of

log = logging.getLogger(__name__)


def note_problem(table: Table, mark: SyncMark, error: Exception, at: datetime) -> None:
    """It could not be read `at` this time. The same again is no news."""
    text, problem = str(error)[:ERROR_CHARS_MAX], problem_of(error, table.location)
    if (table.sync_error, mark.problem) == (text, problem.value):
        return
    log.warning(
        "table cannot be synced: table=%s problem=%s error=%s", table.slug, problem.value, text
    )
    Table.objects.filter(pk=table.pk).update(sync_error=text)
    # So that the next pass reads it all, and takes the error away when there is none.
    SyncMark.objects.filter(table=table).update(
        problem=problem.value,
        failing_since=Coalesce(F("failing_since"), at),
        listing_hash="",
        claims_hash="",
    )
    publish_change(table.slug, "instants")


def note_files_problem(mark: SyncMark, problem: str, at: datetime) -> None:
    """It was read, all but its files where there is a problem. Changes the mark, saves nothing."""
    mark.problem = Problem.FILES.value if problem else ""
    mark.failing_since = (mark.failing_since or at) if problem else None
