"""Cursor paging, newest first: stable while rows are added, and each page costs the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from controlplane.errors import InvalidRequest

PAGE_ROWS = 50
PAGE_ROWS_MAX = 500

_Row = TypeVar("_Row")
_Model = TypeVar("_Model", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row]):
    rows: list[_Row]
    next_cursor: str | None
    """Hand it back for older rows; None at the end."""


def newest_first(
    rows: QuerySet[_Model], *, by: str, cursor: str | None, limit: int = PAGE_ROWS
) -> Page[_Model]:
    """A page ordered by the time field `by`, then by primary key.

    Raises InvalidRequest for a cursor that is none.
    """
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    if cursor:
        at, key = _parsed(cursor)
        try:
            rows = rows.filter(Q((f"{by}__lt", at)) | Q((by, at), ("pk__lt", key)))
        except ValueError as error:
            raise InvalidRequest("this is no cursor", cursor=cursor[:64]) from error
    newest = list(rows.order_by(f"-{by}", "-pk")[: limit + 1])
    page = newest[:limit]
    if len(newest) <= limit:
        return Page(page, None)
    last = page[-1]
    return Page(page, f"{getattr(last, by).isoformat()}_{last.pk}")


def _parsed(cursor: str) -> tuple[datetime, str]:
    time_text, _, key = cursor.rpartition("_")
    try:
        at = datetime.fromisoformat(time_text)
        if at.tzinfo is None or not key:
            raise InvalidRequest("this is no cursor", cursor=cursor[:64])
        return at.astimezone(UTC), key
    except (ValueError, OverflowError) as error:
        raise InvalidRequest("this is no cursor", cursor=cursor[:64]) from error
