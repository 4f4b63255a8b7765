"""A list as a file: `?file_format=csv` on any list answers all rows that its filters leave, with
the fields and in the order that were chosen, whatever number of pages that is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request

from controlplane.errors import InvalidRequest
from controlplane.row_files import CONTENT_TYPES, FORMATS, MOMENT, Column, Row, RowFormat

FILE_FORMAT = "file_format"
_TYPES: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], pa.DataType], ...] = (
    (serializers.BooleanField, pa.bool_()),
    (serializers.IntegerField, pa.int64()),
    (serializers.FloatField, pa.float64()),
    (serializers.DateTimeField, MOMENT),
)


def list_columns(described: object) -> tuple[Column, ...]:
    """The columns of a list, or of the rows in a page, that a serializer describes; none for any
    other answer.
    """
    rows = _fields(described)["results"] if is_paged(described) else described
    if not isinstance(rows, serializers.ListSerializer):
        return ()
    return tuple(Column(name, _type(field)) for name, field in _fields(rows.child).items())


def is_paged(described: object) -> bool:
    return set(_fields(described)) == {"results", "next_cursor"}


def chosen_format(text: str) -> RowFormat:
    """The format of that name. Raises InvalidRequest for one that there is not."""
    for known in FORMATS:
        if text == known:
            return known
    raise InvalidRequest("invalid format", unknown=[text[:32]], known=list(FORMATS))


def file_response(
    request: Request, pieces: Iterator[bytes], *, content_type: str, name: str
) -> StreamingHttpResponse:
    """The pieces as a file to be saved, each made when the one before it was taken."""
    is_async = isinstance(request._request, ASGIRequest)
    response = StreamingHttpResponse(
        _without_blocking(pieces) if is_async else pieces, content_type=content_type
    )
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["Cache-Control"] = "no-store"
    return response


def list_file(
    request: Request, as_format: RowFormat, pieces: Iterator[bytes]
) -> StreamingHttpResponse:
    """The file of a list, called by the last part of its address."""
    name = request.path.rstrip("/").rpartition("/")[2]
    return file_response(
        request, pieces, content_type=CONTENT_TYPES[as_format], name=f"{name}.{as_format}"
    )


def as_rows(shown: Sequence[Any], columns: Sequence[Column]) -> list[Row]:
    return [[row[column.name] for column in columns] for row in shown]


def add_files(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A hook of drf-spectacular: whatever takes `file_format` may answer with each of them."""
    del generator, request, public
    for methods in result["paths"].values():
        for operation in methods.values():
            if any(map(_is_of_list, operation.get("parameters", ()))):
                content = operation["responses"]["200"]["content"]
                content |= {kind.partition(";")[0]: {} for kind in CONTENT_TYPES.values()}
    return result


def _is_of_list(parameter: Mapping[str, Any]) -> bool:
    known = parameter.get("schema", {}).get("enum", ())
    return parameter["name"] == FILE_FORMAT and set(known) == set(FORMATS)


def _fields(described: object) -> Mapping[str, object]:
    if isinstance(described, type) and issubclass(described, serializers.Serializer):
        described = described()
    return described.fields if isinstance(described, serializers.Serializer) else {}


def _type(field: object) -> pa.DataType:
    return next((kind for known, kind in _TYPES if isinstance(field, known)), pa.string())


async def _without_blocking(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is made on a thread, so that the server goes on meanwhile."""

    def next_piece() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(next_piece)()) is not None:
        yield piece
