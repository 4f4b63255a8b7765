"""What a file, or a statement over other tables, suggests for a table of its rows: columns with
types, and which of them tell rows apart, tried on a sample. Reads, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.operations.query_sources import SQL, checked_query
from controlplane.operations.source_places import (
    checked_file_of_shell,
    find_rows_files,
)
from controlplane.sql.limits import ROWS_MAX
from workers.errors import InvalidInput, LakehouseError, NotFound
from workers.loading.findings import UnfitNames
from workers.loading.options import load_options
from workers.loading.source_files import files_here, find_source_files
from workers.storage.source_places import check_in_no_table

if TYPE_CHECKING:
    import pyarrow as pa

    from workers.loading.content import InputFile

COPIED_BYTES_MAX: Final = 256_000_000
"""Of all objects of a bucket."""
LOOK_BYTES: Final = 64_000_000
"""Types of columns are what the values in so many bytes of a text show."""
SAMPLE_ROWS: Final = 100_000
COMBINED_MAX: Final = 8
"""So many columns are tried three at a time, those with the most different values."""
TRIED_MAX: Final = 150
SUGGESTED_MAX: Final = 5
PARTITIONS_MAX: Final = 100
_OF_SOURCES: Final = ("kind", "path", "connection")


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
    files: list[str]
    """The files that the path names, in the order of their load; empty of a statement."""
    rows_sampled: int
    is_whole: bool
    """The sample is the whole file."""
    notes: list[str]
    """Each conversion and each thing of the file that a user should know, one a sentence."""
    options: dict[str, str]
    """Options of the load that the file needs and that were not given, such as `names`."""
    columns: list[FileColumn]
    keys: list[KeySuggestion]
    """Unique ones, the shortest first; else what comes nearest."""
    partition_by: list[str]
    """Columns with few values, each of many rows."""
    ordering: list[str]
    """Columns of times."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a source."""

    rows: pa.Table
    is_whole: bool
    """The sample is all of them."""
    notes: Sequence[str] = ()
    """What becomes of values that are stored in another form than they come in."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the load that it was read with, in addition to the requested ones."""
    files: Sequence[str] = ()
    """Names of the files, in the order of their load."""


def suggest_table(
    path: str, *, by: User | None, load: Mapping[str, Any] | None = None, key: Sequence[str] = ()
) -> TableSuggestion:
    """What the CSV, JSON or Parquet files at `path` suggest, objects of a bucket too, read with
    the options `load`: one file, a folder, or a pattern of names. `key` is tried before any other.
    `by` is None for a shell, which may name any file of this machine outside of tables.

    Raises InvalidRequest: a file that `by` may not load, no such file, one that is
    not as its options declare, or a key of columns that it does not have.
    """
    kind = str((load or {}).get("format", ""))
    try:
        if by is None:
            named = str(Path(path).absolute()) + ("/" if path.endswith("/") else "")
            files = find_source_files(named, checked_file_of_shell, kind=kind)
        else:
            files = find_rows_files(path, by, kind)
        for file in files[:1]:
            check_in_no_table(file.place)
        with TemporaryDirectory(prefix="sluice-suggestion-") as scratch:
            here = files_here(files, Path(scratch), bytes_max=COPIED_BYTES_MAX)
            sample = sampled_rows(here, load or {})
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **{**error.values, "path": path}) from error
    except LakehouseError as error:
        raise StorageUnavailable(error.message, **error.values) from error
    return _suggested(path, sample, key)


def suggest_from_statement(statement: str, *, by: User, key: Sequence[str] = ()) -> TableSuggestion:
    """What the answer of one SELECT suggests, as `by` may write it; its path is empty.

    Raises what `checked_query` and `sampled_statement` raise, InvalidRequest for a key of columns
    that it does not have.
    """
    checked_query(by, {"kind": SQL, "statement": statement})
    return _suggested("", sampled_statement(statement, by, ROWS_MAX), key)


