"""The log of an operation, read: pages in both directions, by level and text."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet

from controlplane.operations.models import LogLine
from controlplane.tables.messages import select_log_line

LEVELS = ("debug", "info", "warning", "error", "critical")
LINES_SHOWN = 200
LINES_MAX = 1_000
TEXT_CHARS_MAX = 200
VALUES_NEED = (
    "values of rows are hidden: they need the right to read all rows and columns of every table "
    "that the operation reads and writes"
)
SEARCH_NEEDS = (
    "a search in this log needs the right to read all rows and columns of every table that the "
    "operation reads and writes; leave the text out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLineRow:
    id: int
    at: datetime
    level: str
    """One of `LEVELS`."""
    source: str
    """The logger, `output` for what a process wrote beside its logs, `log` for the log itself."""
    message: str
    host: str
    attempt: int
    """1 at first."""
    dropped: int
    """How many lines it stands in the place of."""

    @property
    def as_text(self) -> str:
        at = self.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        where = f"{self.host}#{self.attempt}"
        return f"{at} {self.level.upper():8} {where} {self.source} {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    rows: list[LogLineRow]
    """In the order in which they arrived."""
    older: int | None
    """Hand it back as `before`; None where there is nothing older."""
    newer: int | None
    """Hand it back as `after`, at any time; None while there is no line at all."""


def log_page(
    operation_id: UUID,
    *,
    is_whole: bool,
    level: str = "",
    text: str = "",
    before: int | None = None,
    after: int | None = None,
    limit: int = LINES_SHOWN,
) -> LogPage:
    """The newest lines; those older than `before`; or those newer than `after`, the oldest first.

    From `level` on (`LEVELS`; empty is every level), whose message or source contains `text`. One
    query. Ask `access_table` before showing it. `is_whole`: whether lines are shown whole
    (`query_sources.shown_whole`). Raises PermissionDenied for a search in lines that are not.
    """
    lines = _lines(operation_id, level, text, is_whole=is_whole)
    limit = max(1, min(limit, LINES_MAX))
    if after is not None:
        rows = [
            _row(line, is_whole=is_whole)
            for line in lines.filter(id__gt=after).order_by("id")[:limit]
        ]
        return LogPage(
            rows=rows,
            older=rows[0].id if rows else None,
            newer=rows[-1].id if rows else after,
        )
    if before is not None:
        lines = lines.filter(id__lt=before)
    newest = [_row(line, is_whole=is_whole) for line in lines.order_by("-id")[: limit + 1]]
    rows = newest[:limit][::-1]
    return LogPage(
        rows=rows,
        older=rows[0].id if len(newest) > limit else None,
        newer=rows[-1].id if rows else None,
    )


def log_as_text(
    operation_id: UUID, *, is_whole: bool, level: str = "", text: str = ""
) -> Iterator[str]:
    """Every line that is kept, each with its line break. Raises PermissionDenied as `log_page`."""
    lines = _lines(operation_id, level, text, is_whole=is_whole).order_by("id").iterator()
    return (f"{_row(line, is_whole=is_whole).as_text}\n" for line in lines)


def _lines(operation_id: UUID, level: str, text: str, *, is_whole: bool) -> QuerySet[LogLine]:
    if text and not is_whole:
        raise PermissionDenied(SEARCH_NEEDS)
    lines = LogLine.objects.filter(operation=operation_id)
    if level:
        lines = lines.filter(level__gte=10 * (1 + LEVELS.index(level)))
    if text:
        lines = lines.filter(message__icontains=text) | lines.filter(source__icontains=text)
    return lines


def _row(line: LogLine, *, is_whole: bool) -> LogLineRow:
    return LogLineRow(
        id=line.pk,
        at=line.at,
        level=logging.getLevelName(line.level).lower(),
        source=line.source,
        message=select_log_line(line.message, line.source, is_whole=is_whole),
        host=line.host,
        attempt=line.attempt + 1,
        dropped=line.dropped,
    )
