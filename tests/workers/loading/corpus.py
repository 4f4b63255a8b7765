"""The files in `tests/files`, each with a JSON file of its rows and types, or of its refusal."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from workers.sql.type_names import name_of_type, type_named

FOLDER = Path(__file__).parents[2] / "files"


@dataclass(frozen=True)
class Case:
    path: Path
    options: dict[str, str]
    table: pa.Schema | None
    """Columns of the table that the file is loaded into; None for a new one."""
    key: str
    refused: str
    """A pattern of the refusal; empty for a file that is taken."""
    types: dict[str, str]
    rows: list[dict[str, Any]]
    note: str


def cases() -> list[Case]:
    """All of them, by name."""
    files = sorted(path for path in FOLDER.iterdir() if Path(f"{path}.json").is_file())
    return [_case(path) for path in files]


def _case(path: Path) -> Case:
    lines = json.loads(Path(f"{path}.json").read_text())
    table = lines.get("table")
    return Case(
        path,
        lines.get("options", {}),
        pa.schema({name: type_named(kind, name) for name, kind in table.items()})
        if table
        else None,
        lines.get("key", ""),
        lines.get("refused", ""),
        lines.get("types", {}),
        lines.get("rows", []),
        lines.get("note", ""),
    )


def get_types(schema: pa.Schema) -> dict[str, str]:
    """Return the types as the files of the corpus name them."""
    return {field.name: name_of_type(field.type) for field in schema}


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case dict():
            return {name: plain(entry) for name, entry in value.items()}
        case list() | tuple():
            return [plain(entry) for entry in value]
        case dt.date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value
