"""Writing audit rows: before an effect starts, and again when it ended."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.audit.middleware import current_request_id
from controlplane.audit.models import AuditEvent


def do_record(
    *,
    who: str,
    what: str,
    subject: str,
    result: str,
    reason: str = "",
    plan_hash: str = "",
    details: Mapping[str, object] | None = None,
) -> AuditEvent:
    """Append one row. `result` is `requested` before the effect and its final state after."""
    return AuditEvent.objects.create(
        who=who,
        what=what,
        object=subject,
        result=result,
        reason=reason,
        plan_hash=plan_hash,
        request_id=current_request_id.get(),
        details=dict(details or {}),
    )
