"""The log of one operation: part of its page, live, and a file to save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.errors import InvalidRequest
from controlplane.operations.log_queries import (
    LEVELS,
    TEXT_CHARS_MAX,
    VALUES_NEED,
    LogLineRow,
    log_as_text,
    log_page,
)
from controlplane.operations.queries import access_operation
from controlplane.operations.query_sources import shown_whole
from controlplane.tables.access import Permission
from web.refusals import page, person

if TYPE_CHECKING:
    from controlplane.operations.models import Operation

_TONES = {"warning": "warn", "error": "bad", "critical": "bad"}
_ID_DIGITS_MAX = 18


@require_safe
@page
def operation_log(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    operation = _operation(request, slug, operation_id)
    is_whole = operation.pk in shown_whole(person(request), [operation])
    context = {"log": log_context(request, operation, is_whole=is_whole)}
    return render(request, "fragments/operation_log.html", context)


@require_safe
@page
def operation_log_download(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    operation = _operation(request, slug, operation_id)
    level, text = _level(request), _text(request)
    is_whole = operation.pk in shown_whole(person(request), [operation])
    lines = log_as_text(operation_id, is_whole=is_whole, level=level, text=text)
    response = HttpResponse(lines, content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="operation-{operation_id}.log"'
    return response


def log_context(request: HttpRequest, operation: Operation, *, is_whole: bool) -> dict[str, Any]:
    """Return what the fragment shows: filters and place are in the address. One query. Lines whose
    values are hidden (`is_whole` is false) cannot be searched.

    Raises InvalidRequest for a place or a level that is none.
    """
    level, text = _level(request), _text(request)
    before, after = _place(request, "before"), _place(request, "after")
    filters = {"level": level, "text": text, "levels": LEVELS}
    is_newest = before is None and after is None
    if not is_whole:
        text = filters["text"] = ""
    shown = log_page(
        operation.pk, is_whole=is_whole, level=level, text=text, before=before, after=after
    )
    return {
        "lines": [(row, _tone(row)) for row in shown.rows],
        "older": shown.older,
        "newer": shown.newer,
        "values_need": "" if is_whole else VALUES_NEED,
        "is_newest": is_newest,
        "is_wrapped": request.GET.get("wrap") != "off",
        **filters,
    }


def _operation(request: HttpRequest, slug: str, operation_id: UUID) -> Operation:
    operation = access_operation(person(request), operation_id, Permission.VIEW)
    if operation.table.slug != slug:
        raise Http404(f"this table has no operation {operation_id}")
    return operation


def _tone(row: LogLineRow) -> str:
    return _TONES.get(row.level, "quiet")


def _text(request: HttpRequest) -> str:
    # PostgreSQL takes no NUL, and no line has one.
    return request.GET.get("q", "").replace("\0", "").strip()[:TEXT_CHARS_MAX]


def _level(request: HttpRequest) -> str:
    level = request.GET.get("level", "")
    if level and level not in LEVELS:
        raise InvalidRequest("invalid log level", given=level[:40], known=list(LEVELS))
    return level


def _place(request: HttpRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= _ID_DIGITS_MAX):
        raise InvalidRequest("invalid position in the log", given=given[:40])
    return int(given)
