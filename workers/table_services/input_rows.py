"""Rows that come with a request: files named by `path`, or keys as JSON. Plain text parameters.

The caller checks that the files are under a root (`loading.source_files`). Here they are opened as
they are named: one, a folder, or a pattern of names. Objects of a bucket are copied first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from workers.errors import InvalidInput
from workers.loading.content import InputFile
from workers.loading.options import OPTION_KEYS, LoadOptions, load_options
from workers.loading.reader import open_rows, read_rows
from workers.loading.source_files import files_here, find_source_files
from workers.locations import is_bucket_location, resolve_location

PATH_KEY = "path"
FILE_KEYS = (PATH_KEY, *OPTION_KEYS)
FILE_BYTES_MAX = 256_000_000
"""More than that is a job for Spark: the rows are held in memory, some three times their size."""
_PIECE_BYTES = 1 << 20
_DIGEST_CHARS = 12


def read_input_rows(
    parameters: Mapping[str, str], schema: pa.Schema | None, *, keys: Sequence[str] = ()
) -> pa.Table:
    """Read the rows of the files. The table's schema decides the types of the columns that they
    name, and `keys` must not have missing values.

    Raises InvalidInput: no file, no rows that the types can hold, or too large.
    """
    path, options = parameters.get(PATH_KEY, "").strip(), _get_options(parameters)
    with _files_here(path, options.format) as files:
        size = sum(file.size for file in files)
        if size > FILE_BYTES_MAX:
            raise InvalidInput(
                "the file is too large to be loaded in one piece", path=path, bytes=size
            )
        return read_rows(open_rows(files, options, schema, keys=keys))


def digest_input(parameters: Mapping[str, str]) -> str:
    """Return the start of the SHA-256 of the content, so that a plan names what was read. For
    several files it covers their names, and it covers the options of their load if there are any.
    """
    digest = hashlib.sha256()
    options = replace(_get_options(parameters), format="")
    if options != LoadOptions():
        digest.update(repr(options).encode())
    with _files_here(parameters[PATH_KEY].strip()) as files:
        for opened in files:
            if len(files) > 1:
                digest.update(f"{opened.name}\0{opened.size}\0".encode())
            with opened.opened() as file:
                while piece := file.read(_PIECE_BYTES):
                    digest.update(piece)
    return digest.hexdigest()[:_DIGEST_CHARS]


def measure_files(path: str) -> int:
    """Return the bytes of all files of this machine that the path names; 0 where they cannot be
    loaded.
    """
    try:
        return sum(Path(file.place).stat().st_size for file in find_source_files(path, _resolve))
    except (InvalidInput, OSError):
        return 0


def parse_keys(text: str, table_schema: pa.Schema, *, single: Sequence[str]) -> pa.Table:
    """Parse a JSON list of objects by column name, all with the same columns, of the types of the
    table's schema. A bare value is the value of the only column of `single`.

    Raises InvalidInput.
    """
    try:
        keys = json.loads(text)
    except ValueError as error:
        raise InvalidInput("keys must be a JSON list", text=text[:80]) from error
    if not isinstance(keys, list) or not keys:
        raise InvalidInput("keys are a list that is not empty", text=text[:80])
    rows = [key if isinstance(key, dict) else _single(key, single) for key in keys]
    columns = set(rows[0])
    if wrong := next((row for row in rows if set(row) != columns), None):
        raise InvalidInput(
            "keys have different columns", first=sorted(columns), other=sorted(wrong)
        )
    if unknown := sorted(columns - set(table_schema.names)):
        raise InvalidInput("keys have columns that the table lacks", columns=unknown)
    schema = pa.schema([table_schema.field(name) for name in table_schema.names if name in columns])
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput("keys are not of the table's types", why=error) from error


def _single(value: object, names_of_key: Sequence[str]) -> dict[str, object]:
    if len(names_of_key) != 1:
        raise InvalidInput("a key is an object with each of its columns", columns=names_of_key)
    return {names_of_key[0]: value}


def _get_options(parameters: Mapping[str, str]) -> LoadOptions:
    return load_options({name: text for name, text in parameters.items() if name in OPTION_KEYS})


@contextmanager
def _files_here(path: str, kind: str = "") -> Iterator[list[InputFile]]:
    """Yield the files that the path names; copies of objects go with the block."""
    files = find_source_files(path, _resolve, kind=kind)
    with TemporaryDirectory(prefix="sluice-rows-") as scratch:
        yield files_here(files, Path(scratch), bytes_max=FILE_BYTES_MAX)


def _resolve(path: str) -> str:
    if not path.startswith("/") and not is_bucket_location(path):
        raise InvalidInput(
            "rows come from a file: name it by its absolute path or as s3://bucket/name",
            path=path[:200],
        )
    return resolve_location(path)
