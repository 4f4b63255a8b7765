"""A schema conflict, told field by field: the schema at start, the one found at validation, the
writer's. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.mirror.selectors import type_text


@dataclass(frozen=True, slots=True)
class Cell:
    """One field in one of the three schemas. `change` is against the schema at start."""

    text: str
    change: str
    """same, added, removed, changed or absent"""


@dataclass(frozen=True, slots=True)
class FieldLine:
    name: str
    at_start: Cell
    at_validation: Cell
    writer: Cell

    @property
    def disagrees(self) -> bool:
        return self.at_validation.text != self.writer.text


@dataclass(frozen=True, slots=True)
class SchemaStory:
    lines: tuple[FieldLine, ...]
    case: int
    """The case of RFC-82, by its decision table."""
    sentence: str


def tell(schemas: Mapping[str, Any]) -> SchemaStory:
    """What differs between the three schemas of a conflict; fields all three agree on come last."""
    start, now, mine = (
        _fields(schemas.get(key)) for key in ("at_start", "at_validation", "writer")
    )
    names = list(dict.fromkeys([*(now or {}), *(mine or {}), *(start or {})]))
    lines = [
        FieldLine(
            name=name,
            at_start=Cell(
                (start or {}).get(name, ""), "same" if name in (start or {}) else "absent"
            ),
            at_validation=_cell(name, start, now),
            writer=_cell(name, start, mine),
        )
        for name in names
    ]
    lines.sort(key=lambda line: not line.disagrees)
    case, sentence = _case(start, now, mine)
    return SchemaStory(lines=tuple(lines), case=case, sentence=sentence)


def _case(
    start: dict[str, str] | None, now: dict[str, str] | None, mine: dict[str, str] | None
) -> tuple[int, str]:
    if now is None:
        return 1, "the table had no schema at validation; the writer's one stands"
    if list((mine or {}).items()) == list(now.items()):
        return (7 if start is not None else 2), "both writers arrived at the same schema"
    if start is None:
        return 3, "the table had no schema when this writer began; another one defined it meanwhile"
    if list(start.items()) == list(now.items()):
        return 5, "only this writer changed the schema"
    if list(start.items()) == list((mine or {}).items()):
        return 6, "only the other writer changed the schema"
    if {name.lower() for name in mine or {}} & {name.lower() for name in now} - (
        set(mine or {}) & set(now)
    ):
        return 8, "both changed the schema, and names differ only by case"
    return 8, "both writers changed the schema, in different ways, from the same start"


def _cell(name: str, start: dict[str, str] | None, here: dict[str, str] | None) -> Cell:
    before, after = (start or {}).get(name), (here or {}).get(name)
    if after is None:
        return Cell("", "absent" if before is None else "removed")
    if before is None:
        return Cell(after, "added")
    return Cell(after, "same" if before == after else "changed")


def _fields(schema: object) -> dict[str, str] | None:
    """Field names to types, in order, without meta columns; None where there is no schema.

    Decision objects hold each schema as the text that a commit would carry.
    """
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError:
            return None
    if not isinstance(schema, Mapping):
        return None
    return {
        str(field["name"]): type_text(field.get("type"))
        for field in schema.get("fields", [])
        if isinstance(field, Mapping)
        and "name" in field
        and not str(field["name"]).startswith("_hoodie_")
    }
