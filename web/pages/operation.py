"""One operation while it runs, and the proof after it: what the mirror says, not what the worker said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.operations.selectors import OperationDetail, operation_detail
from controlplane.operations.verification import RollbackProof, rollback_proof
from controlplane.tables.access import Permission, access_table
from web.doors import page, person

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    title: str
    state: str
    word: str
    words: str


@require_safe
@page
def operation(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    return render(
        request,
        "pages/operation.html",
        {"page": "rollback", **_context(request, slug, operation_id)},
    )


@require_safe
@page
def operation_state(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    return render(request, "fragments/operation.html", _context(request, slug, operation_id))


def _context(request: HttpRequest, slug: str, operation_id: UUID) -> dict[str, Any]:
    table = access_table(person(request), slug, Permission.VIEW)
    found = operation_detail(operation_id)
    if found is None or found.row.table_slug != table.slug:
        raise Http404(f"this table has no operation {operation_id}")
    context: dict[str, Any] = {"table": table, "operation": found, "synced_at": table.synced_at}
    if found.row.kind == "rollback":
        context |= _verification(table, found)
    return context


def _verification(table: Table, found: OperationDetail) -> dict[str, Any]:
    if not found.row.is_final:
        return {"step": 3, "checks": _waiting(found), "checks_settled": False}
    proof = rollback_proof(table, found)
    checks = _checks(found, proof)
    is_proved = all(check.state == "completed" for check in checks)
    return {"step": 5 if is_proved else 4, "checks": checks, "checks_settled": True}


def _waiting(found: OperationDetail) -> list[_Check]:
    titles = {
        "timeline": "Instant off the timeline",
        "files": "Files gone",
        "rows": "Rows out of the table",
    }
    return [_Check(name, title, "requested", "waiting", "") for name, title in titles.items()]


def _checks(found: OperationDetail, proof: RollbackProof) -> list[_Check]:
    planned = proof.files_planned
    return [
        _check(
            "timeline",
            "Instant off the timeline",
            proof.is_off_timeline,
            f"{found.row.instant} is gone"
            + (f", undone by rollback {proof.rollback_instant}" if proof.rollback_instant else ""),
            "the mirror still shows it"
            if proof.is_synced
            else "the mirror has not read storage since",
            is_pending=not proof.is_synced,
        ),
        _check(
            "files",
            "Files gone",
            proof.files_left is not None and not proof.files_left,
            f"none of the {planned:,} planned files is left in storage",
            f"{len(proof.files_left or ()):,} of {planned:,} are still there, such as {next(iter(proof.files_left or ()), '')}"
            if proof.files_left is not None
            else "storage did not answer",
            is_pending=proof.files_left is None,
        ),
        _check(
            "rows",
            "Rows out of the table",
            proof.is_off_timeline and proof.files_left is not None and not proof.files_left,
            _rows_words(proof),
            "follows from the two checks above",
            is_pending=not proof.is_synced,
        ),
    ]


def _rows_words(proof: RollbackProof) -> str:
    written = (
        f"the {proof.rows_written:,} rows it wrote are"
        if proof.rows_written is not None
        else "what it wrote is"
    )
    return f"{written} no longer read; the table is as of {proof.newest_instant or 'its creation'}"


def _check(
    name: str, title: str, is_proved: bool, proved: str, doubt: str, *, is_pending: bool
) -> _Check:
    if is_proved:
        return _Check(name, title, "completed", "proved", proved)
    if is_pending:
        return _Check(name, title, "inflight", "checking", doubt)
    return _Check(name, title, "failed", "not so", doubt)
