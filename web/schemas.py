"""A schema conflict, told field by field: the schema at start, the one found at validation, the
writer's. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from controlplane.mirror.queries.table_details import type_text


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
class Change:
    """One path in which a side differs from the schema at start."""

    path: str
    kind: str
    before: str
    after: str

    @property
    def words(self) -> str:
        match self.kind:
            case "added":
                return f"added {self.path} {self.after}"
            case "removed":
                return f"removed {self.path}"
            case "case":
                return f"spells {self.before} as {self.after}"
            case "order" | "position":
                return f"moved {self.path}"
            case _:
                return f"{self.path}: {self.before or 'none'} became {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class SchemaStory:
    lines: tuple[FieldLine, ...]
    scenario: int | None
    """RFC-82's own number, 1 to 8, as the engine decided; None in records that do not say."""
    reason: str
    """The engine's, why the schemas could not stand beside each other; empty likewise."""
    theirs: tuple[Change, ...] = ()
    """What the winner made of the schema at start."""
    mine: tuple[Change, ...] = ()
    clashing: tuple[str, ...] = ()
    """Paths that both changed in ways that do not go together."""
    clashes: tuple[str, ...] = ()
    """Why, in words, where the engine says so."""
    strategy: str = ""
    """Empty in records that are older than the choice of strategies."""
    had_none: bool = False
    """The table had no schema when the loser began."""
    counts: tuple[int, int, int] = (0, 0, 0)
    """Top-level columns of the three."""

    @property
    def title(self) -> str:
        """The case, by RFC-82's number where the record has it."""
        return "Incompatible schemas" if self.scenario is None else f"RFC-82 case {self.scenario}"

    @property
    def rule(self) -> str:
        return f"{self.title}: {self.reason}" if self.reason else self.title

    @property
    def added_by_writer(self) -> tuple[str, ...]:
        return tuple(one.path for one in self.mine if one.kind == "added")


def schema_story(schemas: Mapping[str, Any]) -> SchemaStory:
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
    scenario = schemas.get("scenario")
    recorded_changes = _recorded_changes(schemas.get("differences"))
    theirs, ours = recorded_changes or (_changes(lines, "at_validation"), _changes(lines, "writer"))
    clashes = _recorded_clashes(schemas.get("clashes"))
    clashing = dict.fromkeys(path for path, _ in clashes or ())
    return SchemaStory(
        lines=tuple(lines),
        scenario=scenario if isinstance(scenario, int) else None,
        reason=str(schemas.get("reason") or ""),
        theirs=theirs,
        mine=ours,
        clashing=tuple(clashing) if clashes is not None else _contradicting(theirs, ours),
        clashes=tuple(f"{path}: {why}" for path, why in clashes or ()),
        strategy=str(schemas.get("strategy") or ""),
        had_none=start is None,
        counts=(len(start or {}), len(now or {}), len(mine or {})),
    )


def _changes(
    lines: list[FieldLine], side: Literal["at_validation", "writer"]
) -> tuple[Change, ...]:
    """By comparing top-level fields: all that records without `differences` allow."""
    cells = [(line, getattr(line, side)) for line in lines]
    return tuple(
        Change(line.name, cell.change, line.at_start.text, cell.text)
        for line, cell in cells
        if cell.change in ("added", "removed", "changed")
    )


def _recorded_changes(differences: object) -> tuple[tuple[Change, ...], tuple[Change, ...]] | None:
    """(the winner's, the loser's); None where the record does not say."""
    if not isinstance(differences, list | tuple) or not differences:
        return None
    theirs, ours = [], []
    for difference in differences:
        if not isinstance(difference, Mapping):
            continue
        change = Change(
            *(str(difference.get(name) or "") for name in ("path", "kind", "before", "after"))
        )
        if difference.get("by") != "writer":
            theirs.append(change)
        if difference.get("by") != "rival":
            ours.append(change)
    return tuple(theirs), tuple(ours)


def _recorded_clashes(clashes: object) -> list[tuple[str, str]] | None:
    """None where the record does not say; empty where a merge would have succeeded."""
    if not isinstance(clashes, list | tuple):
        return None
    return [
        (str(pair[0]), str(pair[1]))
        for pair in clashes
        if isinstance(pair, list | tuple) and len(pair) == 2
    ]


def _contradicting(theirs: tuple[Change, ...], ours: tuple[Change, ...]) -> tuple[str, ...]:
    """Names that both changed, to different things; names are one whatever their case."""
    known = {one.path.lower(): one for one in theirs}
    return tuple(
        one.path
        for one in ours
        if (other := known.get(one.path.lower()))
        and (other.path, other.kind, other.after) != (one.path, one.kind, one.after)
    )


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
