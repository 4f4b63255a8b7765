"""What to do after a lost conflict, in the words of the page. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.writers.selectors import ConflictRow
from web.schemas import SchemaStory, tell

_GROUPS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class PartitionOverlap:
    partition: str
    file_ids: tuple[str, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class ConflictStory:
    """One conflict, ready to be shown: both writers, what they share, the rule, what to do."""

    row: ConflictRow
    partitions: tuple[PartitionOverlap, ...]
    schema: SchemaStory | None
    headline: str
    rule: str
    steps: tuple[str, ...]


def explain(row: ConflictRow) -> ConflictStory:
    schema = tell(row.schemas) if row.kind == "schema" and row.schemas else None
    partitions = group_overlap(row.overlap)
    return ConflictStory(
        row=row,
        partitions=partitions,
        schema=schema,
        headline=_headline(row, len(partitions)),
        rule=_rule(row, schema),
        steps=_SCHEMA_STEPS if row.kind == "schema" else _WRITE_STEPS,
    )


def group_overlap(overlap: Sequence[tuple[str, str]]) -> tuple[PartitionOverlap, ...]:
    by_partition: dict[str, list[str]] = defaultdict(list)
    for partition, file_id in sorted(overlap):
        by_partition[partition].append(file_id)
    return tuple(
        PartitionOverlap(
            partition=partition,
            file_ids=tuple(ids[:_GROUPS_SHOWN_MAX]),
            hidden=max(0, len(ids) - _GROUPS_SHOWN_MAX),
        )
        for partition, ids in by_partition.items()
    )


_WRITE_STEPS = (
    "Run the losing write again: it starts from what the winner wrote; nothing to clean up first.",
    "To keep it from happening again, give each writer partitions of its own, or another hour.",
    "On a merge-on-read table both can win in non-blocking mode: each appends its own log files.",
)
_SCHEMA_STEPS = (
    "Run the losing write again: it takes the table's schema of now and adds its own new columns.",
    "If both gave one name to different types, agree on the type first, or it will lose again.",
    "Let one writer that runs alone announce schema changes, and start the others after it.",
)


def _headline(row: ConflictRow, partitions: int) -> str:
    if row.kind == "schema":
        return "Schema conflict"
    groups = len(row.overlap)
    return (
        f"{groups} file group{'' if groups == 1 else 's'} in "
        f"{partitions} partition{'' if partitions == 1 else 's'}"
        if groups
        else "Write conflict"
    )


def _rule(row: ConflictRow, schema: SchemaStory | None) -> str:
    if schema is not None:
        return f"RFC-82 case {schema.case}: {schema.sentence}"
    if row.kind == "schema":
        return "The schemas could not be brought together"
    if row.detected == "early":
        return (
            "Found while it still wrote: a writer that began earlier, or has completed since, has "
            "the same file groups"
        )
    return "First to complete wins: both wrote the same file groups at the same time"
