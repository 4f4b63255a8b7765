"""Cursor paging, newest first: stable while rows are added, and each page costs the same. In
another order it is stable, too, and the database sorts for each page what the filters leave.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import F, Model, Q, QuerySet

from controlplane.errors import InvalidRequest
from workers.json_text import read_json

PAGE_ROWS = 50
PAGE_ROWS_MAX = 500
CURSOR_CHARS_MAX = 1_000
_BY = "sorted_by"

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
            raise InvalidRequest("invalid cursor", cursor=cursor[:64]) from error
    newest = list(rows.order_by(f"-{by}", "-pk")[: limit + 1])
    page = newest[:limit]
    if len(newest) <= limit:
        return Page(page, None)
    last = page[-1]
    return Page(page, f"{getattr(last, by).isoformat()}_{last.pk}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """By which column a list stands."""

    key: str
    """As the caller names it."""
    column: str
    """As a query of the list's model names it."""
    is_descending: bool


def chosen_order(sort: str | None, columns: Mapping[str, str]) -> Order | None:
    """The order that `a` or `-a` names; None for the list's own.

    Raises InvalidRequest for a key that is not among `columns`.
    """
    if not sort:
        return None
    key = sort.removeprefix("-")
    if key not in columns:
        raise InvalidRequest("invalid sort order of the list", unknown=key[:64], known=[*columns])
    return Order(key=key, column=columns[key], is_descending=sort.startswith("-"))


def in_order(
    rows: QuerySet[_Model], order: Order, *, cursor: str | None, limit: int = PAGE_ROWS
) -> Page[_Model]:
    """A page in that order, then by primary key; rows without the value come last either way. Rows
    that are added move none that was shown.

    Raises InvalidRequest for a cursor that is none, and for one of another order.
    """
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    rows = rows.annotate(**{_BY: F(order.column)})
    if cursor:
        rows = rows.filter(_beyond(rows, order, cursor))
    by = F(_BY).desc(nulls_last=True) if order.is_descending else F(_BY).asc(nulls_last=True)
    fetched = list(rows.order_by(by, "-pk" if order.is_descending else "pk")[: limit + 1])
    page = fetched[:limit]
    if len(fetched) <= limit:
        return Page(page, None)
    last = page[-1]
    at = vars(last)[_BY]
    place = [_signed(order), at.isoformat() if isinstance(at, datetime) else at, str(last.pk)]
    return Page(page, urlsafe_b64encode(json.dumps(place).encode()).decode())


def _beyond(rows: QuerySet[_Model], order: Order, cursor: str) -> Q:
    try:
        signed, at, key = read_json(urlsafe_b64decode(cursor))
        column = rows.query.annotations[_BY].output_field
        at, key = column.to_python(at), rows.model._meta.pk.to_python(key)
    except (ValueError, TypeError, OverflowError, ValidationError) as error:
        raise InvalidRequest("invalid cursor", cursor=cursor[:64]) from error
    if signed != _signed(order):
        raise InvalidRequest("the cursor is from another sort order", cursor=str(signed)[:64])
    further = "lt" if order.is_descending else "gt"
    if at is None:
        return Q((f"{_BY}__isnull", True), (f"pk__{further}", key))
    return (
        Q((f"{_BY}__{further}", at))
        | Q((_BY, at), (f"pk__{further}", key))
        | Q((f"{_BY}__isnull", True))
    )


def _signed(order: Order) -> str:
    return f"-{order.key}" if order.is_descending else order.key


def _parsed(cursor: str) -> tuple[datetime, str]:
    time_text, _, key = cursor.rpartition("_")
    try:
        at = datetime.fromisoformat(time_text)
        if at.tzinfo is None or not key:
            raise InvalidRequest("invalid cursor", cursor=cursor[:64])
        return at.astimezone(UTC), key
    except (ValueError, OverflowError) as error:
        raise InvalidRequest("invalid cursor", cursor=cursor[:64]) from error
