"""A statement of a person, checked, computed and in the audit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.audit.actions import do_record
from controlplane.errors import ControlPlaneError
from controlplane.row_files import RowFormat
from controlplane.sql.cells import cells
from controlplane.sql.errors import SqlMaskedColumn, SqlRefused, SqlTableUnknown
from controlplane.sql.exports import rows_file
from controlplane.sql.limits import ROWS_DEFAULT, STATEMENT_KEPT_CHARS, sql_limits
from controlplane.sql.readable import ReadableTables
from controlplane.sql.running import TableToRead, run_statement
from controlplane.sql.runs import cancellable, do_note_run
from controlplane.sql.slots import slot
from controlplane.tables.row_access import READ_ROWS, do_record_rows_read
from workers.sql.checking import (
    CheckedSelect,
    MaskedColumnUsed,
    StatementRefused,
    UnreadableTable,
    check_select,
)
from workers.sql.type_names import name_of_type

DOOR = "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlColumn:
    """A column of an answer."""

    name: str
    type: str
    """As CREATE TABLE names it; a masked one is of type string."""
    is_masked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """The rows of one statement."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    """Each as long as `columns`. Times as ISO 8601, decimals and binaries (base64) as text."""
    is_cut: bool
    """Whether there are more rows than these."""
    cut_by: str
    """`rows` or `bytes`, what stopped it; empty for a whole answer."""
    took_ms: int
    tables: list[str]
    """Slugs of those that were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of one statement as Arrow has them."""

    rows: pa.Table
    """Masked where they are."""
    cut_by: str
    """As of `SqlAnswer`."""
    masked: list[bool]
    """Of each column."""
    tables: list[str]
    """Slugs of those that were read."""


def do_run_sql(
    statement: str,
    *,
    by: User,
    rows_max: int = ROWS_DEFAULT,
    wall_s: float | None = None,
    run_id: str = "",
) -> SqlAnswer:
    """The answer of one SELECT, as `by` may see it; the audit holds who asked what of which tables.
    `wall_s` ends it earlier than the node would; `do_cancel_run` ends the run with this `run_id`.

    Raises what `do_read_rows` raises.
    """
    begun_s = time.monotonic()
    read = do_read_rows(statement, by=by, rows_max=rows_max, wall_s=wall_s, run_id=run_id)
    columns = [
        SqlColumn(name=field.name, type=name_of_type(field.type), is_masked=is_masked)
        for field, is_masked in zip(read.rows.schema, read.masked, strict=True)
    ]
    return SqlAnswer(
        columns=columns,
        rows=cells(read.rows),
        is_cut=bool(read.cut_by),
        cut_by=read.cut_by,
        took_ms=round((time.monotonic() - begun_s) * 1000),
        tables=read.tables,
    )


def do_export_sql(
    statement: str,
    file_format: RowFormat,
    *,
    by: User,
    rows_max: int = ROWS_DEFAULT,
    wall_s: float | None = None,
) -> bytes:
    """As `do_run_sql`, as a file."""
    return rows_file(
        do_read_rows(statement, by=by, rows_max=rows_max, wall_s=wall_s).rows, file_format
    )


def do_read_rows(
    statement: str,
    *,
    by: User,
    rows_max: int,
    wall_s: float | None = None,
    run_id: str = "",
) -> ReadRows:
    """As `do_run_sql`, with the rows as they came.

    Raises SqlRefused, SqlTableUnknown, SqlMaskedColumn and PermissionDenied before anything runs,
    SqlBusy; SqlLimitHit, SqlCancelled and SqlFailed. All of them are in the audit and in the user's
    history.
    """
    begun_s = time.monotonic()
    tables, limits = ReadableTables(by), sql_limits()
    if wall_s is not None:
        limits = replace(limits, wall_s=min(wall_s, limits.wall_s))
    with _recording_refusals(statement, by, tables, begun_s), ExitStack() as held:
        checked = _checked(statement, tables)
        is_cancelled = held.enter_context(cancellable(run_id, by=by))
        with slot(settings.SLUICE_HOME, str(by.pk), limits):
            answer = run_statement(
                checked.text("duckdb"),
                _to_read(checked, tables),
                rows_max=rows_max,
                limits=limits,
                is_cancelled=is_cancelled,
            )
    if not tables.named:
        _record(statement, by, tables, result="done", rows=answer.rows.num_rows)
    for named in {named.row.slug: named for named in tables.named.values()}.values():
        do_record_rows_read(
            named.access,
            door=DOOR,
            rows=answer.rows.num_rows,
            statement=statement[:STATEMENT_KEPT_CHARS],
        )
    _note_run(statement, by, begun_s, result="done", rows=answer.rows.num_rows)
    return ReadRows(
        rows=answer.rows.rename_columns([column.name for column in checked.columns]),
        cut_by=answer.cut_by,
        masked=[column.is_masked for column in checked.columns],
        tables=_slugs(tables),
    )


def _checked(statement: str, tables: ReadableTables) -> CheckedSelect:
    try:
        return check_select(statement, tables, allows_times=True)
    except UnreadableTable as error:
        raise SqlTableUnknown(error.message, **error.values) from error
    except MaskedColumnUsed as error:
        raise SqlMaskedColumn(
            f"the column {error.values['column']} of {error.values['table']} is masked: it can be "
            f"shown as a column of the answer, not used in {error.values['not_allowed']}",
            **error.values,
        ) from error
    except StatementRefused as error:
        raise SqlRefused(error.message, **error.values) from error


def _to_read(checked: CheckedSelect, tables: ReadableTables) -> list[TableToRead]:
    return [
        TableToRead(
            relation=table.relation,
            location=tables.named[table.name].location,
            columns=table.columns,
            masked=tuple(sorted(tables.named[table.name].access.masked)),
            times_read=table.times_read,
            as_of=table.as_of,
            hint=table.hint,
        )
        for table in checked.tables.values()
    ]


@contextmanager
def _recording_refusals(
    statement: str, by: User, tables: ReadableTables, begun_s: float
) -> Iterator[None]:
    try:
        yield
    except (ControlPlaneError, PermissionDenied) as error:
        why = getattr(error, "code", "permission_denied")
        _record(statement, by, tables, result="refused", rows=0, why=why)
        _note_run(statement, by, begun_s, result=why, rows=0)
        raise


def _note_run(statement: str, by: User, begun_s: float, *, result: str, rows: int) -> None:
    took_ms = round((time.monotonic() - begun_s) * 1000)
    do_note_run(statement, by=by, result=result, rows=rows, took_ms=took_ms)


def _record(
    statement: str, by: User, tables: ReadableTables, *, result: str, rows: int, **details: str
) -> None:
    """Of a statement that showed nobody a row of a table."""
    do_record(
        who=by.get_username(),
        what=READ_ROWS,
        subject=",".join(_slugs(tables))[:200],
        result=result,
        details={
            "door": DOOR,
            "rows": rows,
            "statement": statement[:STATEMENT_KEPT_CHARS],
            **details,
        },
    )


def _slugs(tables: ReadableTables) -> list[str]:
    return sorted({named.row.slug for named in tables.named.values()})
