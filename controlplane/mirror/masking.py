"""Which columns of a table are masked, and masking them: an admin of the table does that, or
whoever has a shell. It is in the audit.

A mask is of a name: a column that is renamed is not masked any more, and a name that no column has
is refused, because whoever mistypes it would believe that it is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from controlplane.accounts.access_levels import ADMIN
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.mirror.models import SchemaRecord
from controlplane.tables.access import Permission, may
from controlplane.tables.grants import Granter
from controlplane.tables.masks import masks_part
from controlplane.tables.models import COLUMN_CHARS_MAX, MaskedColumn, Table
from controlplane.tables.row_access import columns_of

MASKED_MAX = 500
META_PREFIX = "_hoodie_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedColumns:
    columns: list[str]
    """By name, as they were written."""
    unknown: list[str]
    """Those of them that are no column of the newest schema (any more)."""


def masked_columns(table: Table) -> MaskedColumns:
    """Two queries."""
    columns = list(MaskedColumn.objects.filter(table=table).values_list("path", flat=True))
    known = _known(table)
    unknown = [path for path in columns if known and path.lower() not in known]
    return MaskedColumns(columns=columns, unknown=unknown)


def do_mask_columns(
    table: Table, columns: Sequence[str], *, by: Granter, reason: str = ""
) -> MaskedColumns:
    """Mask these and no others.

    Raises PermissionDenied for whoever is no admin of the table; InvalidRequest for what is no
    column of it, for a partition column, whose values are in the paths of files, for a column that
    Hudi keeps, and for too many.
    """
    if by.user is not None and not may(by.user, Permission.ADMINISTER, table):
        raise PermissionDenied(f"this requires the {ADMIN} role")
    wanted = {path.strip().lower(): path.strip() for path in columns if path.strip()}
    _check(table, wanted)
    with transaction.atomic():
        held = MaskedColumn.objects.select_for_update().filter(table=table)
        before = [row.path for row in held]
        if set(before) != set(wanted.values()):
            held.delete()
            MaskedColumn.objects.bulk_create(
                [MaskedColumn(table=table, path=path) for path in wanted.values()]
            )
            do_record(
                who=by.name,
                what="columns.mask",
                subject=table.slug,
                result="done",
                reason=reason,
                details={"masked": sorted(wanted.values()), "masked_before": before},
            )
    return masked_columns(table)


def _check(table: Table, wanted: Mapping[str, str]) -> None:
    if len(wanted) > MASKED_MAX:
        raise InvalidRequest("too many columns are masked", most=MASKED_MAX)
    if too_long := [path[:80] for path in wanted if len(path) > COLUMN_CHARS_MAX]:
        raise InvalidRequest("a column name is too long", columns=too_long)
    if kept := [path for path in wanted if path.startswith(META_PREFIX)]:
        raise InvalidRequest(
            "Hudi's meta columns cannot be masked: mask the columns they are derived from",
            columns=kept,
        )
    if partitioning := [
        column for column in columns_of(table.partition_by) if masks_part(column, wanted)
    ]:
        raise InvalidRequest(
            "a partition column cannot be masked: its values are in the paths of files",
            columns=partitioning,
        )
    known = _known(table)
    if unknown := [path for key, path in wanted.items() if known and key not in known]:
        raise InvalidRequest("column not found in the table", columns=unknown)


def _known(table: Table) -> set[str]:
    """Paths of the newest schema in lower case; empty while none was read."""
    newest = SchemaRecord.objects.filter(table=table).order_by("-completed_at").first()
    return set() if newest is None else set(_paths(newest.avro, ""))


def _paths(kind: Any, inside: str) -> Iterator[str]:
    """Of the fields of an Avro type, through unions, arrays and maps."""
    if isinstance(kind, list):
        for member in kind:
            yield from _paths(member, inside)
    elif isinstance(kind, Mapping):
        for named in kind.get("fields", ()):
            path = f"{inside}{named['name']}".lower()
            yield path
            yield from _paths(named["type"], f"{path}.")
        for inner in ("items", "values", "type"):
            yield from _paths(kind.get(inner), inside)
