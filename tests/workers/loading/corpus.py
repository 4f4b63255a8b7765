"""The files in `tests/files`, each with what it holds beside it: rows and types, or the refusal."""

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
    """Of the table that the file is loaded into; None for a new one."""
    key: str
    refused: str
    """A pattern of the refusal; empty for a file that is taken."""
    types: dict[str, str]
    rows: list[dict[str, Any]]
    says: str


def cases() -> list[Case]:
    """All of them, by name."""
    files = sorted(path for path in FOLDER.iterdir() if Path(f"{path}.json").is_file())
    return [_case(path) for path in files]


def _case(path: Path) -> Case:
    said = json.loads(Path(f"{path}.json").read_text())
    table = said.get("table")
    return Case(
        path,
        said.get("options", {}),
        pa.schema({name: type_named(kind, name) for name, kind in table.items()})
        if table
        else None,
        said.get("key", ""),
        said.get("refused", ""),
        said.get("types", {}),
        said.get("rows", []),
        said.get("says", ""),
    )


def types_of(schema: pa.Schema) -> dict[str, str]:
    """As the files beside the corpus name them."""
    return {field.name: name_of_type(field.type) for field in schema}


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case list():
            return [plain(one) for one in value]
        case dt.date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value
