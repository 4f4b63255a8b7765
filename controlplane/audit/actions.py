"""Writing audit rows: before an effect starts, and again when it ended.

A row is stored within its caller's transaction, and enters the chain right after that has ended, in
a transaction of its own: nothing that a caller has locked is held while others wait for the head of
the chain, and a caller that is rolled back leaves no gap. What a crash left outside is taken in by
the next row, or by the next verification.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH, digest_of, link_hash
from controlplane.audit.guards import install, missing_guards
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
        # As the database gives it back: tuples are lists, keys are text.
        "details": json.loads(json.dumps(dict(details or {}))),
        "at": timezone.now(),
    }
    event = AuditEvent.objects.create(
        object=subject, digest=digest_of(subject=subject, **content), **content
    )
    transaction.on_commit(_chain_now)
    return event


def do_chain_waiting() -> int:
    """Take every committed row into the chain that is not in it, in the order of their ids; how
    many. Writers queue at the head, which no transaction holds for anything else.

    Raises DatabaseError, for one OperationalError when the head stays locked.
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


def do_restore_guards(*, by: str) -> list[str]:
    """Make the triggers again that are not there, and record it; their names."""
    missing = missing_guards(connection)
    if missing:
        install(connection)
        do_record(
            who=by, what="audit.guard", subject="audit", result="done", details={"made": missing}
        )
    return missing


def _chain_now() -> None:
    try:
        do_chain_waiting()
    except DatabaseError as error:  # The row is stored; the next, or a verification, takes it in.
        log.error("audit rows wait for the chain: error=%s", error)


def _chain_batch() -> list[AuditEvent]:
    with transaction.atomic():
        waiting_rows = AuditEvent.objects.filter(sequence=None).order_by("pk")
        if not waiting_rows.exists():
            return []
        head = _locked_head()
        # Looked for again under the lock: another writer may have taken them.
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


def _locked_head() -> AuditHead:
    """SQLite's transactions are immediate, so there the lock is the database's."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_WAIT_MS}")
    head = AuditHead.objects.select_for_update().filter(pk=ONLY).first()
    if head is not None:
        return head
    # `flush` takes it away, and so does who tampers: what is known of the chain is gone on from,
    # so that rows that are gone leave a gap.
    newest = AuditEvent.objects.exclude(sequence=None).order_by("-sequence").first()
    known = [(row.sequence or 0, row.hash) for row in (newest, AuditCheck.objects.first()) if row]
    sequence, newest_hash = max(known, default=(0, GENESIS_HASH))
    if sequence:
        log.error("the head of the audit was gone: made anew as %s:%s", sequence, newest_hash)
    AuditHead.objects.get_or_create(pk=ONLY, defaults={"sequence": sequence, "hash": newest_hash})
    return AuditHead.objects.select_for_update().get(pk=ONLY)
