"""One conflict as its page shows it: what happened, the overlap, the rule, the cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictDetail, ConflictSide
from web.conflicts.early import EarlyLine, early_line
from web.conflicts.lanes import Lanes, lanes
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
    """What is left of it."""
    is_settled: bool
    overlap: tuple[PartitionGroups, ...]
    overlap_most: int
    keys: InsertedKeys | None
    """What met where no file group did; `overlap` are the loser's then."""
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
            f"{name_of(loser)} wanted to commit at {clock(row.verdict_ms)}, but "
            f"{name_of(winner)} had changed the table's schema meanwhile, and the two do not go "
            f"together{over}."
        )
    if row.details.get("rule") == "taken_back":
        return (
            f"{name_of(loser)} read {winner.instant}, which was rolled back before the write "
            "could commit."
        )
    if (keys := inserted_keys(row)) is not None and keys.is_of_read:
        return _read_before(detail, keys)
    if keys is not None:
        what = f"the same {counted(keys.count, 'new key')}"
        if keys.is_of_delete:
            what = f"{counted(keys.count, 'key')} that it wanted to delete"
        if not keys.count:
            what = "keys beside it, in files that are gone since"
        did = "had inserted"
        if keys.is_apart and keys.count:
            what = counted(keys.count, "key") + " of this write"
            did = "had touched in another partition"
        return (
            f"{name_of(loser)} wanted to commit at {clock(row.verdict_ms)}, but {name_of(winner)} "
            f"{did} {what}{_sooner(detail)}."
        )
    if row.detected == "early" and _is_older_and_open(detail):
        return (
            f"{name_of(loser)} was stopped at {clock(row.verdict_ms)} while it still wrote: "
            f"{name_of(winner)}, which began {_before(winner, row.began_ms)}, was writing {what}."
        )
    stopped = "was stopped while it wrote" if row.detected == "early" else "wanted to commit"
    return (
        f"{name_of(loser)} {stopped} at {clock(row.verdict_ms)}, but {name_of(winner)} had "
        f"completed a write of {what}{_sooner(detail)}."
    )


def _read_before(detail: ConflictDetail, keys: InsertedKeys) -> str:
    winner, loser = name_of(detail.winner), name_of(detail.loser)
    read = f"{loser} read rows at {clock(detail.row.began_ms)}, when it began, to write them back"
    if not keys.count:
        return (
            f"{read} with other values. {winner} wrote beside it, to files that are gone since, so "
            "whether one of these rows was among them cannot be told any more."
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
    """The winner had not completed when the loser gave way to it."""
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
            f"Nothing of {name_of(loser)} is in the table. {detail.markers_left} of its markers "
            "are left: its rollback is under way, or the next writer finishes it."
        )
    if not row.wasted_files:
        return f"Nothing of {name_of(loser)} is in the table, and nothing of it is left."
    return f"Nothing of {name_of(loser)} is in the table; {wrote} were rolled back."


def rule(detail: ConflictDetail, schema: SchemaStory | None) -> Rule:
    row = detail.row
    strategy = row.strategy.rpartition(".")[2]
    if schema is not None:
        return Rule(
            schema.rule,
            "The schema that a commit publishes must hold for every row that is visible by then; "
            "where no one schema does, the write that completes second is refused.",
            schema.strategy or "simple",
        )
    if row.kind == "schema":
        return Rule("The schemas could not be brought together", "", strategy)
    if row.details.get("rule") == "taken_back":
        return Rule(
            "A commit that was read and rolled back",
            "This write read files of a commit that was rolled back before the write could commit.",
            strategy,
        )
    if row.details.get("rule") == "unmergeable_file_groups":
        return Rule(
            "Replaced file groups take no more log files",
            "In non-blocking mode log files of two writers merge, unless the file group itself was "
            "replaced or doubled meanwhile.",
            strategy,
        )
    if (keys := inserted_keys(row)) is not None and keys.is_apart:
        return Rule(
            "A key stands in one partition",
            "Column groups join where the key stands. Both writers touched these keys, and not in "
            "the same partition only: the second to complete would leave a key in two, or change a "
            "row that has moved. So keys are compared in every mode.",
            strategy or "by key and partition",
        )
    if keys is not None and keys.is_of_read:
        return Rule(
            "What was read must still stand",
            "An UPDATE or a MERGE takes along the required columns that it does not set, with the "
            "values that it read when it began. Over what another writer has put there since they "
            "would be old, and half of a row that was deleted would come back. So the keys that "
            "were read are looked for in each commit since.",
            strategy or "by the keys that were read",
        )
    if keys is not None:
        return Rule(
            "A key stands in one file group",
            "Both writers found these keys nowhere and put them into file groups of their own. The "
            "second to complete would leave each of them in the table twice, so new keys are "
            "compared besides file groups.",
            strategy or "optimistic, by inserted keys",
        )
    if row.detected == "early":
        return _early_rule(detail, strategy)
    return Rule(
        "The first to complete wins",
        "Two optimistic writes that overlap in time may not touch one file group: the second would "
        "write over what the first had just put there.",
        strategy or "optimistic, by file group",
    )


def _early_rule(detail: ConflictDetail, strategy: str) -> Rule:
    if _is_older_and_open(detail):
        return Rule(
            "Of two that still write, the older goes on",
            "Both had named the same file groups by their markers. One of them was bound to lose "
            "at its commit; stopping the younger now saves its work, and never stops all.",
            strategy,
        )
    return Rule(
        "Who meets a completed write stops",
        "The winner had completed since this write began, so the commit would have been refused.",
        strategy,
    )
