"""The methods of the Python client for requests that are described,
`workers/public/sluice_client/operation_calls.py`: `manage.py client_rows` writes them, and a test
compares the file with the descriptions.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from controlplane.api.client_rows import FILE as ROWS
from controlplane.operations.descriptions.catalogue import DESCRIPTIONS
from controlplane.operations.descriptions.field import LEFT_OUT, Description, Field, FieldType

FILE = Path(ROWS).with_name("operation_calls.py")
_HEAD = '''"""Requests for operations, by their descriptions. Made by `manage.py client_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base_calls import BaseCalls
from .rows import (
{rows}
)


class OperationCalls(BaseCalls):
    """A part of `Client`."""

{methods}
'''
_TYPES = {
    FieldType.NUMBER: "int",
    FieldType.FLAG: "bool",
    FieldType.LIST: "Sequence[str]",
    FieldType.NAMES: "Sequence[str]",
    FieldType.ROWS: "Sequence[Mapping[str, Any]]",
    FieldType.OPTIONS: "Mapping[str, str]",
    FieldType.OBJECT: "Mapping[str, Any]",
}
_WIDTH = 96


def client_calls() -> str:
    """Return the module's text."""
    called = [description for description in DESCRIPTIONS if description.call]
    methods = [textwrap.indent(_method(description), "    ") for description in called]
    names = [f"{description.answer} {description.plan}" for description in called]
    rows = sorted(set(re.findall(r"\w+", " ".join(names))))
    return _HEAD.format(rows="\n".join(f"    {row}," for row in rows), methods="\n\n".join(methods))


def find_places(description: Description) -> list[str]:
    """Return the names in the address, which are parameters of the method."""
    return re.findall(r"{(\w+)}", description.address)


def parameter_names(description: Description) -> dict[str, str]:
    """Return the parameters of the method by field. The name of a place means the place."""
    places = find_places(description)
    return {
        field.name: f"new_{field.name}" if field.name in places else field.name
        for field in _own_fields(description)
    }


def _own_fields(description: Description) -> list[Field]:
    """Return the fields that are parameters of the method; the plan has the others."""
    return [
        field
        for field in description.fields
        if field.is_in_body and field not in _fields_of_plan(description)
    ]


def _fields_of_plan(description: Description) -> list[Field]:
    is_planned = bool(description.plan)
    return [field for field in description.fields if is_planned and field.is_of_plan]


def _method(description: Description) -> str:
    own, of_plan = _own_fields(description), _fields_of_plan(description)
    names = parameter_names(description)
    first = [f"{name}: str" for name in find_places(description)]
    first += [_parameter(field, names[field.name]) for field in own if field.is_first]
    rest = [_parameter(field, names[field.name]) for field in own if not field.is_first]
    if any(field.is_needed for field in of_plan):
        first.append(f"plan: {description.plan}")
    elif of_plan:
        rest.append(f"plan: {description.plan} | None = None")
    if description.takes_key:
        rest.append("key: str | None = None")
    parameters = ["self", *first, *(["*", *rest] if rest else [])]
    sent = [description.answer, f'"{description.method}"', f'"{description.address}"', "locals()"]
    if of_plan:
        sent.append(f'"{" ".join(field.name for field in of_plan)}"')
    return "\n".join(
        [
            *_wrap(f"def {description.call}(", parameters, f") -> {description.answer}:"),
            *(f"    {line}" for line in textwrap.wrap(f'"""{description.purpose}"""', _WIDTH - 4)),
            *(f"    {line}" for line in _wrap("return self._ask(", sent, ")")),
        ]
    )


def _wrap(head: str, items: list[str], tail: str) -> list[str]:
    """Return a call or a definition in as few lines as ruff needs for it."""
    text = ", ".join(items)
    width = _WIDTH if head.startswith("def") else _WIDTH - 4
    if len(head) + len(text) + len(tail) <= width:
        return [f"{head}{text}{tail}"]
    if 4 + len(text) <= width:
        return [head, f"    {text}", tail]
    return [head, *(f"    {item}," for item in items), tail]


def _parameter(field: Field, name: str) -> str:
    kind = _TYPES.get(field.type, "str")
    if (field.is_needed and not field.default) or (field.is_first and field.default is dict):
        is_optional = field.type is FieldType.OPTIONS and not field.is_needed
        return f"{name}: {kind}{' | None = None' if is_optional else ''}"
    is_unset = field.default is LEFT_OUT and not field.choices
    if is_unset or field.default is dict or (field.least and field.default == 0):
        return f"{name}: {kind} | None = None"
    if field.default is list:
        return f"{name}: {kind} = ()"
    default = field.default if isinstance(field.default, str | int) else ""
    return f"{name}: {kind} = " + (f'"{default}"' if isinstance(default, str) else repr(default))
