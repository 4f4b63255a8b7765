"""What stands on the page of a rollback and of a service as the proof that it did what its plan
said.
"""

from __future__ import annotations

from controlplane.operations.checks import Check
from controlplane.operations.models import Operation
from controlplane.operations.readers_files import missing_for_readers
from controlplane.operations.states import OperationState
from controlplane.operations.table_service_proof import ServiceProof, service_proof
from controlplane.operations.verification import RollbackProof, rollback_proof

ROLLBACK_TITLES = {
    "timeline": "Instant off the timeline",
    "files": "Files gone",
    "rows": "Rows out of the table",
}
DELETING_BESIDE = frozenset({"repair", "rollback_several"})
"""Services that delete files beside those that readers go to."""
READERS_TITLE = "Files of readers stand"
SERVICE_TITLES = {"timeline": "Done on the timeline"}
"""Check -> title."""


def rollback_checks(operation: Operation) -> list[Check]:
    """Storage alone."""
    proof = rollback_proof(operation.table, operation.instant, operation.plan)
    are_files_gone = None if proof.files_left is None else proof.files_left == ()
    is_off = proof.is_off_timeline or (None if not proof.is_read else False)
    are_rows_out = None if are_files_gone is None else proof.is_off_timeline and are_files_gone
    verdicts = {
        "timeline": (is_off, _timeline_words(operation, proof)),
        "files": (are_files_gone, _file_words(proof)),
        "rows": (are_rows_out, _row_words(proof)),
    }
    return [Check(name, ROLLBACK_TITLES[name], *verdict) for name, verdict in verdicts.items()]


def service_checks(operation: Operation) -> list[Check]:
    """One look at storage per planned item."""
    proof = service_proof(operation)
    has_succeeded = operation.state == OperationState.SUCCEEDED.value
    is_done = has_succeeded and proof.is_on_timeline is not False
    is_unread = proof.left_count is None
    is_on_timeline = None if has_succeeded and is_unread else is_done and not is_unread
    words = _completed_words(operation, proof)
    checks = [Check("timeline", SERVICE_TITLES["timeline"], is_on_timeline, words)]
    if proof.items_checked:
        are_items_done = None if is_unread else is_done and proof.left_count == 0
        checks.append(Check("items", "Planned items done", are_items_done, _item_words(proof)))
    if has_succeeded and operation.service in DELETING_BESIDE:
        checks.append(_readers_check(operation))
    return checks


def _readers_check(operation: Operation) -> Check:
    missing = missing_for_readers(operation.table)
    if missing is None:
        return Check("readers", READERS_TITLE, None, "storage did not answer; this page asks again")
    words = "storage shows every file that the newest writes committed"
    if missing:
        words = f"{len(missing):,} gaps, such as: {missing[0]}"
    return Check("readers", READERS_TITLE, not missing, words)


def _completed_words(operation: Operation, proof: ServiceProof) -> str:
    if operation.state != "succeeded":
        return "it did not succeed; see its message"
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


def _timeline_words(operation: Operation, proof: RollbackProof) -> str:
    if not proof.is_read:
        return "storage did not answer; this page asks again"
    if not proof.is_off_timeline:
        return "the timeline in storage still shows it"
    by = f", undone by rollback {proof.rollback_instant}" if proof.rollback_instant else ""
    return f"{operation.instant} is gone{by}"


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
