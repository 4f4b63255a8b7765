"""What two writes share where a compaction, buckets or replacements are met, what a write set is
made of, and what a loser says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from workers.concurrency.conflicts import (
    Conflict,
    ConflictedWrite,
    WriteSet,
    overlapping_file_groups,
    unmergeable_file_groups,
    write_set,
)
from workers.timeline.metadata import CommitMetadata, WriteStat

OURS, THEIRS = "20240101000000050", "20240101000000001"
Key = tuple[str, str]
A, B = ("p", "a"), ("p", "b")
SEVEN, ALSO_SEVEN = (
    ("p", f"00000007-{letter * 4}-0000-0000-000000000000-0") for letter in ("a", "b")
)
EIGHT = ("p", "00000008-aaaa-0000-0000-000000000000-0")


def writing(instant: str, *groups: Key, appended: tuple[Key, ...] = ()) -> WriteSet:
    return WriteSet(instant, frozenset(groups), appended=frozenset(appended))


def met(conflict: Conflict | None) -> tuple[Key, ...]:
    return conflict.file_groups if conflict else ()


# ---- compactions


def test_what_was_appended_beside_a_compaction_does_not_meet_it() -> None:
    """Its log files come after the plan, and the compaction's base leaves them out."""
    compaction = replace(writing(THEIRS, A, B), is_compaction=True)

    assert overlapping_file_groups(writing(OURS, A, appended=(A,)), compaction) is None
    assert met(overlapping_file_groups(writing(OURS, A, B, appended=(A,)), compaction)) == (B,)
    assert met(overlapping_file_groups(writing(OURS, A), compaction)) == (A,)


def test_compaction_does_not_meet_what_was_appended_beside_it() -> None:
    compaction = replace(writing(OURS, A, B), is_compaction=True)

    assert overlapping_file_groups(compaction, writing(THEIRS, A, appended=(A,))) is None
    rival = writing(THEIRS, A, B, appended=(A,))
    assert met(overlapping_file_groups(compaction, rival)) == (B,)


def test_compaction_meets_a_bucket_of_which_only_some_files_were_appended() -> None:
    compaction = replace(writing(OURS, SEVEN, EIGHT), is_compaction=True)
    rival = writing(THEIRS, SEVEN, ALSO_SEVEN, EIGHT, appended=(SEVEN, EIGHT))

    assert met(overlapping_file_groups(compaction, rival)) == (SEVEN,)


def test_appends_meet_each_other_where_none_is_a_compaction() -> None:
    ours, theirs = writing(OURS, A, appended=(A,)), writing(THEIRS, A, appended=(A,))

    assert met(overlapping_file_groups(ours, theirs)) == (A,)


# ---- buckets


def test_two_file_groups_of_one_bucket_are_met_and_of_two_are_not() -> None:
    """Each would be the bucket's only one."""
    for rule in (overlapping_file_groups, unmergeable_file_groups):
        assert met(rule(writing(OURS, SEVEN), writing(THEIRS, ALSO_SEVEN))) == (SEVEN,)
        assert rule(writing(OURS, SEVEN), writing(THEIRS, EIGHT)) is None


# ---- logs that merge


def test_logs_of_one_file_group_merge_unless_it_was_replaced() -> None:
    ours = writing(OURS, A, B, appended=(A, B))

    assert unmergeable_file_groups(ours, writing(THEIRS, A, B, appended=(A, B))) is None
    replaced = replace(writing(THEIRS, A, B), replaced=frozenset({A}))
    assert met(unmergeable_file_groups(ours, replaced)) == (A,)


@pytest.mark.parametrize("rule", [overlapping_file_groups, unmergeable_file_groups])
def test_conflict_says_by_which_rule_and_how_many(
    rule: Callable[[WriteSet, WriteSet], Conflict | None],
) -> None:
    conflict = rule(writing(OURS, SEVEN, A), writing(THEIRS, ALSO_SEVEN))

    assert conflict is not None
    assert conflict.rule == rule.__name__
    assert conflict.message.startswith("1 file group(s)")
    assert (conflict.kind, conflict.detected, conflict.lost) == ("write", "commit", None)


# ---- what a commit's metadata makes of it


def test_write_set_tells_files_that_were_appended_from_those_that_were_written() -> None:
    stats = [
        WriteStat("a", "p/.a_1.log", "p", is_log=True),
        WriteStat("b", "p/b.parquet", "p"),
        WriteStat("both", "p/both.parquet", "p"),
        WriteStat("both", "p/.both_1.log", "p", is_log=True),
        WriteStat("gone", "p/.gone_1.log", "p", is_log=True),
    ]
    metadata = CommitMetadata({"p": stats}, partition_to_replace_file_ids={"p": ["gone", "old"]})

    plain = write_set(OURS, metadata, "w")
    whole = write_set(OURS, replace(metadata, compacted=True), "w", is_whole_table=True)

    assert plain == WriteSet(
        OURS,
        frozenset(("p", name) for name in ("a", "b", "both", "gone", "old")),
        "w",
        appended=frozenset({A}),
        replaced=frozenset({("p", "gone"), ("p", "old")}),
    )
    assert (plain.is_compaction, plain.is_whole_table) == (False, False)
    assert (whole.is_compaction, whole.is_whole_table) == (True, True)


# ---- what a loser says


def test_loser_names_what_it_wrote_in_vain_and_met_nobody_at() -> None:
    conflict = overlapping_file_groups(writing(OURS, A, B), writing(THEIRS, A))
    assert conflict is not None
    lost = ConflictedWrite("upsert", "optimistic", "host", 1)

    losing = conflict.with_loser(lost, [A, B]).lost

    assert losing is not None
    assert (losing.elsewhere, losing.elsewhere_count) == ((B,), 1)


@pytest.mark.parametrize(("lasted_ms", "shown_ms"), [(1_500, 1_500), (0, 0), (-3, 0)])
def test_cost_of_a_conflict_is_never_negative(lasted_ms: int, shown_ms: int) -> None:
    """Clocks may go back."""
    conflict = Conflict("write", "met", None)

    wasting = conflict.with_waste(2, 300, lasted_ms)

    assert (wasting.wasted_files, wasting.wasted_bytes) == (2, 300)
    assert wasting.lasted_ms == shown_ms


def test_conflict_that_nobody_measured_cost_nothing_and_was_the_only_attempt() -> None:
    conflict, lost = Conflict("write", "met", None), ConflictedWrite("upsert", "single", "host", 1)

    assert (conflict.wasted_files, conflict.wasted_bytes, conflict.lasted_ms) == (0, 0, 0)
    assert conflict.key_count == 0
    assert (lost.attempt, lost.attempts_max, lost.elsewhere_count) == (1, 1, 0)
