"""Writers of streams: launched as ordinary writes that bring only their stream's columns, and
stopped by cancelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet

from controlplane.errors import InvalidRequest
from controlplane.operations.cancels import is_cancellable
from controlplane.operations.kinds import write
from controlplane.operations.kinds.write import do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.query_sources import shown_whole
from controlplane.tables.access import Caller
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table

SHOWN_MAX = 20
_NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWrite:
    id: UUID
    stream: str
    writer: str
    source: str
    """Its kind, and where it reads from."""
    state: str
    requested_at: datetime
    finished_at: datetime | None
    requested_by: str
    message: str
    is_stoppable: bool


def writes_query(table: Table) -> QuerySet[Operation]:
    """Return the query of the newest writes that were requested here and name a stream."""
    writes = Operation.objects.filter(table=table, kind=write.KIND.name)
    named = writes.exclude(parameters__stream="").select_related("table", "requested_by")
    return named.order_by("-requested_at")[:SHOWN_MAX]


def stream_writes(user: Caller, writes: QuerySet[Operation]) -> list[StreamWrite]:
    """List what `writes_query` found as `user` sees it."""
    whole = shown_whole(user, (operation for operation in writes if operation.message))
    return [_row(operation, is_whole=operation.pk in whole) for operation in writes]


def do_launch_stream(
    table: Table, stream: str, source: Mapping[str, str], *, reason: str, by: User
) -> Operation:
    """Queue a write of `source` as `stream`, one of the table's, beside whatever else writes.

    Raises InvalidRequest.
    """
    names = [one["name"] for one in table.groups]
    if names and stream not in names:
        raise InvalidRequest("the table has no such stream", stream=stream, known=names)
    options = {"sluice.writer.name": stream}
    if table.table_type == "MERGE_ON_READ":
        options["hoodie.write.concurrency.mode"] = _NON_BLOCKING
    parameters = {
        "source": dict(source),
        "operation": "upsert",
        "stream": stream,
        "options": options,
    }
    return do_request_write(table=table, parameters=parameters, by=by, reason=reason)


def _row(operation: Operation, *, is_whole: bool) -> StreamWrite:
    source = operation.parameters.get("job", {}).get("source", {})
    where = source.get("path") or source.get("stream") or ""
    return StreamWrite(
        id=operation.pk,
        stream=str(operation.parameters.get("stream", "")),
        writer=str(operation.parameters.get("writer", "")),
        source=f"{source.get('kind', '')} {where}".strip(),
        state=operation.state,
        requested_at=operation.requested_at,
        finished_at=operation.finished_at,
        requested_by=operation.requested_by.get_username() if operation.requested_by else "",
        message=select_message(operation.message, is_whole=is_whole),
        is_stoppable=is_cancellable(operation),
    )
