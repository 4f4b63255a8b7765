"""The descriptions of all requests, and the page of the manual that lists their fields."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from controlplane.operations.descriptions import (
    access,
    operations,
    rollback,
    schedules,
    services,
    sinks,
    streams,
    tables,
    write,
)
from controlplane.operations.descriptions.field import Description, Field, FieldType
from controlplane.operations.descriptions.services import SERVICES, Service

_MODULES: Final = (
    *(write, rollback, services, sinks, operations, tables, schedules, streams, access),
)
DESCRIPTIONS: Final[Sequence[Description]] = list(
    dict.fromkeys(
        value
        for module in _MODULES
        for value in vars(module).values()
        if isinstance(value, Description) and value.address
    )
)

_HEAD: Final = """# Requests

Printed by `manage.py operation fields`; a test holds the two together. Each request is described
once, so the API, the form, the command and the Python client have the same fields. Addresses are
below `/api/v1/`. *Form* and *command* are the field's names there; a dash means that they have
none. A field in *italics* is a part of the one below it.
"""


def requests_page() -> str:
    """Return the page `docs/requests.md`."""
    services = [_service_section(service) for service in SERVICES.values()]
    return "\n".join([_HEAD.rstrip(), *map(_section, DESCRIPTIONS), *services, ""])


def _section(description: Description) -> str:
    command = f" Command: `manage.py {description.command}`." if description.command else ""
    ways = f"`{description.method} {description.address}`, `Client.{description.call}`."
    text = f"{ways} Role: {description.permission.role}.{command}"
    head = _head(description.name, description.purpose, text)
    columns = "\n| field | type | default | form | command | meaning |\n|---|---|---|---|---|---|"
    rows = [_row(field, description) for field in description.all_fields()]
    return "\n".join([head, columns, *rows])


def _service_section(service: Service) -> str:
    role = f"Role: {service.permission.role}. Command: `manage.py {service.command}`."
    head = _head(f"service: {service.name}", service.purpose, role)
    columns = "\n| parameter | type | form | command | meaning |\n|---|---|---|---|---|"
    rows = [
        _join(
            f"`{field.name}`",
            _type(field) + (", needed" if field.is_needed else ""),
            field.label,
            f"`{field.flag or '--set'}`",
            field.help,
        )
        for field in service.fields
    ]
    return "\n".join([head, columns, *rows] if rows else [head])


def _head(name: str, *paragraphs: str) -> str:
    return "\n\n".join([f"\n## {name}", *(textwrap.fill(text, 120) for text in paragraphs)])


def _row(field: Field, description: Description) -> str:
    is_part = field not in description.fields
    name = f"*`{field.body_key}`*" if is_part else f"`{field.name}`"
    form = f"`{field.form_name}`" if field.form_name else "-"
    flag = f"`{field.flag}`" if field.flag and description.command else "-"
    return _join(name, _type(field), _default(field), form, flag, _meaning(field))


def _join(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: Field) -> str:
    if values := [f"`{value}`" for value in field.values if value]:
        return ", ".join(values)
    limits = {
        FieldType.NUMBER: f", {field.least or 0:,} to {field.most:,}"
        if field.most is not None
        else "",
        FieldType.LIST: f", {field.most} at most" if field.most is not None else "",
    }
    return field.type.value + limits.get(field.type, "")


def _default(field: Field) -> str:
    if field.is_needed:
        return "needed"
    is_shown = isinstance(field.default, str | int) and field.default not in ("", False)
    return f"`{field.default}`" if is_shown else "*empty*"


def _meaning(field: Field) -> str:
    sources = f" For {', '.join(field.of)}." if field.of else ""
    planned = [f"`{choice.value}`" for choice in field.choices if choice.is_planned]
    plan = f" Planned first: {', '.join(planned)}." if planned else ""
    return f"{field.help or field.label + '.'}{plan}{sources}"
