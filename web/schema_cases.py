"""RFC-82's eight cases of two writers and one schema, each as a small drawing: the table's schema
over time, and below it the write. Pure; where a drawing begins and ends is in its own units.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.mirror.queries.schema_cases import CaseSeen, CasesSeen

WIDTH, HEIGHT = 260, 52
_FIRST, _BEGIN, _RIVAL, _VALIDATED, _COMMITTED, _LAST = 2, 24, 96, 158, 212, 258
_TONES = {"": "quiet", "S1": "busy", "S2": "good", "S3": "warn"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A schema for as long as it holds."""

    x: int
    width: int
    schema: str
    """Empty where there is none."""

    @property
    def tone(self) -> str:
        return _TONES[self.schema]

    @property
    def text_x(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """One row of the document's table."""

    number: int
    at_start: str
    """Empty: the table has no schema."""
    at_validation: str
    writer: str
    committed: str
    """The table's schema afterwards; empty where the write is refused."""
    words: str

    @property
    def is_refused(self) -> bool:
        return not self.committed

    @property
    def has_rival(self) -> bool:
        return self.at_start != self.at_validation

    @property
    def table(self) -> tuple[Stretch, ...]:
        """The table's schema, from left to right."""
        after = self.committed or self.at_validation
        edges = [(_FIRST, self.at_start)]
        if self.has_rival:
            edges.append((_RIVAL, self.at_validation))
        if after != self.at_validation:
            edges.append((_COMMITTED, after))
        ends = [*(x for x, _ in edges[1:]), _LAST]
        return tuple(
            Stretch(x, end - x, schema) for (x, schema), end in zip(edges, ends, strict=True)
        )

    @property
    def write(self) -> Stretch:
        """The write itself: it ends where it commits, or where rejected."""
        end = _VALIDATED if self.is_refused else _COMMITTED
        return Stretch(_BEGIN, end - _BEGIN, self.writer)

    @property
    def label(self) -> str:
        """The drawing in words."""
        start = self.at_start or "no schema"
        now = self.at_validation or "no schema"
        end = "rejected" if self.is_refused else f"the table then has {self.committed}"
        return (
            f"Case {self.number}: at the start {start}, at validation {now}, "
            f"the write has {self.writer}; {end}."
        )


CASES = (
    SchemaCase(1, "", "", "S1", "S1", "the first commit sets the schema"),
    SchemaCase(2, "", "S1", "S1", "S1", "another first commit completed with the same schema"),
    SchemaCase(3, "", "S2", "S3", "", "another first commit completed with a different schema"),
    SchemaCase(4, "S1", "S1", "S1", "S1", "no schema change"),
    SchemaCase(5, "S1", "S1", "S2", "S2", "only this write changes the schema"),
    SchemaCase(
        6, "S1", "S2", "S1", "S2", "another write changed the schema; this write has the older one"
    ),
    SchemaCase(7, "S1", "S2", "S2", "S2", "both change the schema in the same way"),
    SchemaCase(8, "S1", "S2", "S3", "", "both change the schema differently"),
)


@dataclass(frozen=True, slots=True)
class CaseLine:
    case: SchemaCase
    seen: CaseSeen

    @property
    def is_seen(self) -> bool:
        return bool(self.seen.committed or self.seen.refused)


def case_lines(seen: CasesSeen) -> list[CaseLine]:
    return [CaseLine(case, seen.by_number[case.number]) for case in CASES]
