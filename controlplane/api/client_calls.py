"""The methods of the Python client that request operations,
`workers/public/sluice_client/operation_calls.py`, made of the descriptions of requests:
`manage.py client_rows` writes them, and a test holds that they are those.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from controlplane.api.client_rows import FILE as ROWS
from controlplane.operations.descriptions.catalogue import DESCRIPTIONS
from controlplane.operations.descriptions.field import Description, Field, FieldType

FILE = Path(ROWS).with_name("operation_calls.py")
_HEAD = '''"""Requests for operations, by their descriptions. Made by `manage.py client_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import {helpers}
from .rows import (
{rows}
)


class OperationCalls:
    """A part of `Client`."""

    _connection: Connection

{methods}

    def _table_name(self, slug: str) -> str:
        return str(self._connection.get(table_path(slug))["name"])
'''
_TYPES = {
    FieldType.NUMBER: ("int", "{name}"),
    FieldType.FLAG: ("bool", "{name}"),
    FieldType.LIST: ("Sequence[str]", "list({name})"),
    FieldType.OPTIONS: ("Mapping[str, str]", "dict({name} or {{}})"),
    FieldType.OBJECT: ("Mapping[str, Any]", "dict({name})"),
}
_HELPERS = ("Connection", "drop_empty", "segment", "table_path")
_TEXT = ("str", "{name}")
_WIDTH = 96


def client_calls() -> str:
    """Return the module's text."""
    methods = "\n\n".join(
        textwrap.indent(_method(description), "    ") for description in DESCRIPTIONS
    )
    rows = {
        row
        for description in DESCRIPTIONS
        for row in re.findall(r"\w+", f"{description.answer} {description.plan}")
    }
    names = "\n".join(f"    {row}," for row in sorted(rows))
    helpers = [name for name in _HELPERS if f"{name}(" in methods or name == "Connection"]
    return _HEAD.format(rows=names, helpers=", ".join(helpers), methods=methods)


def client_parameters(description: Description) -> list[Field]:
    """Return the fields that are parameters of the method; the plan has the others."""
    return [
        field
        for field in description.fields
        if field.is_in_body and not (field.is_of_plan and description.plan)
    ]


def _method(description: Description) -> str:
    own = client_parameters(description)
    is_plan_needed = bool(description.plan) and any(
        field.is_of_plan and field.is_needed for field in description.fields
    )
    first = [f"{name}: str" for name in _places(description)]
    first += [_parameter(field) for field in own if field.is_first]
    rest = [_parameter(field) for field in own if not field.is_first]
    if description.plan and is_plan_needed:
        first.append(f"plan: {description.plan}")
    elif description.plan:
        rest.append(f"plan: {description.plan} | None = None")
    if description.takes_key:
        rest.append("key: str | None = None")
    parameters = ["self", *first, *(["*", *rest] if rest else [])]
    lines = [
        f"def {description.call}(",
        *(f"    {parameter}," for parameter in parameters),
        f") -> {description.answer}:",
        textwrap.indent(_docstring(description.purpose), "    "),
        "    body: dict[str, Any] = {",
        *(f'        "{field.name}": {_value(field)},' for field in own),
    ]
    of_plan = (
        {}
        if not description.plan
        else {
            field.name: _from_plan(field)
            for field in description.fields
            if field.is_in_body and field.is_of_plan
        }
    )
    if is_plan_needed:
        lines += [f'        "{name}": {value},' for name, value in of_plan.items()]
    lines.append("    }")
    if of_plan and not is_plan_needed:
        lines.append("    if plan is not None:")
        lines += [f'        body["{name}"] = {value}' for name, value in of_plan.items()]
    key = ", key=key" if description.takes_key else ""
    method = description.method
    sent = f'self._connection.send("{method}", path, drop_empty(body){key})'
    lines += [
        f'    path = f"{_path(description)}"',
        f"    answer: {description.answer} = {sent}",
        "    return answer",
    ]
    return "\n".join(lines)


def _places(description: Description) -> list[str]:
    return re.findall(r"{(\w+)}", description.address)


def _path(description: Description) -> str:
    path = description.address.replace("tables/{slug}/", "{table_path(slug)}")
    return re.sub(r"{(\w+)}", r"{segment(\1)}", path)


def _parameter(field: Field) -> str:
    kind = _TYPES.get(field.type, _TEXT)[0]
    is_given = field.is_needed and not field.default
    if is_given or (field.is_first and field.type is FieldType.OBJECT):
        return f"{field.name}: {kind}"
    match field.type:
        case FieldType.OPTIONS:
            return f"{field.name}: {kind} | None = None"
        case FieldType.LIST:
            return f"{field.name}: {kind} = ()"
        case _:
            default = field.default if isinstance(field.default, str | int) else ""
            text = f'"{default}"' if isinstance(default, str) else repr(default)
            return f"{field.name}: {kind} = {text}"


def _value(field: Field) -> str:
    return _TYPES.get(field.type, _TEXT)[1].format(name=field.name)


def _from_plan(field: Field) -> str:
    return "self._table_name(slug)" if field.name == "table_name" else f'plan["{field.name}"]'


def _docstring(text: str) -> str:
    return "\n".join(textwrap.wrap(f'"""{text}"""', width=_WIDTH - 4))
