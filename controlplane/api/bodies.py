"""What a request may bring: JSON of bounded size and depth."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

DEPTH_MAX = 64
"""Deeper than anything that is asked for, and far from where Python's own bound ends a parse."""


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What no database keeps as text."""


class BodyTooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class BoundedJSONParser(JSONParser):
    """Reads no further than a body may go."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        bytes_max = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(bytes_max + 1)
        if len(body) > bytes_max:
            raise BodyTooLarge(f"the body is larger than {bytes_max} bytes")
        try:
            parsed = super().parse(io.BytesIO(body), media_type, parser_context)
        except RecursionError:
            parsed = None
            is_too_deep = True
        else:
            is_too_deep = _is_deep(parsed)
        if is_too_deep:
            raise ParseError(f"the body is nested deeper than {DEPTH_MAX} levels")
        if any(_UNSTORABLE.search(text) for text in _texts(parsed)):
            raise ParseError("a text of the body contains a NUL or a surrogate: send valid Unicode")
        return parsed


def _texts(value: object) -> Iterator[str]:
    """Every text of JSON of a bounded depth, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(part)


def _is_deep(value: object) -> bool:
    """Level by level: what measures depth must not have one itself."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(one, dict | list) for one in level)
