"""A change of the register that came before with the same key is not made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.batches import delete_in_batches
from controlplane.errors import KeyReused
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.tables.models import Table, TableRequest


def digest_of(what: str, table: Table | None, given: Given, body: Mapping[str, Any]) -> str:
    """A digest of all that makes it this request and no other; its key is not part of it."""
    request_body = {
        "what": what,
        "table": table.pk if table is not None else None,
        "body": dict(body),
        "reason": given.reason.strip(),
    }
    return hashlib.sha256(json.dumps(request_body, sort_keys=True).encode()).hexdigest()


def known_request(by: Requester, idempotency_key: str | None, digest: str) -> TableRequest | None:
    """The same request of the same person, done before. Raises KeyReused for another one."""
    if not idempotency_key or by.user is None:
        return None
    known = TableRequest.objects.filter(
        requested_by=by.user, idempotency_key=idempotency_key
    ).first()
    if known is not None and known.request_digest != digest:
        raise KeyReused("the idempotency key was used for another request: send a new key")
    return known


def note_request(
    by: Requester,
    idempotency_key: str | None,
    digest: str,
    table: Table,
    done: Mapping[str, Any] | None = None,
) -> None:
    """Inside the transaction that does it, so that two at once are one."""
    if not idempotency_key or by.user is None:
        return
    TableRequest.objects.create(
        requested_by=by.user,
        idempotency_key=idempotency_key,
        request_digest=digest,
        table_key=table.pk,
        done=dict(done or {}),
    )


def done_before(by: Requester, idempotency_key: str | None, slug: str) -> Mapping[str, Any] | None:
    """What was answered to the same person and key of a table that had this slug and is gone; None
    when nothing was.
    """
    if not idempotency_key or by.user is None:
        return None
    known = TableRequest.objects.filter(
        requested_by=by.user, idempotency_key=idempotency_key, done__slug=slug
    ).first()
    return dict(known.done) if known is not None else None


def do_forget_requests(*, before: datetime) -> int:
    """Keys are of use while a client may still try again."""
    return delete_in_batches(TableRequest.objects.filter(at__lt=before))
