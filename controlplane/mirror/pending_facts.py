"""What a pending instant of another engine will do, as its own files name it.

A writer of Sluice says it in its heartbeat. Apache Hudi's heartbeats are empty, but its inflight
file is commit metadata with the type of the operation, and a requested replacement names it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workers.errors import MalformedTable, NotFound
from workers.files.avro_container import decode_record
from workers.json_text import read_json
from workers.table.table import Table
from workers.timeline.instant import Action, Instant, State

_BYTES_MAX: Final = 8_000_000
"""A larger file names every file group of a very wide write; it is not worth reading each time."""
_BY_ACTION: Final[Mapping[Action, str]] = {
    Action.COMPACTION: "COMPACT",
    Action.LOGCOMPACTION: "LOG_COMPACT",
    Action.CLUSTERING: "CLUSTER",
    Action.CLEAN: "CLEAN",
    Action.ROLLBACK: "ROLLBACK",
    Action.RESTORE: "RESTORE",
    Action.SAVEPOINT: "SAVEPOINT",
    Action.INDEXING: "INDEX",
}


def pending_operation(table: Table, instant: Instant) -> str:
    """Hudi's name of the operation, such as `BULK_INSERT`; empty where nothing names it, as in the
    files of Sluice, which are empty. Raises StorageFailed.
    """
    if (named := _BY_ACTION.get(instant.action)) is not None:
        return named
    requested = Instant(instant.requested_at, instant.action, State.REQUESTED)
    states = (requested.inflight(), requested)
    names = (_named(table, state) for state in states[instant.state is State.REQUESTED :])
    return next(filter(None, names), "")


def _named(table: Table, instant: Instant) -> str:
    path = table.layout.path(instant)
    file = table.storage.info(path)
    if file is None or not 0 < file.size <= _BYTES_MAX:
        return ""
    try:
        content = table.storage.read(path)
        record = read_json(content) if content[:1] == b"{" else decode_record(content)
    except (NotFound, MalformedTable, ValueError):  # It ended meanwhile, or it is being written.
        return ""
    named = record.get("operationType") if isinstance(record, dict) else None
    return named[:32] if isinstance(named, str) and named.isprintable() else ""
