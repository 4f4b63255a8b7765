"""`row_access`: the only door to rows. Whatever shows a value that stands in a row (pages, API,
SQL, exports, dead letters, keys, minima and maxima) asks here who may see it, masks by what is
answered, and has it recorded.

Reading rows is a right of its own beside the roles by which somebody sees a table. Admins of a
table have it, and see its masked columns; others are given it (`row_grants`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from redis.exceptions import RedisError

from controlplane.audit.actions import do_record
from controlplane.read_together import read_together
from controlplane.tables.access import Caller, Permission, load_visit_notes, may
from controlplane.tables.masks import (
    is_masked,
    masked_row,
    masked_rows,
    masked_text,
    masks_part,
)
from controlplane.tables.models import SEES_MASKED, MaskedColumn, RowGrant, Table

if TYPE_CHECKING:
    import pyarrow as pa

READ_ROWS: Final = "rows.read"
"""What the audit calls it."""
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
GLANCE_S = 600
_Grant = tuple[int | None, str, str]
"""Table, namespace and right, as `RowGrant` has them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAccess:
    """What one person may see of the rows of one table, as of one moment."""

    who: str
    """The name that the person signs in with."""
    table: str
    """The slug."""
    may_read: bool
    masked: frozenset[str]
    """Column paths in lower case, those that Hudi derives of them included. Also of whoever may not
    read: then all that are masked.
    """

    @property
    def sees_all(self) -> bool:
        """Every value of every row."""
        return self.may_read and not self.masked

    @property
    def needed(self) -> str:
        """What a person without the right, or with a mask, is told, as one sentence without its
        full stop.
        """
        if self.may_read and self.masked:
            return (
                f"some columns of {self.table} are masked; an admin of its namespace gives the "
                "right to see masked columns on the page Access"
            )
        return (
            f"reading rows of {self.table} needs the right to read rows, which an admin of its "
            "namespace gives on the page Access"
        )

    def check(self) -> None:
        """Refuse, as PermissionDenied, whoever may not read rows; it says what to ask for."""
        if not self.may_read:
            raise PermissionDenied(self.needed)

    def check_column(self, column: str) -> None:
        """Refuse, as PermissionDenied, also a column of which any part is masked: for questions
        that say something of a value without showing it.
        """
        self.check()
        if column and masks_part(column, self.masked):
            raise PermissionDenied(
                f"the column {column[:200]} of {self.table} is masked; an admin of its "
                "namespace can grant access to masked columns on the page Access"
            )

    def check_all(self) -> None:
        """Refuse, as PermissionDenied, unless every value may be seen: for questions about rows
        that may be of any column, and for text that may hold any value.
        """
        if not self.sees_all:
            raise PermissionDenied(self.needed)

    @property
    def hides_keys(self) -> bool:
        """Record keys are not shown."""
        return self.hides(RECORD_KEY)

    def hides(self, *columns: str) -> bool:
        """Whether a value of one of these columns is not shown, in whatever form."""
        return not self.may_read or any(masks_part(column, self.masked) for column in columns)

    def masks(self, column: str) -> bool:
        """Whether the column, or a struct that it is a field of, is masked."""
        return is_masked(column, self.masked)

    def rows(self, rows: pa.Table) -> pa.Table:
        """Those rows as this person sees them: a masked column is of type string and holds the mark
        in every row. Raises PermissionDenied.
        """
        self.check()
        return masked_rows(rows, self.masked) if self.masked else rows

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row, by column name, as this person sees it. Raises PermissionDenied."""
        self.check()
        return masked_row(row, self.masked)

    def text(self, text: str, column: str) -> str:
        """The text of a value of one column, as this person sees it. Raises PermissionDenied."""
        self.check()
        return masked_text(text, column, self.masked)


def row_access(user: Caller, table: Table) -> RowAccess:
    """What `user`, who sees the table, may see of its rows. At most one query besides the roles;
    none for an admin of the table, and in one request none for the same table again.
    """
    who = user.get_username()
    if may(user, Permission.ADMINISTER, table):
        return whole_access(who, table.slug)
    grants, paths = _row_rights(user, [table])
    rights = _rights_on(table, grants) if may(user, Permission.VIEW, table) else frozenset()
    masked = frozenset() if SEES_MASKED in rights else _add_derived(table, paths[table.pk])
    return RowAccess(who=who, table=table.slug, may_read=bool(rights), masked=masked)


def whole_tables(user: Caller, tables: Iterable[Table]) -> frozenset[int]:
    """Return the keys of those tables of which `user` sees every value of every row. At most one
    query besides the roles, however many tables there are, and none for those that were asked about
    in the same request.
    """
    seen = {table.pk: table for table in tables if may(user, Permission.VIEW, table)}
    whole = {key for key, table in seen.items() if may(user, Permission.ADMINISTER, table)}
    others = [table for key, table in seen.items() if key not in whole]
    if not others or not isinstance(user, User):
        return frozenset(whole)
    grants, paths = _row_rights(user, others)
    for table in others:
        held = _rights_on(table, grants)
        if SEES_MASKED in held or (held and not paths[table.pk]):
            whole.add(table.pk)
    return frozenset(whole)


def find_masked_columns(user: Caller, tables: Iterable[Table]) -> Mapping[int, frozenset[str]]:
    """Return, by the key of each table, the columns that `user` does not see there, whether or not
    they read its rows. At most one query, as `whole_tables`.
    """
    listed = list(tables)
    others = [table for table in listed if not may(user, Permission.ADMINISTER, table)]
    grants, paths = _row_rights(user, others) if others else ((), {})
    return {table.pk: frozenset() for table in listed} | {
        table.pk: _add_derived(table, paths[table.pk])
        for table in others
        if SEES_MASKED not in _rights_on(table, grants)
    }


def _row_rights(
    user: Caller, tables: Sequence[Table]
) -> tuple[Sequence[_Grant], Mapping[int, frozenset[str]]]:
    """Read the rights of `user` and the masked paths of these tables. One query, or none for what
    this request has read before.
    """
    notes = load_visit_notes(user)
    paths: dict[int, frozenset[str]] = notes.setdefault("masked_paths", {})
    unread = [table.pk for table in tables if table.pk not in paths]
    masks = MaskedColumn.objects.filter(table__in=unread).order_by().values_list("table", "path")
    lists: list[QuerySet[Any, Any]] = [masks] if unread else []
    grants: QuerySet[Any, Any] | None = None
    if "row_grants" not in notes and isinstance(user, User):
        grants = RowGrant.objects.filter(_held_by(user)).order_by()
        grants = grants.values_list("table", "namespace", "right")
        lists.append(grants)
    read_together(*lists)
    if "row_grants" not in notes:
        notes["row_grants"] = [] if grants is None else list(grants)
    by_table: dict[int, set[str]] = {key: set() for key in unread}
    for key, path in masks if unread else ():
        by_table[key].add(path.lower())
    paths |= {key: frozenset(masked) for key, masked in by_table.items()}
    return notes["row_grants"], paths


def _rights_on(table: Table, grants: Iterable[_Grant]) -> frozenset[str]:
    places = ((table.pk, ""), (None, table.namespace), (None, ""))
    return frozenset(right for *place, right in grants if tuple(place) in places)


def whole_access(who: str, slug: str) -> RowAccess:
    """For whoever has a shell of this machine, and with it every file."""
    return RowAccess(who=who, table=slug, may_read=True, masked=frozenset())


def masked_paths(table: Table) -> frozenset[str]:
    """In lower case. With a part of the record key Hudi's copy of the whole key is masked too, and
    with a part of the partition path Hudi's copy of that.
    """
    paths = MaskedColumn.objects.filter(table=table).values_list("path", flat=True)
    return _add_derived(table, frozenset(path.lower() for path in paths))


def _add_derived(table: Table, masked: frozenset[str]) -> frozenset[str]:
    derived = {
        name
        for name, made_of in ((RECORD_KEY, table.record_key), (PARTITION_PATH, table.partition_by))
        if any(masks_part(column, masked) for column in columns_of(made_of))
    }
    return masked | derived


def columns_of(listed: str) -> list[str]:
    """The columns of a `record_key` or `partition_by`: `a,b:timestamp` -> `["a", "b"]`."""
    names = (part.partition(":")[0].strip() for part in listed.split(","))
    return [name for name in names if name]


def do_record_rows_read(access: RowAccess, *, door: str, rows: int, **details: object) -> None:
    """The audit says from now on that this person was shown this many rows by this door, and what
    was masked; never a value. Call it before the answer is sent.
    """
    do_record(
        who=access.who,
        what=READ_ROWS,
        subject=access.table,
        result="done",
        details={"door": door, "rows": rows, "masked": sorted(access.masked), **details},
    )


def do_record_rows_glanced_at(access: RowAccess, *, door: str, rows: int) -> None:
    """As `do_record_rows_read`, for what a page shows of rows besides its figures, and shows anew
    every few seconds: in the audit once in ten minutes for each person, table and door.
    """
    if rows and _is_first(f"{READ_ROWS} {access.who} {access.table} {door}"):
        do_record_rows_read(access, door=door, rows=rows)


def _is_first(glance: str) -> bool:
    """While the cache is away every glance is recorded."""
    try:
        return cache.add(sha256(glance.encode()).hexdigest(), 1, GLANCE_S)
    except RedisError as error:
        log.warning("every read of rows is recorded, Redis does not answer: error=%s", error)
        return True


def _held_by(user: User) -> Q:
    return Q(user=user) | Q(group__in=Group.objects.filter(user=user))
