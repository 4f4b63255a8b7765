"""What a write of a file would bring, looked at before it is asked for: the file's columns beside
the table's, and what the write would be refused for. The same check begins the write itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.table_creation.suggesting import sampled_rows
from controlplane.tables.locations import checked_rows_place
from controlplane.tables.models import Table
from workers.errors import InvalidInput, LakehouseError, NotFound
from workers.jobs import OPERATIONS
from workers.storage.copying import file_here

_KINDS = ("csv", "json", "parquet")
COPIED_BYTES_MAX = 256_000_000
"""Of an object of a bucket; a larger one is written without a look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewColumn:
    name: str
    type: str
    """As SQL names it; of a CSV or JSON file as its values look."""
    table_type: str
    """Empty for a column that the table would gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePreview:
    path: str
    columns: list[PreviewColumn]
    rows_sampled: int
    is_whole: bool
    """The sample was the whole file."""
    problem: str
    """Why the write would be refused; empty when nothing stands against it."""


def preview_source(
    table: Table, source: Mapping[str, Any], *, operation: str = "upsert", stream: str | None = None
) -> SourcePreview:
    """Reads the file, or the beginning of a Parquet file, and the table's schema; changes nothing.

    Raises InvalidRequest: a source that is no file, outside the roots, not there, not readable;
    StorageUnavailable.
    """
    if source.get("kind") not in _KINDS:
        raise InvalidRequest("only files are shown before they are written", kinds=_KINDS)
    if operation not in OPERATIONS:
        raise InvalidRequest("no such operation", operation=operation[:32], known=OPERATIONS)
    path = str(source.get("path", ""))
    place = checked_rows_place(path)
    try:
        with TemporaryDirectory(prefix="sluice-preview-") as scratch:
            file = file_here(place, Path(scratch), bytes_max=COPIED_BYTES_MAX)
            rows, is_whole = sampled_rows(str(file), str(source.get("missing", "NA")))
        return _preview(table, path, rows, is_whole, operation, stream, str(source.get("key", "")))
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **{**error.values, "path": path}) from error
    except LakehouseError as error:
        raise StorageUnavailable(error.message, **error.values) from error


def _preview(
    table: Table,
    path: str,
    rows: Any,
    is_whole: bool,
    operation: str,
    stream: str | None,
    made_key: str,
) -> SourcePreview:
    import pyarrow as pa

    from workers.options.write_options import write_options
    from workers.sql.type_names import name_of_type
    from workers.table.schema_history import current_schema
    from workers.write.columns import writer_schema
    from workers.write.request import WriteRequest

    engine = engine_table(table)
    known = current_schema(engine)
    types = {field.name: name_of_type(field.type) for field in known.declared} if known else {}
    batch = rows.schema
    if made_key and made_key not in batch.names:
        batch = batch.append(pa.field(made_key, pa.string()))
    request = WriteRequest(operation, stream, is_inferred=True)  # type: ignore[arg-type] # one of OPERATIONS
    problem = ""
    try:
        writer_schema(engine, write_options({}), request, batch, known)
    except InvalidInput as error:
        problem = str(error)
    return SourcePreview(
        path=path,
        columns=[
            PreviewColumn(
                name=field.name,
                type=name_of_type(field.type),
                table_type=types.get(field.name, ""),
            )
            for field in batch
        ],
        rows_sampled=rows.num_rows,
        is_whole=is_whole,
        problem=problem,
    )
