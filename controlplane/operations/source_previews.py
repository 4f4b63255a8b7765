"""What a write of a file, a statement or a database's rows would bring, before it is asked for: its
columns beside the table's, and what the write would be refused for. The same check begins the write
itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.connection_sources import (
    POSTGRESQL,
    bucket_files,
    database_query,
    has_connection,
)
from controlplane.operations.descriptions.write import FILES
from controlplane.operations.load_defaults import with_kept_options
from controlplane.operations.query_sources import SQL, checked_query
from controlplane.operations.source_places import find_rows_files
from controlplane.operations.table_creation.suggesting import (
    COPIED_BYTES_MAX,
    Sample,
    sampled_rows,
    sampled_statement,
)
from controlplane.tables.access import Permission, may
from controlplane.tables.models import Table
from workers.errors import InvalidInput, LakehouseError, NotFound
from workers.jobs import OPERATIONS
from workers.loading.options import DECODED_KEY
from workers.loading.source_files import files_here
from workers.storage.source_places import check_in_no_table

PREVIEWED = (*FILES, SQL, POSTGRESQL)
STATEMENT_ROWS = 1_000
"""Of a statement or a query, so many are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewColumn:
    name: str
    type: str
    """As SQL names it, and as it will be stored."""
    table_type: str
    """Empty for a column that the table would gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePreview:
    path: str
    """Empty of a statement."""
    files: list[str]
    """The files that the path names, in the order of their load; empty of a statement."""
    columns: list[PreviewColumn]
    rows_sampled: int
    is_whole: bool
    """The sample was the whole file, or the whole answer."""
    notes: list[str]
    """What becomes of values that are stored in another form than they come in, and of columns."""
    options: dict[str, str]
    """Options of the load that the file needs in addition, such as `names`."""
    problem: str
    """Why the write would be refused; empty when nothing stands against it."""


def preview_source(
    table: Table,
    source: Mapping[str, Any],
    *,
    by: User,
    operation: str = "upsert",
    stream: str | None = None,
) -> SourcePreview:
    """Read the files, or the beginning of large ones, or compute the first rows of a statement
    as `by` may read them, or have a database compute them; then read the table's schema. Changes
    nothing; statements and queries are in the audit.

    Raises InvalidRequest: a source of another kind, a file outside the roots, not there, not
    readable, a statement that may not be written; PermissionDenied, what `do_run_sql` raises;
    StorageUnavailable.
    """
    if source.get("kind") not in PREVIEWED:
        raise InvalidRequest("sources of this kind cannot be previewed", kinds=PREVIEWED)
    if operation not in OPERATIONS:
        raise InvalidRequest("operation not found", operation=operation[:32], known=OPERATIONS)
    if source.get(DECODED_KEY) and not may(by, Permission.ADMINISTER, table):
        raise PermissionDenied(f"{DECODED_KEY} requires the {Permission.ADMINISTER.role} role")
    path = str(source.get("path", ""))
    try:
        if source["kind"] == SQL:
            query = checked_query(by, source)
            sample = sampled_statement(query.statement, by, STATEMENT_ROWS)
        elif source["kind"] == POSTGRESQL:
            sample = _database_sample(source, table, by)
        else:
            sample = _file_sample(source, table, by)
        return _preview(table, path, sample, operation, stream)
    except (InvalidInput, NotFound) as error:
        named = {"path": path} if path else {}
        raise InvalidRequest(error.message, **{**error.values, **named}) from error
    except LakehouseError as error:
        raise StorageUnavailable(error.message, **error.values) from error


def _file_sample(source: Mapping[str, Any], table: Table, by: User) -> Sample:
    """The first rows, as they will be stored. Objects of a bucket are copied first."""
    from workers.table.schema_history import load_schema

    connection, kind = None, str(source["kind"])
    if has_connection(source):
        files, connection = bucket_files(source, table.namespace, kind)
    else:
        files = find_rows_files(str(source.get("path", "")), by, kind)
    for file in files[:1]:
        check_in_no_table(file.place, connection)
    with TemporaryDirectory(prefix="sluice-preview-") as scratch:
        here = files_here(files, Path(scratch), bytes_max=COPIED_BYTES_MAX, connection=connection)
        existing = load_schema(engine_table(table))
        load = {**with_kept_options(table, source), "format": kind}
        return sampled_rows(here, load, existing.arrow if existing else None)


def _database_sample(source: Mapping[str, Any], table: Table, by: User) -> Sample:
    from workers.postgresql import first_rows  # Late: it loads a database's client.

    query, connection = database_query(source, table.namespace)
    with transaction.atomic():
        do_record(
            who=by.get_username(),
            what="connection.read",
            subject=str(source["connection"]),
            result="requested",
            details={"for": table.slug, "table": query.table, "query": query.query},
        )
    rows, is_whole = first_rows(connection, query, rows_max=STATEMENT_ROWS, environ=os.environ)
    return Sample(rows, is_whole)


def _preview(
    table: Table,
    path: str,
    sample: Sample,
    operation: str,
    stream: str | None,
) -> SourcePreview:
    from workers.options.write_options import write_options
    from workers.sql.type_names import name_of_type
    from workers.table.schema_history import load_schema
    from workers.write.columns import writer_schema
    from workers.write.request import WriteRequest

    engine = engine_table(table)
    existing = load_schema(engine)
    types = (
        {field.name: name_of_type(field.type) for field in existing.declared} if existing else {}
    )
    batch = sample.rows.schema
    request = WriteRequest(operation, stream, is_inferred=True)  # type: ignore[arg-type] # one of OPERATIONS
    problem = ""
    try:
        writer_schema(engine, write_options({}), request, batch, existing)
    except InvalidInput as error:
        problem = str(error)
    return SourcePreview(
        path=path,
        files=list(sample.files),
        columns=[
            PreviewColumn(
                name=field.name,
                type=name_of_type(field.type),
                table_type=types.get(field.name, ""),
            )
            for field in batch
        ],
        rows_sampled=sample.rows.num_rows,
        is_whole=sample.is_whole,
        notes=list(sample.notes),
        options=dict(sample.options),
        problem=problem,
    )
