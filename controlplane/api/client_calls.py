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

from .connection import {helpers}
from .rows import (
{rows}
)


class OperationCalls:
    """A part of `Client`."""

    _connection: Connection

{methods}

    def _table_name(self, slug: str) -> str:
        return self._connection.get(TableRow, table_path(slug))["name"]
'''
_TYPES = {
    FieldType.NUMBER: ("int", "{name}"),
    FieldType.FLAG: ("bool", "{name}"),
    FieldType.LIST: ("Sequence[str]", "list({name})"),
    FieldType.NAMES: ("Sequence[str]", "list({name})"),
    FieldType.ROWS: ("Sequence[Mapping[str, Any]]", "list({name})"),
    FieldType.OPTIONS: ("Mapping[str, str]", "dict({name} or {{}})"),
    FieldType.OBJECT: ("Mapping[str, Any]", "dict({name} or {{}})"),
}
_HELPERS = ("drop_empty", "drop_unset", "segment", "table_path")
_TEXT = ("str", "{name}")
_WIDTH = 96


def client_calls() -> str:
    """Return the module's text."""
    called = [description for description in DESCRIPTIONS if description.call]
    methods = [textwrap.indent(_method(description), "    ") for description in called]
    names = [f"{description.answer} {description.plan} TableRow" for description in called]
    rows = sorted(set(re.findall(r"\w+", " ".join(names))))
    text = "\n\n".join(methods)
    helpers = [name for name in _HELPERS if f"{name}(" in text]
    return _HEAD.format(
        helpers=", ".join(["Connection", *helpers]),
        rows="\n".join(f"    {row}," for row in rows),
        methods=text,
    )


def find_places(description: Description) -> list[str]:
    """Return the names in the address, which are parameters of the method."""
    return re.findall(r"{(\w+)}", description.address)


def parameter_names(description: Description) -> dict[str, str]:
    """Return the parameters of the method by field. The name of a place means the place."""
    places = find_places(description)
    return {
        field.name: f"new_{field.name}" if field.name in places else field.name
        for field in client_parameters(description)
    }


def client_parameters(description: Description) -> list[Field]:
    """Return the fields that are parameters of the method; the plan has the others."""
    return [
        field
        for field in description.fields
        if field.is_in_body and not (field.is_of_plan and description.plan)
    ]


def _method(description: Description) -> str:
    own = client_parameters(description)
    of_plan = [
        field
        for field in description.fields
        if field.is_in_body and field.is_of_plan and description.plan
    ]
    is_plan_needed = any(field.is_needed for field in of_plan)
    names = parameter_names(description)
    first = [f"{name}: str" for name in find_places(description)]
    first += [_parameter(field, names[field.name]) for field in own if field.is_first]
    rest = [_parameter(field, names[field.name]) for field in own if not field.is_first]
    if is_plan_needed:
        first.append(f"plan: {description.plan}")
    elif of_plan:
        rest.append(f"plan: {description.plan} | None = None")
    if description.takes_key:
        rest.append("key: str | None = None")
    parameters = ["self", *first, *(["*", *rest] if rest else [])]
    values = {field.name: _value(field, names[field.name]) for field in own}
    needed = {field.name: values[field.name] for field in own if field.is_needed}
    if is_plan_needed:
        needed |= {field.name: _from_plan(field) for field in of_plan}
    optional = {field.name: values[field.name] for field in own if not field.is_needed}
    lines = [
        *_wrap(f"def {description.call}(", parameters, f") -> {description.answer}:"),
        textwrap.indent(_docstring(description.purpose), "    "),
        *(f"    {line}" for line in _body(description, needed, optional)),
    ]
    if of_plan and not is_plan_needed:
        lines.append("    if plan is not None:")
        lines += [f'        body["{field.name}"] = {_from_plan(field)}' for field in of_plan]
    sent = ["body", "key"] if description.takes_key else ["body"]
    sent = [description.answer, f'"{description.method}"', _path(description), *sent]
    lines += [f"    {line}" for line in _wrap("return self._connection.ask(", sent, ")")]
    return "\n".join(lines)


def _body(description: Description, needed: dict[str, str], optional: dict[str, str]) -> list[str]:
    """Return the lines that build the body. A change sends every value but None."""
    lines = []
    if optional:
        drop = "drop_unset" if description.method == "PATCH" else "drop_empty"
        items = [f"{name}={value}" for name, value in optional.items()]
        lines += _wrap(f"body = {drop}(", items, ")")
    if needed:
        head = "body |= {" if optional else "body: dict[str, Any] = {"
        pairs = [f'"{name}": {value}' for name, value in needed.items()]
        lines += _wrap(head, pairs, "}")
    return lines


def _wrap(head: str, items: list[str], tail: str) -> list[str]:
    """Return a call, a definition or a dictionary in as few lines as ruff needs for it."""
    text = ", ".join(items)
    width = _WIDTH if head.startswith("def") else _WIDTH - 4
    if len(head) + len(text) + len(tail) <= width:
        return [f"{head}{text}{tail}"]
    if not head.endswith("{") and 4 + len(text) <= width:
        return [head, f"    {text}", tail]
    return [head, *(f"    {item}," for item in items), tail]


def _path(description: Description) -> str:
    """Return the expression of the address."""
    path = description.address.replace("tables/{slug}/", "{table_path(slug)}")
    path = re.sub(r"{(\w+)}", r"{segment(\1)}", path)
    if path == "{table_path(slug)}":
        return path.strip("{}")
    return f'f"{path}"' if "{" in path else f'"{path}"'


def _parameter(field: Field, name: str) -> str:
    kind = _TYPES.get(field.type, _TEXT)[0]
    if field.default is LEFT_OUT and field.type is FieldType.TEXT and not field.choices:
        return f"{name}: {kind} | None = None"
    is_given = field.is_needed and not field.default
    if is_given or (field.is_first and field.type is FieldType.OBJECT):
        return f"{name}: {kind}"
    match field.type:
        case FieldType.OPTIONS | FieldType.OBJECT:
            return f"{name}: {kind} | None = None"
        case FieldType.LIST | FieldType.NAMES:
            return f"{name}: {kind} = ()"
        case _:
            default = field.default if isinstance(field.default, str | int) else ""
            text = f'"{default}"' if isinstance(default, str) else repr(default)
            return f"{name}: {kind} = {text}"


def _value(field: Field, name: str) -> str:
    text = _TYPES.get(field.type, _TEXT)[1].format(name=name)
    is_none = field.type is FieldType.NUMBER and field.default < (field.least or 0)
    return f"{text} or None" if is_none else text


def _from_plan(field: Field) -> str:
    return "self._table_name(slug)" if field.name == "table_name" else f'plan["{field.name}"]'


def _docstring(text: str) -> str:
    return "\n".join(textwrap.wrap(f'"""{text}"""', width=_WIDTH - 4))
