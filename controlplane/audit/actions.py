"""Recording of audit rows: one before an effect starts, one after it has ended.

A row is stored in the transaction of its caller, and appended to the chain directly after that, in
a separate transaction. So no lock of the caller is held while others wait for the head of the
chain, and a rollback of the caller leaves no gap. Rows that a crash left outside the chain are
appended with the next row or by the next verification.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH, digest_of, link_hash
from controlplane.audit.guards import find_missing_triggers, install
from controlplane.audit.models import ONLY, AuditCheck, AuditEvent, AuditHead
from workers.log_lines import current_request_id

CHAINED_AT_ONCE = 500
_LOCK_WAIT_MS = 5_000

log = logging.getLogger(__name__)


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
    content = {
        "who": who,
        "what": what,
        "result": result,
        "reason": reason,
        "plan_hash": plan_hash,
        "request_id": current_request_id.get(),
        # As the database returns it: tuples become lists, keys become text.
        "details": json.loads(json.dumps(dict(details or {}))),
        "at": timezone.now(),
    }
    event = AuditEvent.objects.create(
        object=subject, digest=digest_of(subject=subject, **content), **content
    )
    transaction.on_commit(_chain_now)
    return event


def do_append_to_chain() -> int:
    """Append every committed row that is not in the chain, ordered by id; return their number.

    Concurrent writers wait for the row of the head, which no transaction locks for another purpose.
    Raises DatabaseError, such as OperationalError if the head stays locked.
    """
    chained = 0
    while batch := _chain_batch():
        for event in batch:
            log.info(
                "audit row: sequence=%s hash=%s id=%s what=%s result=%s",
                *(event.sequence, event.hash, event.pk, event.what, event.result),
            )
        chained += len(batch)
    return chained


def do_restore_triggers(*, by: str) -> list[str]:
    """Create missing triggers and record that; return their names."""
    missing = find_missing_triggers(connection)
    if missing:
        install(connection)
        do_record(
            who=by, what="audit.guard", subject="audit", result="done", details={"made": missing}
        )
    return missing


def _chain_now() -> None:
    try:
        do_append_to_chain()
    except DatabaseError as error:  # The row is stored: the next row or a verification appends it.
        log.error("audit rows are not chained yet: error=%s", error)


def _chain_batch() -> list[AuditEvent]:
    with transaction.atomic():
        waiting_rows = AuditEvent.objects.filter(sequence=None).order_by("pk")
        if not waiting_rows.exists():
            return []
        head = _lock_head()
        # Read again under the lock: another writer may have appended them.
        batch = list(waiting_rows[:CHAINED_AT_ONCE])
        for event in batch:
            event.sequence = head.sequence + 1
            event.previous_hash = head.hash
            event.hash = link_hash(
                sequence=event.sequence,
                previous_hash=event.previous_hash,
                row_id=event.pk,
                digest=event.digest,
            )
            event.save(update_fields=["sequence", "previous_hash", "hash"])
            head.sequence, head.hash = event.sequence, event.hash
        if batch:
            head.save()
    return batch


def _lock_head() -> AuditHead:
    """Lock the head and return it. In SQLite the immediate transaction is the lock."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_WAIT_MS}")
    head = AuditHead.objects.select_for_update().filter(pk=ONLY).first()
    if head is not None:
        return head
    # `flush` deletes the head, and an attacker may. The chain continues after the newest link on
    # record, so that deleted rows leave a gap.
    newest = AuditEvent.objects.exclude(sequence=None).order_by("-sequence").first()
    links = [(row.sequence or 0, row.hash) for row in (newest, AuditCheck.objects.first()) if row]
    sequence, newest_hash = max(links, default=(0, GENESIS_HASH))
    if sequence:
        log.error(
            "the head of the audit chain was missing and was created again: %s:%s",
            sequence,
            newest_hash,
        )
    AuditHead.objects.get_or_create(pk=ONLY, defaults={"sequence": sequence, "hash": newest_hash})
    return AuditHead.objects.select_for_update().get(pk=ONLY)
