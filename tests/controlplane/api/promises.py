"""What the OpenAPI document promises, a line each, and the list of it that is kept beside this
file: `python -m tests.controlplane.api.promises` adds what is new to it and takes nothing away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_suffix(".txt")


def kept() -> set[str]:
    return set(KEPT.read_text().splitlines())


def document() -> dict[str, Any]:
    import importlib

    from drf_spectacular.generators import SchemaGenerator

    importlib.import_module("controlplane.api.openapi")
    generator: Any = SchemaGenerator(urlconf="controlplane.urls")  # type: ignore[no-untyped-call]  # it has no types
    made: dict[str, Any] = generator.get_schema(request=None, public=True)
    return made


def promises(made: Mapping[str, Any]) -> set[str]:
    """Addresses with their parameters, and schemas with their fields and what those are."""
    return {*_of_paths(made["paths"]), *_of_schemas(made["components"]["schemas"])}


def deprecated(made: Mapping[str, Any]) -> set[str]:
    """The addresses that say that they go."""
    return {
        f"{method.upper()} {path}"
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
        if operation.get("deprecated")
    }


def _of_paths(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            address = f"{method.upper()} {path}"
            yield address
            for parameter in operation.get("parameters", ()):
                if parameter["in"] != "path":
                    yield f"{address} takes {parameter['name']}"
            for status, answer in operation["responses"].items():
                contents = answer.get("content", {}) if status.startswith("2") else {}
                for content in contents.values():
                    if schema := content.get("schema"):
                        yield f"{address} answers {status} {_kind(schema)}"


def _of_schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            yield f"{name}.{field}: {_kind(described)}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for together in ("allOf", "oneOf", "anyOf"):
        if together in schema:
            return "|".join(sorted(map(_kind, schema[together])))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    return str(schema.get("type", "any"))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
    import django

    django.setup()
    known = kept() if KEPT.exists() else set()
    KEPT.write_text("".join(f"{line}\n" for line in sorted(known | promises(document()))))


if __name__ == "__main__":
    main()
