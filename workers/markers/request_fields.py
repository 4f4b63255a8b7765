"""The fields of a marker request, in its query and its body; an invalid field is rejected."""

from __future__ import annotations

import re

from workers.errors import InvalidInput
from workers.json_text import read_json
from workers.markers.marker import validate_marker_name
from workers.markers.messages import Request, parameters

_FORM = "application/x-www-form-urlencoded"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


def parse_parameters(request: Request) -> dict[str, str]:
    """Parse the query, where Hudi's clients put them, or a form; the query takes precedence.

    Raises InvalidInput.
    """
    query = request.query()
    if request.headers.get("content-type", "").startswith(_FORM):
        return {**parameters(body_text(request)), **query}
    return query


def parse_request_id(query: dict[str, str]) -> str | None:
    """Return the id that a request keeps over its attempts, None without one. Raises
    InvalidInput.
    """
    request_id = query.get("requestid") or None
    if request_id is not None and not _REQUEST_ID.match(request_id):
        raise InvalidInput("requestid is not 1 to 64 letters, digits, dots or dashes")
    return request_id


def body_text(request: Request) -> str:
    """Return the body as UTF-8. Raises InvalidInput."""
    try:
        return request.body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body is not UTF-8") from error


def parse_names(body: str) -> list[str]:
    """Parse a JSON list, or one name a line; one bad name rejects all. Raises InvalidInput."""
    if body.lstrip().startswith("["):
        try:
            listed = read_json(body)
        except (ValueError, RecursionError) as error:
            raise InvalidInput("body is no JSON list") from error
        if not all(isinstance(name, str) for name in listed):
            raise InvalidInput("a marker name is not text")
    else:
        listed = [line for line in body.split("\n") if line]
    if not listed:
        raise InvalidInput("body lists no marker")
    return [validate_marker_name(name) for name in listed]
