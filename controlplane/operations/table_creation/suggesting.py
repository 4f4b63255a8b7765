"""What a file, or a statement over other tables, suggests for a table of its rows: columns with
types, and which of them tell rows apart, tried on a sample. Reads, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.operations.query_sources import SQL, checked_query
from controlplane.operations.source_places import checked_file_of_shell, checked_rows_place
from controlplane.sql.limits import ROWS_MAX
from workers.errors import InvalidInput, LakehouseError, NotFound
from workers.storage.copying import file_here
from workers.storage.source_places import check_in_no_table

if TYPE_CHECKING:
    import pyarrow as pa

COPIED_BYTES_MAX: Final = 256_000_000
"""Of an object of a bucket."""
BYTES_MAX: Final = 64_000_000
"""Of a CSV file, whose types are known when all of it was read."""
SAMPLE_ROWS: Final = 100_000
COMBINED_MAX: Final = 8
"""So many columns are tried together, those with the most different values."""
SUGGESTED_MAX: Final = 5
PARTITIONS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    name: str
    type: str
    """As CREATE TABLE names it."""
    distinct: int
    """Different values in the sample."""
    nulls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySuggestion:
    columns: list[str]
    distinct: int
    """Different keys in the sample."""
    is_unique: bool
    """No two rows of the sample have the same key, and none has a null in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSuggestion:
    path: str
    rows_sampled: int
    is_whole: bool
    """The sample is the whole file."""
    columns: list[FileColumn]
    keys: list[KeySuggestion]
    """Unique ones, the shortest first; else what comes nearest."""
    partition_by: list[str]
    """Columns with few values, each of many rows."""
    ordering: list[str]
    """Columns of times."""


def suggest_table(
    path: str, *, by: User | None, missing: str = "NA", key: Sequence[str] = ()
) -> TableSuggestion:
    """What the CSV, JSON or Parquet file at `path` suggests, an object of a bucket too. `key` is
    tried before any other. `by` is None for a shell, which may name any file of this machine
    outside of tables.

    Raises InvalidRequest: a file that `by` may not load, no such file, of another kind, a text that
    is too large, or a key of columns that it does not have.
    """
    if by is None:
        place = checked_file_of_shell(str(Path(path).absolute()))
    else:
        place = checked_rows_place(path, by)
    try:
        check_in_no_table(place)
        with TemporaryDirectory(prefix="sluice-suggestion-") as scratch:
            file = file_here(place, Path(scratch), bytes_max=COPIED_BYTES_MAX)
            rows, is_whole = sampled_rows(str(file), missing)
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **{**error.values, "path": path}) from error
    except LakehouseError as error:
        raise StorageUnavailable(error.message, **error.values) from error
    return _suggested(path, rows, is_whole, key)


def suggest_from_statement(statement: str, *, by: User, key: Sequence[str] = ()) -> TableSuggestion:
    """What the answer of one SELECT suggests, as `by` may write it; its path is empty.

    Raises what `checked_query` and `sampled_statement` raise, InvalidRequest for a key of columns
    that it does not have.
    """
    checked_query(by, {"kind": SQL, "statement": statement})
    rows, is_whole = sampled_statement(statement, by, ROWS_MAX)
    return _suggested("", rows, is_whole, key)


def sampled_statement(statement: str, by: User, rows_max: int) -> tuple[pa.Table, bool]:
    """The first rows of a SELECT as `by` may see them, and whether these are all; in the audit.

    Raises what `do_read_rows` raises, InvalidRequest where two columns have one name.
    """
    from controlplane.sql.actions import do_read_rows  # Late: it loads the engine of statements.

    read = do_read_rows(statement, by=by, rows_max=rows_max)
    names = read.rows.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRequest("two columns of the answer have one name", columns=twice)
    return read.rows, not read.cut_by


