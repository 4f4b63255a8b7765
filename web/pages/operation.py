"""One operation while it runs, and the proof after it: what the mirror says, not what the worker
said.
"""

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
    are_files_gone = proof.files_left == ()
    return [
        _check(
            "timeline",
            "Instant off the timeline",
            is_proved=proof.is_off_timeline,
            is_pending=not proof.is_synced,
            words=_timeline_words(found, proof),
        ),
        _check(
            "files",
            "Files gone",
            is_proved=are_files_gone,
            is_pending=proof.files_left is None,
            words=_file_words(proof),
        ),
        _check(
            "rows",
            "Rows out of the table",
            is_proved=proof.is_off_timeline and are_files_gone,
            is_pending=not proof.is_synced or proof.files_left is None,
            words=_row_words(proof),
        ),
    ]


def _timeline_words(found: OperationDetail, proof: RollbackProof) -> str:
    if not proof.is_synced:
        return "the mirror has not read storage since the rollback ended"
    if not proof.is_off_timeline:
        return "the timeline still shows it"
    by = f", undone by rollback {proof.rollback_instant}" if proof.rollback_instant else ""
    return f"{found.row.instant} is gone{by}"


def _file_words(proof: RollbackProof) -> str:
    if proof.files_left is None:
        return "storage did not answer; this page asks again"
    if proof.files_left:
        left = len(proof.files_left)
        return f"{left:,} of {proof.files_planned:,} are left, such as {proof.files_left[0]}"
    return f"none of the {proof.files_planned:,} planned files is left in storage"


def _row_words(proof: RollbackProof) -> str:
    if not proof.is_off_timeline or proof.files_left != ():
        return "follows from the two checks above"
    what = (
        "what it wrote is" if proof.rows_written is None else f"its {proof.rows_written:,} rows are"
    )
    if not proof.newest_instant:
        return f"{what} no longer read; the table is as it was created"
    return f"{what} no longer read; the newest write is {proof.newest_instant}"


def _check(name: str, title: str, *, is_proved: bool, is_pending: bool, words: str) -> _Check:
    if is_proved:
        return _Check(name, title, "completed", "proved", words)
    if is_pending:
        return _Check(name, title, "inflight", "checking", words)
    return _Check(name, title, "failed", "not so", words)
