"""Writes that take data away, asked for as writes: each is the service of its name, with a plan.

Their rows come from a file that one worker reads whole (`services.given_rows` says how large).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.operations.connection_sources import has_connection
from controlplane.operations.descriptions.write import FILES, PLANNED_OPERATIONS
from controlplane.operations.kinds.table_service import do_request_service, plan_service
from controlplane.operations.models import Operation
from controlplane.operations.overwrites import NO_ROWS, OVERWRITES, OverwritePlan
from controlplane.operations.source_places import to_stored_file
from controlplane.tables.access import Caller
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access
from workers.loading.options import format_named, options_as_text
from workers.locations import is_bucket_location
from workers.table_services.input_rows import (
    FILE_BYTES_MAX,
    FILE_KEYS,
    PATH_KEY,
    measure_files,
)

FILE_KINDS = FILES


def do_request_planned_write(
    table: Table,
    operation: str,
    *,
    source: Mapping[str, Any],
    partitions: Sequence[str],
    plan_hash: str,
    reason: str,
    typed_name: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the write that was shown as `plan_hash` by the plan of the service `operation`.

    Raises what `do_request_service` raises.
    """
    parameters = planned_parameters(operation, source=source, partitions=partitions)
    return do_request_service(
        table, operation, parameters, plan_hash, reason, typed_name, by, idempotency_key
    )


def is_of_a_service(operation: str, source: Mapping[str, Any]) -> bool:
    """Return whether the write is the service of its name: what takes data away without rows, and
    what overwrites from files of this machine that one worker holds. Spark overwrites from others.
    """
    if operation not in OVERWRITES:
        return operation in PLANNED_OPERATIONS
    path = str(to_stored_file(source).get(PATH_KEY, ""))
    is_here = source.get("kind") in FILE_KINDS and not has_connection(source)
    return is_here and not is_bucket_location(path) and measure_files(path) <= FILE_BYTES_MAX


def plan_file_overwrite(
    table: Table, operation: str, source: Mapping[str, Any], by: User, *, reader: Caller
) -> OverwritePlan:
    """Return the plan of the service of this name as that of a write, with sample rows as far as
    `reader` may read them. Raises what `plan_service` raises.
    """
    parameters = planned_parameters(operation, source=source, partitions=())
    view = plan_service(table, operation, parameters, by, reader=reader)
    figures = view.plan["figures"]
    access = row_access(reader, table)
    note = NO_ROWS if access.may_read else access.needed
    return OverwritePlan(
        operation=operation,
        summary=view.plan["summary"],
        partitions=figures["partitions"],
        file_groups=figures["file_groups"],
        files=figures["files"],
        bytes=figures["bytes"],
        blockers=list(view.plan["blockers"]),
        sample=view.sample,
        sample_note="" if view.sample else note,
        replaces="",
        plan_hash=view.plan_hash,
    )


def planned_parameters(
    operation: str, *, source: Mapping[str, Any], partitions: Sequence[str]
) -> dict[str, str]:
    """A write's source and partitions as the service has them. Raises InvalidRequest."""
    if operation == "delete_partition":
        if source:
            raise InvalidRequest(
                "this operation requires partitions and accepts no rows", operation=operation
            )
        return {"partitions": ",".join(partitions)}
    if partitions:
        raise InvalidRequest(
            "this operation requires rows and accepts no partitions", operation=operation
        )
    given = {key: value for key, value in source.items() if key != "kind"}
    unknown = sorted(set(given) - set(FILE_KEYS))
    if source.get("kind") not in FILE_KINDS or unknown:
        raise InvalidRequest(
            "the rows of this operation must come from a file",
            kinds=FILE_KINDS,
            known=FILE_KEYS,
            other=unknown,
        )
    path = str(given.get(PATH_KEY, ""))
    if format_named(path) != source["kind"]:
        given.setdefault("format", source["kind"])
    return {PATH_KEY: path, **options_as_text(given)}
