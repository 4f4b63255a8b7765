"""One conflict as its page shows it: event, overlap, rule, cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictDetail, ConflictRule, ConflictSide
from web.conflicts.early import EarlyLine, early_line
from web.conflicts.lanes import Lanes, lanes
from web.conflicts.rules import CONDITIONS, EXPLANATIONS
from web.conflicts.steps import Step, steps
from web.conflicts.words import (
    InsertedKeys,
    PartitionGroups,
    by_partition,
    clock,
    counted,
    inserted_keys,
    name_of,
)
from web.schemas import SchemaStory, schema_story
from web.templatetags.lake import size, took


@dataclass(frozen=True, slots=True)
class Rule:
    title: str
    words: str
    strategy: str
    """Hudi's name of it, without the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    detail: ConflictDetail
    title: str
    sentence: str
    """What happened."""
    state: str
    """What remains of the loser."""
    is_settled: bool
    overlap: tuple[PartitionGroups, ...]
    overlap_most: int
    keys: InsertedKeys | None
    """The keys in conflict if no file group is; `overlap` is then the loser's."""
    only_winner: tuple[PartitionGroups, ...]
    only_loser: tuple[PartitionGroups, ...]
    rule: Rule
    schema: SchemaStory | None
    lanes: Lanes
    early: EarlyLine
    steps: tuple[Step, ...]


def story(detail: ConflictDetail) -> Story:
    row = detail.row
    schema = schema_story(row.schemas) if row.kind == "schema" and row.schemas else None
    early = early_line(detail)
    overlap = by_partition(row.overlap)
    return Story(
        detail=detail,
        title=f"Why {name_of(detail.loser)} lost",
        sentence=_sentence(detail, schema),
        state=_state(detail),
        is_settled=not detail.markers_left,
        overlap=overlap,
        overlap_most=max((one.count for one in overlap), default=0),
        keys=inserted_keys(row),
        only_winner=by_partition(detail.winner.elsewhere),
        only_loser=by_partition(detail.loser.elsewhere),
        rule=rule(detail, schema),
        schema=schema,
        lanes=lanes(detail, early_ms=early.at_ms),
        early=early,
        steps=steps(detail, schema, early),
    )


def _sentence(detail: ConflictDetail, schema: SchemaStory | None) -> str:
    row, winner, loser = detail.row, detail.winner, detail.loser
    what = f"the same {counted(row.overlap_count, 'file group')}"
    if row.kind == "schema":
        paths = schema.clashing[:3] if schema else ()
        over = f": they disagree on {', '.join(paths)}" if paths else ""
        return (
            f"{name_of(loser)} tried to commit at {clock(row.verdict_ms)}, but {name_of(winner)} "
            f"had changed the table's schema since it began. The two schemas conflict{over}."
        )
    if row.rule in CONDITIONS:
        cause = f": {row.message}" if row.message else ""
        return f"{name_of(loser)} was not committed at {clock(row.verdict_ms)}{cause}."
    if row.rule is ConflictRule.TAKEN_BACK:
        return (
            f"{name_of(loser)} read {winner.instant}, which was rolled back before the write "
            "could commit."
        )
    if (keys := inserted_keys(row)) is not None and keys.is_of_read:
        return _read_before(detail, keys)
    if keys is not None:
        what = f"the same {counted(keys.count, 'new key')}"
        if keys.is_of_delete:
            what = f"{counted(keys.count, 'key')} that this write deletes"
        if not keys.count:
            what = "keys at the same time, in files that no longer exist"
        did = "had inserted"
        if keys.is_apart and keys.count:
            what = counted(keys.count, "key") + " of this write to another partition"
            did = "had written"
        return (
            f"{name_of(loser)} tried to commit at {clock(row.verdict_ms)}, but {name_of(winner)} "
            f"{did} {what}{_sooner(detail)}."
        )
    if row.detected == "early" and _is_older_and_open(detail):
        return (
            f"{name_of(loser)} was stopped at {clock(row.verdict_ms)} while it still wrote: "
            f"{name_of(winner)}, which began {_before(winner, row.began_ms)}, was writing {what}."
        )
    stopped = "was stopped while it wrote" if row.detected == "early" else "tried to commit"
    return (
        f"{name_of(loser)} {stopped} at {clock(row.verdict_ms)}, but {name_of(winner)} had "
        f"completed a write of {what}{_sooner(detail)}."
    )


def _read_before(detail: ConflictDetail, keys: InsertedKeys) -> str:
    winner, loser = name_of(detail.winner), name_of(detail.loser)
    read = f"{loser} read rows at {clock(detail.row.began_ms)}, when it began, to write them back"
    if not keys.count:
        return (
            f"{read} with other values. {winner} wrote at the same time, to files that no longer "
            "exist. It is unknown whether they contained one of these rows."
        )
    those = "one of them" if keys.count == 1 else f"{keys.count:,} of them"
    return (
        f"{read} with other values, but {winner} had changed or deleted {those}{_sooner(detail)}."
    )


def _sooner(detail: ConflictDetail) -> str:
    ended_ms, verdict_ms = detail.winner.ended_ms, detail.row.verdict_ms
    if ended_ms is None or ended_ms >= verdict_ms:
        return ""
    return f" {took(verdict_ms - ended_ms)} earlier"


def _is_older_and_open(detail: ConflictDetail) -> bool:
    """Return True if the winner began first and had not completed when the loser stopped."""
    began, ended = detail.winner.began_ms, detail.winner.ended_ms
    is_older = began is not None and began < detail.row.began_ms
    return is_older and (ended is None or ended > detail.row.verdict_ms)


def _before(winner: ConflictSide, began_ms: int) -> str:
    assert winner.began_ms is not None, winner
    return f"{took(began_ms - winner.began_ms)} earlier"


def _state(detail: ConflictDetail) -> str:
    row, loser = detail.row, detail.loser
    wrote = f"its {counted(row.wasted_files, 'file')} ({size(row.wasted_bytes)})"
    if detail.markers_left:
        return (
            f"The table contains nothing of {name_of(loser)}. {detail.markers_left} of its markers "
            "remain: its rollback is running, or the next writer completes it."
        )
    if not row.wasted_files:
        return f"The table contains nothing of {name_of(loser)}, and no file of it remains."
    return f"The table contains nothing of {name_of(loser)}; {wrote} were rolled back."


def rule(detail: ConflictDetail, schema: SchemaStory | None) -> Rule:
    row = detail.row
    strategy = row.strategy.rpartition(".")[2]
    if schema is not None:
        return Rule(
            schema.rule,
            "The schema that a commit publishes must fit every row that is visible by then. If no "
            "schema fits, the write that completes second is rejected.",
            schema.strategy or "simple",
        )
    if row.kind == "schema":
        return Rule("The schemas cannot be merged", "", strategy)
    code = row.rule or ConflictRule.OVERLAPPING_FILE_GROUPS
    if code is ConflictRule.OVERLAPPING_FILE_GROUPS and row.detected == "early":
        return _early_rule(detail, strategy)
    explanation = EXPLANATIONS[code]
    return Rule(explanation.title, explanation.words, strategy or explanation.strategy)


def _early_rule(detail: ConflictDetail, strategy: str) -> Rule:
    if _is_older_and_open(detail):
        return Rule(
            "The older of two active writers wins",
            "Both had claimed the same file groups by their markers, so one of them would have "
            "lost at its commit. Stopping the younger saves work, and never stops every writer.",
            strategy,
        )
    return Rule(
        "A completed write wins",
        "The winner completed after this write began, so the commit would have been rejected.",
        strategy,
    )
