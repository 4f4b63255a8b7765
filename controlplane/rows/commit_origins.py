"""Origins of commits by the mirror: writer, stream, operation, and who requested it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrigin:
    """What made one commit; empty texts where nothing is known."""

    writer: str = ""
    stream: str = ""
    operation_type: str = ""
    operation: str = ""
    requested_by: str = ""


UNKNOWN: Final = CommitOrigin()


def commit_origins(table: Table, instants: Collection[str]) -> dict[str, CommitOrigin]:
    """Return the origin of each of these completed writes that the mirror has. Two queries."""
    records = list(
        InstantRecord.objects.filter(
            table=table, requested_at__in=sorted(instants), completed_at__isnull=False
        )
        .exclude(action="savepoint")
        .values_list("requested_at", "writer_name", "stream", "operation_type", "operation_ref")
    )
    users = _requesters(table, {record[4] for record in records})
    return {
        requested_at: CommitOrigin(
            writer=writer,
            stream=stream,
            operation_type=operation_type.lower(),
            operation=operation if operation in users else "",
            requested_by=users.get(operation, ""),
        )
        for requested_at, writer, stream, operation_type, operation in records
    }


def _requesters(table: Table, references: Collection[str]) -> dict[str, str]:
    """User names by operation id. Other programs write other texts in place of an id."""
    ids = set()
    for reference in references:
        with suppress(ValueError):
            ids.add(UUID(reference))
    if not ids:
        return {}
    rows = table.operations.filter(pk__in=ids).values_list("pk", "requested_by__username")
    return {str(pk): username or "" for pk, username in rows}
