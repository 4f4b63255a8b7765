"""What an operation was asked for with, as lines that a page shows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

LINES_MAX: Final = 60
TEXT_CHARS_MAX: Final = 400
_OWN: Final = "job."
"""Before the name of each parameter of a job, which says nothing to a reader."""


@dataclass(frozen=True, slots=True)
class ParameterLine:
    name: str
    """Of a mapping within another one, both names with a dot between them."""
    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class ShownParameters:
    lines: list[ParameterLine]
    left_out: int
    whole: str
    """All of it as JSON, to copy."""


def shown_parameters(parameters: Mapping[str, Any]) -> ShownParameters:
    """Those that say something, by name."""
    lines = sorted(_lines("", parameters), key=lambda line: line.name)
    whole = json.dumps(parameters, indent=1, ensure_ascii=False, default=str)
    return ShownParameters(lines[:LINES_MAX], max(0, len(lines) - LINES_MAX), whole)


def _lines(prefix: str, parameters: Mapping[str, Any]) -> Iterator[ParameterLine]:
    for name, given in parameters.items():
        full = f"{prefix}{name}"
        if isinstance(given, Mapping):
            yield from _lines(f"{full}.", given)
        elif given not in (None, "", [], False):
            text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            cut = text[:TEXT_CHARS_MAX]
            yield ParameterLine(full.removeprefix(_OWN), cut, len(cut) < len(text))
