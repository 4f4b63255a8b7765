"""How cells of rows are written in a grid: text, and what kind of text it is. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.rows.answers import ChangedRow, RowColumn, RowVersionRow

CELL_CHARS_MAX = 80
WHOLE_CHARS_MAX = 2_000
_NUMBERS = ("bigint", "int", "smallint", "tinyint", "double", "float", "decimal")


class Cell(NamedTuple):
    """A value in its place."""

    text: str
    """As much of it as fits."""
    whole: str
    """More of it, where it does not fit; otherwise empty."""
    kind: str
    """`text`, `number`, `null`, `masked`, `nested`, `flag` or `none`, where there is no row."""


class ChangedCell(NamedTuple):
    """A value before and after; the same cell twice where it is the same."""

    column: str
    before: Cell
    after: Cell
    is_changed: bool

    @property
    def is_number(self) -> bool:
        """Return whether its values are numbers, which are at the right."""
        return "number" in (self.before.kind, self.after.kind)


NOWHERE = Cell("", "", "none")


def cell_of(content: Any, column: RowColumn) -> Cell:
    """`content` as JSON has it."""
    if column.is_masked and not isinstance(content, Mapping):
        return Cell(str(content), "", "masked")
    if content is None:
        return Cell("null", "", "null")
    if isinstance(content, bool):
        return _cut(str(content).lower(), "flag")
    if isinstance(content, Mapping | list):
        return _cut(json.dumps(content, ensure_ascii=False), "nested")
    return _cut(str(content), "number" if column.type.startswith(_NUMBERS) else "text")


def is_number(column: RowColumn) -> bool:
    """Whether its values stand at the right."""
    return not column.is_masked and column.type.startswith(_NUMBERS)


def changed_cells(
    row: ChangedRow | RowVersionRow, columns: Sequence[RowColumn]
) -> list[ChangedCell]:
    """A cell for each column of a row that was changed."""
    changed = set(row.changed)
    return [
        ChangedCell(
            column.name,
            _of_image(row.before, column),
            _of_image(row.after, column),
            column.name in changed,
        )
        for column in columns
    ]


def _of_image(image: Mapping[str, Any] | None, column: RowColumn) -> Cell:
    return NOWHERE if image is None else cell_of(image.get(column.name), column)


def _cut(text: str, kind: str) -> Cell:
    if len(text) <= CELL_CHARS_MAX:
        return Cell(text, "", kind)
    return Cell(text[: CELL_CHARS_MAX - 1] + "…", text[:WHOLE_CHARS_MAX], kind)