def sampled_statement(statement: str, by: User, rows_max: int) -> Sample:
    """The first rows of a SELECT as `by` may see them; in the audit.

    Raises what `do_read_rows` raises, InvalidRequest where two columns have one name.
    """
    from controlplane.sql.actions import do_read_rows  # Late: it loads the engine of statements.

    read = do_read_rows(statement, by=by, rows_max=rows_max)
    names = read.rows.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRequest("column names must be unique", columns=twice)
    return Sample(read.rows, not read.cut_by)


def _suggested(path: str, sample: Sample, key: Sequence[str]) -> TableSuggestion:
    rows = sample.rows
    if unknown := [name for name in key if name not in rows.column_names]:
        raise InvalidRequest("column not found in these rows", record_key=", ".join(unknown)[:200])
    columns = [_column(rows, name) for name in rows.column_names]
    return TableSuggestion(
        path=path,
        files=list(sample.files),
        rows_sampled=rows.num_rows,
        is_whole=sample.is_whole,
        notes=list(sample.notes),
        options=dict(sample.options),
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


def sampled_rows(
    files: Sequence[InputFile], load: Mapping[str, Any], existing: pa.Schema | None = None
) -> Sample:
    """The first rows of files as they will be stored in a table of the columns `existing`. Where
    their names need the option `names=clean`, they are read with that.

    Raises InvalidInput for a file that is not as its name and the options declare.
    """
    import pyarrow as pa

    from workers.loading.reader import open_rows

    requested = {name: value for name, value in load.items() if name not in _OF_SOURCES}
    proposed: dict[str, str] = {}
    # A new table may be given the columns that have no value yet.
    opened = partial(
        open_rows,
        files,
        table_schema=existing,
        look_bytes=LOOK_BYTES,
        empty_type=pa.string() if existing is None else None,
    )
    try:
        rows = opened(load_options(requested))
    except UnfitNames:
        proposed = {"names": "clean"}
        rows = opened(load_options({**requested, **proposed}))
    batches, count, is_whole = [], 0, True
    for batch in rows:
        if count == SAMPLE_ROWS:
            is_whole = False
            break
        batches.append(batch.slice(0, SAMPLE_ROWS - count))
        count += batches[-1].num_rows
        is_whole = batches[-1].num_rows == batch.num_rows
    table = pa.Table.from_batches(batches, rows.schema)
    names = tuple(file.name for file in files)
    return Sample(table, is_whole, tuple(rows.counts.sentences), proposed, names)


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
    tried = list(alone)
    for width in (2, 3):
        if unique:
            break
        together = [_try_key(rows, names) for names in _combine_columns(able, width, rows.num_rows)]
        unique = [key for key in together if key.is_unique]
        tried += together
    nearest = sorted(tried, key=lambda key: (-key.distinct, len(key.columns)))
    best = unique[:SUGGESTED_MAX] or nearest[:SUGGESTED_MAX]
    return [key for key in best if key.columns != but]


def _combine_columns(able: Sequence[FileColumn], width: int, rows: int) -> list[list[str]]:
    """Columns that may be unique together: each pair that has enough different values, and of more
    columns those with the most. The column with the most comes first.
    """
    most = sorted(able, key=lambda column: -column.distinct)[: None if width == 2 else COMBINED_MAX]
    chosen = combinations([column for column in most if column.distinct > 1], width)
    enough = [some for some in chosen if prod(column.distinct for column in some) >= rows]
    return [[column.name for column in some] for some in enough[:TRIED_MAX]]


def _try_key(rows: pa.Table, names: list[str]) -> KeySuggestion:
    distinct = rows.select(names).group_by(names).aggregate([]).num_rows
    return KeySuggestion(columns=names, distinct=distinct, is_unique=distinct == rows.num_rows)


def _may_be_key(rows: pa.Table, name: str) -> bool:
    from workers.files.record_key import check_key_type

    try:
        check_key_type(name, rows.schema.field(name).type)
    except InvalidInput:
        return False
    return True
