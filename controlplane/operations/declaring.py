"""Declaring one more stream of a joined table: a column group with its own clock and columns.

It changes the table at once, under the table lock: two small files, no cell. Hence no job; but who
asked, why, and what came of it are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.events import publish_change
from controlplane.operations.confirmation import check_words
from controlplane.tables.locations import checked_location
from controlplane.tables.messages import mask_message
from controlplane.tables.models import Table
from workers.errors import InvalidInput, LakehouseError, LockTimeout, StorageFailed

TYPES = (
    "string",
    "long",
    "int",
    "double",
    "float",
    "boolean",
    "date",
    "timestamp",
)
"""What a new column may be; wider than these it is added through Python."""
LOCK_WAIT_MS = 10_000
_OPTIONS = {
    "sluice.writer.name": "control plane",
    "hoodie.write.lock.wait_time_ms": str(LOCK_WAIT_MS),
}


def do_declare_stream(
    table: Table,
    group: Mapping[str, Any],
    types: Mapping[str, str],
    *,
    reason: str,
    typed_name: str,
    by: User,
) -> None:
    """Add the group, as `hoodie.multistream.groups` writes one, with the types of its new columns.
    Asking again for the same is no error.

    Raises InvalidRequest, NotAllowedNow while others keep the table lock, StorageUnavailable.
    """
    check_words(table, reason, typed_name)
    if unknown := sorted(set(types.values()) - set(TYPES)):
        raise InvalidRequest(
            "the type of a column must be one of these", unknown=unknown, known=TYPES
        )
    declaration = {"group": dict(group), "types": dict(types)}
    _note(table, by, "requested", reason, declaration)
    try:
        _declare(table, group, types)
    except LakehouseError as error:
        why = mask_message(str(error))[:500]
        _note(table, by, "failed", reason, {**declaration, "error": why})
        raise _refusal(error) from error
    _note(table, by, "succeeded", reason, declaration)
    publish_change(table.slug, "streams")


def _declare(table: Table, group: Mapping[str, Any], types: Mapping[str, str]) -> None:
    from workers.lakehouse import open_table  # Late: a web process seldom writes.

    arrow = {name: _arrow_type(text) for name, text in types.items()}
    open_table(checked_location(table.location)).add_group(group, arrow, options=_OPTIONS)


def _arrow_type(text: str) -> Any:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "long": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "float": pa.float32(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    return types[text]


def _refusal(error: LakehouseError) -> InvalidRequest | NotAllowedNow | StorageUnavailable:
    match error:
        case InvalidInput():
            return InvalidRequest(error.message, **error.values)
        case StorageFailed():
            return StorageUnavailable("table storage does not answer: retry later")
        case LockTimeout():
            return NotAllowedNow("another process keeps the table lock: try again in a moment")
        case _:
            return NotAllowedNow(error.message, **error.values)


def _note(table: Table, by: User, result: str, reason: str, details: Mapping[str, object]) -> None:
    do_record(
        who=by.get_username(),
        what="stream.declare",
        subject=table.slug,
        result=result,
        reason=reason,
        details=details,
    )
