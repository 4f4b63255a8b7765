"""The named connection of a request or a job: checked at the request, at each turn of a schedule,
and again as a worker begins, which alone receives its settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_settings, find_granted_connection
from controlplane.errors import InvalidRequest
from controlplane.operations.connection_sources import (
    SOURCE_KEY,
    check_connection_source,
    has_connection,
)
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.source_kinds import source_kind
from controlplane.operations.states import OPEN
from controlplane.tables.models import Table
from workers.connections import KafkaConnection
from workers.given_connection import connection_environment
from workers.options.sink_keys import CONNECTION_KEY
from workers.sink.config import SinkConfig


def connection_problem(operation: Operation) -> str:
    """Return why the operation may not use the connection that its job names, or not read there
    what it names, such as a file where a table was registered since then. Empty where it may, or
    names no connection.
    """
    source = operation.parameters.get("job", {}).get("source") or {}
    try:
        _load_connection(operation)
        if has_connection(source):
            check_connection_source(source, operation.table.namespace)
    except InvalidRequest as error:
        return str(error)
    return ""


def load_connection(operation_id: UUID) -> dict[str, Any] | None:
    """Return the `name`, `kind` and `settings`, secrets included, of the connection that the job
    names, for its worker alone. None where it names none.

    Raises InvalidRequest where the namespace of its table may not use it.
    """
    return _load_connection(Operation.objects.select_related("table").get(pk=operation_id))


def build_environment(table: Table, config: SinkConfig) -> dict[str, str]:
    """Return the variables by which this process opens the connection of a sink of the table; none
    where it names none. Raises InvalidRequest.
    """
    if not config.connection:
        return {}
    return connection_environment(_load_granted(config.connection, KafkaConnection.KIND, table))


def find_uses(connection: Connection) -> list[str]:
    """Describe the schedules, and the writes and sinks that have not ended, which use it."""
    return [*_schedules(connection), *_operations(connection)]


def _load_connection(operation: Operation) -> dict[str, Any] | None:
    name_and_kind = _find_name_and_kind(operation.parameters.get("job", {}))
    return None if name_and_kind is None else _load_granted(*name_and_kind, operation.table)


def _find_name_and_kind(job: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name and the kind of the connection of a job; None where it names none."""
    options, source = job.get("sink_options"), job.get("source")
    if isinstance(options, Mapping) and options.get(CONNECTION_KEY):
        return str(options[CONNECTION_KEY]), KafkaConnection.KIND
    if isinstance(source, Mapping) and source.get(SOURCE_KEY):
        return str(source[SOURCE_KEY]), source_kind(source).connection
    return None


def _load_granted(name: str, kind: str, table: Table) -> dict[str, Any]:
    connection = find_granted_connection(name, kind, table.namespace)
    return {"name": name, "kind": kind, "settings": connection_settings(connection)}


def _schedules(connection: Connection) -> Iterator[str]:
    rows = Schedule.objects.filter(
        is_paused=False, parameters__source__connection=connection.name
    ).select_related("table")
    for schedule in rows.order_by("table__slug", "name"):
        yield f"the schedule {schedule.name} of {schedule.table.slug}"


def _operations(connection: Connection) -> Iterator[str]:
    name = connection.name
    named = Q(parameters__job__source__connection=name) | Q(
        parameters__job__sink_options__connection=name
    )
    rows = Operation.objects.filter(named, state__in=sorted(OPEN)).select_related("table")
    for operation in rows.order_by("requested_at"):
        what = f"the sink {operation.sink_id}" if operation.sink_id else "a write"
        yield f"{what} into {operation.table.slug} (operation {operation.pk})"
