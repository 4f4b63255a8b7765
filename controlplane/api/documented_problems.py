"""What the OpenAPI document says of errors: every operation lists those that it may answer with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.api.if_match import IF_MATCH
from controlplane.api.problems import MEDIA_TYPE, PROBLEMS, Problem, problem

_SCHEMA = {"$ref": "#/components/schemas/Problem"}
_ALWAYS = (401, 403, 406, 500, 503)
_OF_A_BODY = (400, 413, 415)
_OF_A_CHANGE = (409, 422)
_OF_A_STREAM = (429,)
NAMES_A_PLACE = "x-names-a-place"
"""Of an operation whose query names something that may not be there; not in the document."""


def add_problems(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """A hook of drf-spectacular, called with the finished document; gives it back with a response
    for each status of an error, and an example for each code of that status.
    """
    del generator, request, public
    result["components"].setdefault("schemas", {})["Problem"] = _problem_schema()
    for methods in result["paths"].values():
        for method, operation in methods.items():
            for status in _statuses(method, operation):
                operation["responses"].setdefault(str(status), _response(status))
            operation.pop(NAMES_A_PLACE, None)
    return result


def _statuses(method: str, operation: Mapping[str, Any]) -> Iterator[int]:
    yield from _ALWAYS
    places = {parameter["in"] for parameter in operation.get("parameters", ())}
    if places:
        yield 400
    names_more = operation.get(NAMES_A_PLACE) or "requestBody" in operation
    if "path" in places or names_more:  # A body may name a table as well.
        yield 404
    if method != "get":
        yield from _OF_A_CHANGE
        yield 429
    if any(parameter["name"] == IF_MATCH for parameter in operation.get("parameters", ())):
        yield 412
    if "requestBody" in operation:
        yield from _OF_A_BODY
    if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
        yield from _OF_A_STREAM


def _response(status: int) -> dict[str, Any]:
    kinds = {code: kind for code, kind in PROBLEMS.items() if kind.status == status}
    examples = {
        code: {"summary": kind.remedy, "value": problem(code, kind.title, {})}
        for code, kind in kinds.items()
    }
    return {
        "description": ". ".join(kind.title for kind in kinds.values()),
        "content": {MEDIA_TYPE: {"schema": _SCHEMA, "examples": examples}},
    }


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": Problem.__doc__,
        "required": ["type", "title", "status", "detail", "code", "values"],
        "additionalProperties": False,
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "code": {"type": "string", "enum": sorted(PROBLEMS)},
            "values": {"type": "object", "additionalProperties": {}},
        },
    }
