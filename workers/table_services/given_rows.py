"""Rows that come with a request: a file named by `path`, or keys as JSON. Plain text parameters.

Whoever hands a request on checks that the path lies under a root (`storage.roots`); here it is
opened as it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from workers.errors import InvalidInput
from workers.loading.options import OPTION_KEYS, load_options
from workers.loading.reader import open_rows, read_rows

PATH_KEY = "path"
FILE_KEYS = (PATH_KEY, *OPTION_KEYS)
FILE_BYTES_MAX = 256_000_000
"""More than that is a job for Spark: the rows are held in memory, some three times their size."""
_PIECE_BYTES = 1 << 20
_DIGEST_CHARS = 12


def rows_of_file(
    parameters: Mapping[str, str], known: pa.Schema | None, *, keys: Sequence[str] = ()
) -> pa.Table:
    """What the file holds; `known` decides the types of the columns that it names, and `keys` may
    have no missing value.

    Raises InvalidInput: no file, no rows that the types can hold, or too large.
    """
    path = parameters.get(PATH_KEY, "").strip()
    size = _size(path)
    if size > FILE_BYTES_MAX:
        raise InvalidInput("the file is too large to be loaded in one piece", path=path, bytes=size)
    options = load_options({name: text for name, text in parameters.items() if name in OPTION_KEYS})
    return read_rows(open_rows([path], options, known, keys=keys))


def digest_of_file(path: str) -> str:
    """The start of the SHA-256 of the content, so that a plan names what was read."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()[:_DIGEST_CHARS]


def rows_of_text(text: str, known: pa.Schema, *, single: Sequence[str]) -> pa.Table:
    """A JSON list of objects by column name, all with the same columns, of the types of `known`;
    bare values stand for the column where `single` names just one.

    Raises InvalidInput.
    """
    try:
        keys = json.loads(text)
    except ValueError as error:
        raise InvalidInput("keys are no JSON list", text=text[:80]) from error
    if not isinstance(keys, list) or not keys:
        raise InvalidInput("keys are a list that is not empty", text=text[:80])
    rows = [one if isinstance(one, dict) else _single(one, single) for one in keys]
    columns = set(rows[0])
    if wrong := next((row for row in rows if set(row) != columns), None):
        raise InvalidInput(
            "keys have different columns", first=sorted(columns), other=sorted(wrong)
        )
    if unknown := sorted(columns - set(known.names)):
        raise InvalidInput("keys have columns that the table lacks", columns=unknown)
    schema = pa.schema([known.field(name) for name in known.names if name in columns])
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput("keys are not of the table's types", why=error) from error


def _single(value: object, names_of_key: Sequence[str]) -> dict[str, object]:
    if len(names_of_key) != 1:
        raise InvalidInput("a key is an object with each of its columns", columns=names_of_key)
    return {names_of_key[0]: value}


def _size(path: str) -> int:
    if not path.startswith("/"):
        raise InvalidInput("rows come from a file, by its absolute path", path=path[:200])
    if not Path(path).is_file():
        raise InvalidInput("there is no such file", path=path[:200])
    return Path(path).stat().st_size
