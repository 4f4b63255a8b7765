"""The rows of the Python client, `workers/public/sluice_client/rows.py`, made from the OpenAPI
document: `manage.py client_rows` writes them, and a test holds that they are those.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drf_spectacular.generators import SchemaGenerator

FILE = Path(__file__).resolve().parents[2] / "workers" / "public" / "sluice_client" / "rows.py"
_IMPORTED = re.compile(r"^from \.rows import (\([^)]*\)|.*)$", re.MULTILINE)
_HEAD = '''"""What the node answers, by its OpenAPI document. Made by `manage.py client_rows`."""

from __future__ import annotations

from typing import Any, TypedDict
'''
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def client_rows() -> str:
    """The module's text."""
    # What the document says of authentication registers itself.
    importlib.import_module("controlplane.api.openapi")
    generator: Any = SchemaGenerator(urlconf="controlplane.urls")  # type: ignore[no-untyped-call]  # it has no types
    schemas = generator.get_schema(request=None, public=True)["components"]["schemas"]
    classes = [_class(name, schemas) for name in sorted(_reached(schemas))]
    return "\n\n".join([_HEAD, *classes])


def _reached(schemas: Mapping[str, Any]) -> set[str]:
    """Return the rows that the client's methods answer with, and those in them."""
    reached: set[str] = set()
    modules = [file.read_text() for file in FILE.parent.glob("*.py")]
    left = re.findall(r"\w+", " ".join(_IMPORTED.findall("\n".join(modules))))
    while left:
        name = left.pop()
        if name not in reached and "properties" in schemas[name]:
            reached.add(name)
            left += _named(schemas[name])
    return reached


def _named(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for inner in part.values():
            yield from _named(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _named(inner)


def _class(name: str, schemas: Mapping[str, Any]) -> str:
    fields = [
        f"    {field}: {_type(described, schemas)}"
        for field, described in schemas[name]["properties"].items()
    ]
    head = [f"class {name}(TypedDict):", f'    """`{name}` of the OpenAPI document."""', ""]
    return "\n".join([*head, *fields, ""])


def _type(described: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    plain = _plain_type(described, schemas)
    return f"{plain} | None" if described.get("nullable") else plain


def _plain_type(described: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "$ref" in described:
        name = described["$ref"].rpartition("/")[2]
        return name if "properties" in schemas[name] else _type(schemas[name], schemas)
    for choices in ("allOf", "oneOf"):
        if choices in described:
            return " | ".join(_type(choice, schemas) for choice in described[choices])
    if "enum" in described:
        return "None" if described["enum"] == [None] else "str"
    match described.get("type"):
        case "array":
            return f"list[{_type(described['items'], schemas)}]"
        case "object":
            return "dict[str, Any]"
        case None:
            return "Any"
        case kind:
            return _TYPES[kind]
