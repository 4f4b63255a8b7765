"""A conflict in short, for lists: its headline and the rule that decided it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictRow, ConflictRule
from web.conflicts.rules import EXPLANATIONS
from web.conflicts.words import PartitionGroups, by_partition, counted, inserted_keys
from web.schemas import SchemaStory, schema_story


@dataclass(frozen=True, slots=True)
class ConflictStory:
    """One conflict, ready to be shown: both writers, what they share, the rule."""

    row: ConflictRow
    partitions: tuple[PartitionGroups, ...]
    schema: SchemaStory | None
    headline: str
    rule: str


def explain(row: ConflictRow) -> ConflictStory:
    schema = schema_story(row.schemas) if row.kind == "schema" and row.schemas else None
    partitions = by_partition(row.overlap)
    return ConflictStory(
        row=row,
        partitions=partitions,
        schema=schema,
        headline=_headline(row, len(partitions)),
        rule=_rule(row, schema),
    )


def _headline(row: ConflictRow, partitions: int) -> str:
    if row.kind == "schema":
        return "Schema conflict"
    if (keys := inserted_keys(row)) is not None:
        if keys.is_apart and keys.count:
            return f"{counted(keys.count, 'key')} in two partitions"
        if keys.is_of_read and keys.count:
            return f"{counted(keys.count, 'row')} changed after being read"
        if keys.is_of_read:
            return "Rows that were read"
        how = "inserted during the delete" if keys.is_of_delete else "inserted by both"
        return f"{counted(keys.count, 'new key')} {how}" if keys.count else "New keys"
    if not row.overlap_count:
        return "Write conflict"
    groups = counted(row.overlap_count, "file group")
    return f"{groups} in {counted(partitions, 'partition')}"


def _rule(row: ConflictRow, schema: SchemaStory | None) -> str:
    if schema is not None:
        return schema.rule
    if row.kind == "schema":
        return "The schemas cannot be merged"
    code = row.rule or ConflictRule.OVERLAPPING_FILE_GROUPS
    if code is ConflictRule.OVERLAPPING_FILE_GROUPS and row.detected == "early":
        return (
            "Detected while it wrote: an older active writer, or one that has completed since, "
            "claimed the same file groups"
        )
    return EXPLANATIONS[code].summary
