"""What proves that an operation did its work, check by check: what storage says, not what the
worker said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controlplane.operations.effect_proofs import TITLES, effect_checks
from controlplane.operations.queries import OperationDetail
from controlplane.operations.table_service_proof import ServiceProof, service_proof_of
from controlplane.operations.verification import RollbackProof, rollback_proof

if TYPE_CHECKING:
    from controlplane.tables.models import Table

_SERVICE_TITLES = {"timeline": "Done on the timeline"}


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    title: str
    state: str
    word: str
    words: str


def verification(table: Table, operation: OperationDetail) -> dict[str, Any]:
    """The checks of an operation; of a rollback and a service also the step of the wizard that they
    stand for. A sink runs for days and is checked all along.
    """
    if operation.row.kind in TITLES:
        return _effects(operation)
    if operation.row.kind not in ("rollback", "service"):
        return {}
    if not operation.row.is_final:
        return {"step": 3, "checks": _waiting(operation), "checks_settled": False}
    if operation.row.kind == "rollback":
        checks = _rollback_checks(
            operation, rollback_proof(table, operation.row.instant, operation.plan)
        )
    else:
        checks = _service_checks(operation, service_proof_of(operation.row.id))
    is_proved = all(check.state == "completed" for check in checks)
    return {"step": 5 if is_proved else 4, "checks": checks, "checks_settled": True}


def _effects(operation: OperationDetail) -> dict[str, Any]:
    if not operation.row.is_final and operation.row.kind != "sink":
        titles = TITLES[operation.row.kind]
        waiting = [Check(name, title, "requested", "waiting", "") for name, title in titles.items()]
        return {"checks": waiting, "checks_settled": False}
    checks = [
        _check(
            one.name,
            one.title,
            is_proved=one.is_proved is True,
            is_pending=one.is_proved is None,
            words=one.words,
        )
        for one in effect_checks(operation.row.id)
    ]
    return {"checks": checks, "checks_settled": True}


def _waiting(operation: OperationDetail) -> list[Check]:
    titles = _SERVICE_TITLES
    if operation.row.kind == "rollback":
        titles = {
            "timeline": "Instant off the timeline",
            "files": "Files gone",
            "rows": "Rows out of the table",
        }
    return [Check(name, title, "requested", "waiting", "") for name, title in titles.items()]


def _rollback_checks(operation: OperationDetail, proof: RollbackProof) -> list[Check]:
    are_files_gone = proof.files_left == ()
    return [
        _check(
            "timeline",
            "Instant off the timeline",
            is_proved=proof.is_off_timeline,
            is_pending=not proof.is_read,
            words=_timeline_words(operation, proof),
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
            is_pending=proof.files_left is None,
            words=_row_words(proof),
        ),
    ]


def _service_checks(operation: OperationDetail, proof: ServiceProof) -> list[Check]:
    is_done = operation.row.state == "succeeded" and proof.is_on_timeline is not False
    checks = [
        _check(
            "timeline",
            _SERVICE_TITLES["timeline"],
            is_proved=is_done and proof.left_count is not None,
            is_pending=operation.row.state == "succeeded" and proof.left_count is None,
            words=_completed_words(operation, proof),
        )
    ]
    if proof.items_checked:
        checks.append(
            _check(
                "items",
                "Planned items done",
                is_proved=is_done and proof.left_count == 0,
                is_pending=proof.left_count is None,
                words=_item_words(proof),
            )
        )
    return checks


def _completed_words(operation: OperationDetail, proof: ServiceProof) -> str:
    if operation.row.state != "succeeded":
        return operation.row.message or "it did not succeed"
    if proof.left_count is None:
        return "storage did not answer; this page asks again"
    if proof.is_on_timeline is None:
        return "it leaves no instant of its own"
    if not proof.is_on_timeline:
        return "the timeline in storage has no completed instant of it"
    return f"{proof.instant} is completed and carries what was asked for"


def _item_words(proof: ServiceProof) -> str:
    if proof.left_count is None:
        return "storage did not answer; this page asks again"
    if proof.left_count:
        return f"{proof.left_count:,} gaps, such as: {proof.left[0]}"
    return f"storage shows all {proof.items_checked:,} planned items as promised"


def _timeline_words(operation: OperationDetail, proof: RollbackProof) -> str:
    if not proof.is_read:
        return "storage did not answer; this page asks again"
    if not proof.is_off_timeline:
        return "the timeline in storage still shows it"
    by = f", undone by rollback {proof.rollback_instant}" if proof.rollback_instant else ""
    return f"{operation.row.instant} is gone{by}"


def _file_words(proof: RollbackProof) -> str:
    return _left_words(proof.files_left, proof.files_planned)


def _left_words(left: tuple[str, ...] | None, planned: int) -> str:
    if left is None:
        return "storage did not answer; this page asks again"
    if left:
        return f"{len(left):,} of {planned:,} are left, such as {left[0]}"
    return f"none of the {planned:,} planned files is left in storage"


def _row_words(proof: RollbackProof) -> str:
    if not proof.is_off_timeline or proof.files_left != ():
        return "follows from the two checks above"
    what = (
        "what it wrote is" if proof.rows_written is None else f"its {proof.rows_written:,} rows are"
    )
    if not proof.newest_instant:
        return f"{what} no longer read; the table is as it was created"
    return f"{what} no longer read; the newest write is {proof.newest_instant}"


def _check(name: str, title: str, *, is_proved: bool, is_pending: bool, words: str) -> Check:
    if is_proved:
        return Check(name, title, "completed", "proved", words)
    if is_pending:
        return Check(name, title, "inflight", "checking", words)
    return Check(name, title, "failed", "not proved", words)