def _suggested(path: str, rows: pa.Table, is_whole: bool, key: Sequence[str]) -> TableSuggestion:
    if unknown := [name for name in key if name not in rows.column_names]:
        raise InvalidRequest("these rows have no such column", record_key=", ".join(unknown)[:200])
    columns = [_column(rows, name) for name in rows.column_names]
    return TableSuggestion(
        path=path,
        rows_sampled=rows.num_rows,
        is_whole=is_whole,
        columns=columns,
        keys=[*_chosen_key(rows, key), *_keys(rows, columns, but=list(key))],
        partition_by=[
            column.name
            for column in columns
            if column.type in ("string", "date", "int", "bigint")
            and 1 < column.distinct <= min(PARTITIONS_MAX, rows.num_rows // 10)
        ],
        ordering=[column.name for column in columns if column.type.startswith("timestamp")],
    )


def sampled_rows(place: str, missing: str) -> tuple[pa.Table, bool]:
    """The first rows of a file, and whether these are all.

    Raises InvalidRequest where there is no such file, of another kind or too large a one,
    InvalidInput for one that is not what its name says.
    """
    from workers.files.rows_file import CsvFile, JsonFile, ParquetFile

    if not Path(place).is_file():
        raise InvalidRequest("there is no such file", path=place)
    match Path(place).suffix.lower():
        case ".csv" | ".json" | ".jsonl" | ".ndjson" as suffix:
            if (size := Path(place).stat().st_size) > BYTES_MAX:
                raise InvalidRequest(
                    "the file is too large to be looked at: name the columns, or cut off its "
                    "beginning and show that",
                    path=place,
                    bytes=size,
                )
            is_csv = suffix == ".csv"
            file = CsvFile(path=place, missing=missing) if is_csv else JsonFile(place)
            rows = file.read()
            return rows.slice(0, SAMPLE_ROWS), rows.num_rows <= SAMPLE_ROWS
        case ".parquet":
            return ParquetFile(place).head(SAMPLE_ROWS)
        case other:
            raise InvalidRequest(
                "rows come from a .csv, .json (lines) or .parquet file", path=place, suffix=other
            )


def _column(rows: pa.Table, name: str) -> FileColumn:
    import pyarrow as pa
    import pyarrow.compute as pc

    from workers.sql.type_names import name_of_type

    values = rows.column(name)
    # Nested values are not counted: none of them is a key.
    distinct = 0 if pa.types.is_nested(values.type) else pc.count_distinct(values).as_py()
    return FileColumn(
        name=name,
        type=name_of_type(values.type),
        distinct=distinct,
        nulls=values.null_count,
    )


def _chosen_key(rows: pa.Table, key: Sequence[str]) -> list[KeySuggestion]:
    """The key that somebody has in mind, with what the sample says of it."""
    if not key:
        return []
    distinct = rows.select(list(key)).group_by(list(key)).aggregate([]).num_rows
    has_null = any(rows.column(name).null_count for name in key)
    is_unique = distinct == rows.num_rows and not has_null
    return [KeySuggestion(columns=list(key), distinct=distinct, is_unique=is_unique)]


def _keys(rows: pa.Table, columns: list[FileColumn], but: list[str]) -> list[KeySuggestion]:
    able = [column for column in columns if not column.nulls and _may_be_key(rows, column.name)]
    alone = [
        KeySuggestion(
            columns=[column.name],
            distinct=column.distinct,
            is_unique=column.distinct == rows.num_rows,
        )
        for column in able
    ]
    unique = [key for key in alone if key.is_unique]
    most = sorted(able, key=lambda column: -column.distinct)[:COMBINED_MAX]
    tried = list(alone)
    for width in (2, 3):
        if unique:
            break
        names = [column.name for column in most]
        together = list(_tried(rows, names, width))
        unique = [key for key in together if key.is_unique]
        tried += together
    nearest = sorted(tried, key=lambda key: (-key.distinct, len(key.columns)))
    best = unique[:SUGGESTED_MAX] or nearest[:SUGGESTED_MAX]
    return [key for key in best if key.columns != but]


def _tried(rows: pa.Table, names: list[str], width: int) -> Iterator[KeySuggestion]:
    for chosen in combinations(names, width):
        distinct = rows.select(list(chosen)).group_by(list(chosen)).aggregate([]).num_rows
        yield KeySuggestion(
            columns=list(chosen), distinct=distinct, is_unique=distinct == rows.num_rows
        )


def _may_be_key(rows: pa.Table, name: str) -> bool:
    from workers.files.record_key import check_key_type

    try:
        check_key_type(name, rows.schema.field(name).type)
    except InvalidInput:
        return False
    return True
