"""Writes that overwrite, from whatever a write may come from: what they would take away, as a plan.

Which partitions the rows of a statement or a topic come into is known when they are there, so the
plan names all that is in the table; the write that was confirmed begins with exactly these files,
or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from controlplane.errors import NotAllowedNow, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.approvals.rules import is_approval_needed
from controlplane.operations.service_plan_views import read_sample
from controlplane.tables.access import Caller
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access
from workers.errors import LakehouseError, StorageFailed
from workers.storage.base import get_size
from workers.table.view import FileSystemView
from workers.table_services.replaced_rows import sample_rows
from workers.write.replacement import digest_slices

if TYPE_CHECKING:
    import pyarrow as pa

OVERWRITES = ("insert_overwrite", "insert_overwrite_table")
_HASH_CHARS = 16
_UNKNOWN_PARTITIONS = (
    "which partitions are replaced is known once the write has read its rows, so the plan has no "
    "sample rows"
)
_NEVER_STORED = "sample rows are part of the plan alone and are never stored"
NO_ROWS = "no row of the table is replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverwritePlan:
    """What a write would overwrite, now."""

    operation: str
    summary: str
    partitions: int
    """That have rows now."""
    file_groups: int
    files: int
    bytes: int
    blockers: list[str]
    """Why it cannot run now; empty when it can."""
    sample: list[Mapping[str, Any]]
    """Some of the rows that go, by column, each value as text or null; masked columns have the
    mark. It is never stored.
    """
    sample_note: str
    """Why the sample is empty; empty if it has rows."""
    replaces: str
    """Of all these files: the write begins with them, or not at all."""
    plan_hash: str

    @property
    def is_empty(self) -> bool:
        """Never: rows come also where none are."""
        return False


def plan_overwrite(
    table: Table,
    operation: str,
    parameters: Mapping[str, Any],
    reader: Caller | None = None,
) -> OverwritePlan:
    """Return what the operation would overwrite now. Reads the names of all files, and for `reader`
    some rows of one.

    Raises NotAllowedNow where a second person has to approve of such an operation (possible
    only if its rows are a file alone); StorageUnavailable.
    """
    if is_approval_needed(table, operation):
        raise NotAllowedNow(
            "overwriting requires an approval here, and these rows cannot be previewed: "
            "overwrite from a CSV or Parquet file",
            table=table.slug,
        )
    try:
        engine = engine_table(table)
        slices = FileSystemView.load(engine).slices
        files = [path for one in slices for path in one.files]
        total = sum(get_size(engine.storage, path) for path in files)
        sample, note = _read_sample(table, operation, reader, partial(sample_rows, engine, slices))
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    replaces = digest_slices(slices)
    where = "the whole table" if operation == "insert_overwrite_table" else "partitions of its rows"
    return OverwritePlan(
        operation=operation,
        summary=f"overwrite {where}, which is now {len(slices)} file groups",
        partitions=len({one.partition for one in slices}),
        file_groups=len(slices),
        files=len(files),
        bytes=total,
        blockers=[] if engine.write_refusal is None else [engine.write_refusal],
        sample=sample,
        sample_note=note,
        replaces=replaces,
        plan_hash=_hash(operation, parameters, replaces),
    )


def _read_sample(
    table: Table,
    operation: str,
    reader: Caller | None,
    read: Callable[[], pa.Table | None],
) -> tuple[list[Mapping[str, Any]], str]:
    """Return rows that go, as the reader may see them, or why there are none."""
    if operation != "insert_overwrite_table":
        return [], _UNKNOWN_PARTITIONS
    if reader is None:
        return [], _NEVER_STORED
    access = row_access(reader, table)
    if not access.may_read:
        return [], access.needed
    rows = read_sample(read(), access)
    return rows, "" if rows else NO_ROWS


def _hash(operation: str, parameters: Mapping[str, Any], replaces: str) -> str:
    planned = json.dumps([operation, parameters.get("source"), replaces], sort_keys=True)
    return hashlib.sha256(planned.encode()).hexdigest()[:_HASH_CHARS]
