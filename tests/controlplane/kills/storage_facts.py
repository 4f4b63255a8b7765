"""What storage alone says of operations: which commits carry whose name."""

from __future__ import annotations

from collections import defaultdict

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.files.avro_container import decode_record
from workers.table.table import Table
from workers.timeline.archive import list_archived_instants
from workers.timeline.instant import Action
from workers.timeline.metadata import OPERATION_KEY, read_commit_metadata


def commits_of(table: Table, *, looked_at_max: int | None = None) -> dict[str, list[InstantTime]]:
    """Operation -> the request times of all completed instants that carry its id, in their order.

    With a bound only the newest so many writes of the active timeline are looked at.
    """
    owned: dict[str, list[InstantTime]] = defaultdict(list)
    completed = sorted(
        table.timeline().iterate_completed(), key=lambda instant: instant.completed_at or ""
    )
    contents = [
        (one.requested_at, one.action, table.storage.read(table.layout.path(one)))
        for one in (completed if looked_at_max is None else completed[-looked_at_max:])
    ]
    if looked_at_max is None:
        active = {(requested_at, action) for requested_at, action, _ in contents}
        contents += [
            (one.instant.requested_at, one.instant.action, one.metadata or b"")
            for one in list_archived_instants(table.storage, with_content=True)
            if (one.instant.requested_at, one.instant.action) not in active
        ]
    for requested_at, action, content in contents:
        if operation_id := _operation_of(action, content):
            owned[operation_id].append(requested_at)
    return owned


def _operation_of(action: Action, content: bytes) -> str:
    if action.writes_data:
        return read_commit_metadata(content).extra_metadata.get(OPERATION_KEY, "")
    try:
        return str((decode_record(content).get("extraMetadata") or {}).get(OPERATION_KEY, ""))
    except MalformedTable:
        return ""  # Savepoints and rollbacks carry none.
