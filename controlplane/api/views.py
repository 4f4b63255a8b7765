"""What all views of the API have in common: whoever reads may choose the fields of what is
answered, the order of a whole list, and a list as a file; objects that people edit carry the tag of
their state.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.if_match import state_tag
from controlplane.api.list_files import (
    FILE_FORMAT,
    as_rows,
    chosen_format,
    is_paged,
    list_columns,
    list_file,
)
from controlplane.api.selection import (
    FIELDS,
    SORT,
    chosen_fields,
    chosen_sort,
    row_names,
    sorted_rows,
    with_fields,
)
from controlplane.errors import InvalidRequest
from controlplane.paging import PAGE_ROWS_MAX
from controlplane.row_files import Column, Row, RowFormat, row_file

_READING = ("GET", "HEAD")


class ApiView(APIView):
    """A view whose `get` says in `extend_schema` which rows it answers."""

    sort_keys: ClassVar[tuple[str, ...]] = ()
    """By which fields the whole list may be sorted; a list in pages says so in its query."""
    edited_fields: ClassVar[tuple[str, ...]] = ()
    """What people change of the object at this address, with dots for what lies deeper: its state,
    for `If-Match`.
    """
    is_taken_as_file: ClassVar[bool] = True
    """Whether a list may be; false for one that has an address for its file."""
    deprecated_since: ClassVar[datetime | None] = None
    """When it was first said that this address goes with the next version of the API: the document
    marks it, and each answer says so in its header `Deprecation`.
    """
    _described: ClassVar[dict[type, object]] = {}
    _file_format: RowFormat | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check who asks, then what. Raises InvalidRequest for unknown fields and orders."""
        super().initial(request, *args, **kwargs)
        self._chosen: frozenset[str] | None = None
        self._order: tuple[str, bool] | None = None
        if request.method not in _READING:
            return
        query = request._request.GET.copy()
        described = self._answer()
        names = row_names(described)
        if names and FIELDS in query:
            self._chosen = chosen_fields(query.pop(FIELDS)[-1], names)
        if self.sort_keys and SORT in query:
            self._order = chosen_sort(query.pop(SORT)[-1], self.sort_keys)
        if self.is_taken_as_file and FILE_FORMAT in query and list_columns(described):
            self._file_format = chosen_format(query.pop(FILE_FORMAT)[-1])
            if paged := sorted({"limit", "cursor"} & set(query)):
                raise InvalidRequest("a file contains all rows: omit the cursor", unknown=paged)
            if is_paged(described):
                query["limit"] = str(PAGE_ROWS_MAX)
        # What is taken here the view's own query does not know, and would refuse.
        request._request.GET = query  # type: ignore[assignment]  # both are query dicts

    def finalize_response(
        self, request: Any, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> Response:
        is_answer = request.method in _READING and response.status_code == 200
        if is_answer and isinstance(response, Response):
            if self.edited_fields:
                response["ETag"] = f'"{state_tag(self, response.data)}"'
            if self._order is not None:
                key, is_descending = self._order
                response.data = sorted_rows(response.data, key, is_descending=is_descending)
            if self._chosen is not None:
                response.data = with_fields(response.data, self._chosen)
            if self._file_format is not None:
                response = self._as_file(request, response, self._file_format, args, kwargs)
        if self.deprecated_since is not None:  # RFC 9745: seconds since the epoch behind an @.
            response["Deprecation"] = f"@{int(self.deprecated_since.timestamp())}"
        return super().finalize_response(request, response, *args, **kwargs)  # type: ignore[arg-type]  # streams as well

    def _as_file(
        self, request: Request, first: Response, as_format: RowFormat, args: Any, kwargs: Any
    ) -> HttpResponseBase:
        chosen = self._chosen
        columns = [
            column
            for column in list_columns(self._answer())
            if chosen is None or column.name in chosen
        ]
        pages = self._pages(request, first.data, columns, args, kwargs)
        return list_file(request, as_format, row_file(as_format, columns, pages))

    def _pages(
        self, request: Request, answer: Any, columns: list[Column], args: Any, kwargs: Any
    ) -> Iterator[list[Row]]:
        """Each as a request of its own would be answered, with its rights."""
        while not isinstance(answer, list):
            yield as_rows(answer["results"], columns)
            if answer["next_cursor"] is None:
                return
            query = request._request.GET.copy()
            query["cursor"] = answer["next_cursor"]
            request._request.GET = query  # type: ignore[assignment]  # both are query dicts
            answer = self.get(request, *args, **kwargs).data  # type: ignore[attr-defined]  # a list has it
        yield as_rows(answer, columns)

    def _answer(self) -> Any:
        """The serializer of `get`, as the OpenAPI document has it; worked out once."""
        known = self._described
        if type(self) not in known:
            schema_class = getattr(getattr(self, "get", None), "kwargs", {}).get("schema")
            if schema_class is None:
                known[type(self)] = None
            else:
                schema = schema_class()
                schema.view, schema.method = self, "GET"
                known[type(self)] = schema.get_response_serializers()
        return known[type(self)]
