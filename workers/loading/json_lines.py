"""JSON lines: one object a line, decoded by Python, numbers exactly as they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NoReturn

from workers.loading.content import Content, InputFile, reject_encoding
from workers.loading.findings import BadRow

_PIECE_BYTES: Final = 4 << 20
_LINE_BYTES_MAX: Final = 128 << 20
_BATCH_ROWS: Final = 20_000
_BATCH_BYTES: Final = 16 << 20

Line = tuple[int, dict[str, Any]]


class _Refused(ValueError):
    """What JSON as such, or this reader, does not take."""


def _constant(word: str) -> NoReturn:
    raise _Refused(f"the file is not JSON lines ({word} is not JSON)")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"an object has two fields named {twice[:80]!r}")
    return result


_DECODER: Final = json.JSONDecoder(
    parse_float=Decimal, parse_constant=_constant, object_pairs_hook=_members, strict=True
)


def json_batches(content: Content, file: InputFile) -> Iterator[list[Line]]:
    """Objects with the numbers of their lines, some at a time; blank lines are passed over.

    Raises BadRow.
    """
    batch: list[Line] = []
    size = 0
    for number, line in _lines(content, file.name):
        batch.append((number, _object(line, number, file.name)))
        size += len(line)
        if len(batch) == _BATCH_ROWS or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lines(content: Content, name: str) -> Iterator[tuple[int, bytes]]:
    rest, number = b"", 1
    while data := content.read(max(_PIECE_BYTES, len(rest))):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield number, line
            number += 1
        if len(rest) > _LINE_BYTES_MAX:
            raise BadRow("a line is longer than 128 MB", file=name, line=number)
    if rest.strip():
        yield number, rest


def _object(line: bytes, number: int, name: str) -> dict[str, Any]:
    reject_encoding(line, name, number)
    text = line.decode().strip()
    try:
        value = _DECODER.decode(text)
    except _Refused as error:
        advice = "write null for a missing value" if "not JSON" in str(error) else ""
        raise BadRow(str(error), file=name, line=number, advice=advice) from error
    except (ValueError, RecursionError) as error:
        advice = "write one whole object a line"
        if text.startswith("["):
            advice = "the file seems to be one JSON array: write each of its objects on a line"
        message = getattr(error, "msg", None) or "it is too deep, or a number too long"
        reason = f"the file is not JSON lines ({message})"
        raise BadRow(reason, file=name, line=number, advice=advice) from error
    if isinstance(value, dict):
        return value
    raise BadRow(
        "the file is not JSON lines (this line is not an object)",
        file=name,
        line=number,
        advice="write one object a line, with the columns as its fields",
    )
