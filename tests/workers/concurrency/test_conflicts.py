"""Who is a rival, and what two writes share: pure rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from workers.concurrency.conflicts import (
    Conflict,
    WriteSet,
    find_concurrent_commits,
    find_missing_commits,
    overlapping_file_groups,
    unmergeable_file_groups,
)
from workers.timeline.instant import Action, CompletedInstant, Instant, State

OURS = "20240101000000050"


def instant(requested: int, action: Action, state: State) -> Instant:
    requested_at = f"202401010000000{requested:02d}"
    if state is State.COMPLETED:
        return CompletedInstant(requested_at, action, state, f"202401010000001{requested:02d}")
    return Instant(requested_at, action, state)


def write_set(*groups: tuple[str, str], name: str = "20240101000000001") -> WriteSet:
    return WriteSet(name, frozenset(groups), f"writer of {name}")


@pytest.mark.parametrize(("action", "state"), list(itertools.product(Action, State)))
@pytest.mark.parametrize("known_as", [None, *State])
def test_rivals_are_writes_that_completed_since_the_start(
    action: Action, state: State, known_as: State | None
) -> None:
    """Every action and state on both sides: no crash and the right verdict (bug E2)."""
    before = [] if known_as is None else [instant(7, action, known_as)]
    now = [instant(7, action, state)]

    rival_instants = find_concurrent_commits(before, now, OURS)

    is_rival = (
        action in (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
        and state is State.COMPLETED
        and known_as is not State.COMPLETED
    )
    assert rival_instants == (now if is_rival else [])


def test_rivals_come_in_the_order_in_which_they_became_visible() -> None:
    early = CompletedInstant(
        "20240101000000001", Action.COMMIT, State.COMPLETED, "20240101000000900"
    )
    late = CompletedInstant(
        "20240101000000002", Action.COMMIT, State.COMPLETED, "20240101000000800"
    )

    assert find_concurrent_commits([], [early, late], OURS) == [late, early]


def test_nobody_is_his_own_rival() -> None:
    mine = CompletedInstant(OURS, Action.COMMIT, State.COMPLETED, "20240101000000900")

    assert find_concurrent_commits([], [mine], OURS) == []


def test_rival_that_began_before_us_counts_by_its_completion() -> None:
    before = [instant(7, Action.COMMIT, State.INFLIGHT)]
    now = [instant(7, Action.COMMIT, State.COMPLETED)]

    assert find_concurrent_commits(before, now, OURS) == now


def test_shared_file_groups_conflict_and_are_named_in_order() -> None:
    ours = write_set(("p", "b"), ("p", "a"), ("q", "a"), name=OURS)
    theirs = write_set(("p", "a"), ("p", "b"), ("r", "a"))

    conflict = overlapping_file_groups(ours, theirs)

    assert conflict is not None
    assert conflict.file_groups == (("p", "a"), ("p", "b"))
    assert (conflict.rival, conflict.rival_writer) == (theirs.instant, theirs.writer)
    assert conflict.writer == ours.writer


def test_equal_file_ids_in_two_partitions_are_two_file_groups() -> None:
    """Hudi compared the id alone (bug D4)."""
    assert overlapping_file_groups(write_set(("p", "a")), write_set(("q", "a"))) is None


# Ours replace `p` as a whole, or the table, or nothing of these; theirs added and replaced -> met
JOINED = """
whole  added    replaced  met
-      p/new    -         -
p      p/new    -         p/new
p      q/new    -         -
p      q/p      -         -
p      p/new    p/new     -
p      p/new    p/old     p/new
table  q/new    -         q/new
table  q/new    q/new     -
"""


@pytest.mark.parametrize("rule", [overlapping_file_groups, unmergeable_file_groups])
@pytest.mark.parametrize("row", JOINED.strip().splitlines()[1:], ids=str.strip)
def test_who_replaces_a_whole_must_have_met_all_that_joined_it(
    row: str, rule: Callable[[WriteSet, WriteSet], Conflict | None]
) -> None:
    whole, added, replaced, met = row.split()
    ours = replace(
        write_set(("p", "ours"), name=OURS),
        whole_partitions=frozenset({"p"} if whole == "p" else ()),
        is_whole_table=whole == "table",
    )
    theirs = replace(write_set(_group(added)), replaced=_groups(replaced))

    conflict = rule(ours, theirs)

    assert (conflict.file_groups if conflict else ()) == tuple(_groups(met))


def _group(text: str) -> tuple[str, str]:
    partition, _, file_id = text.partition("/")
    return partition, file_id


def _groups(text: str) -> frozenset[tuple[str, str]]:
    return frozenset() if text == "-" else frozenset({_group(text)})


def test_empty_writes_conflict_with_nobody() -> None:
    assert overlapping_file_groups(write_set(), write_set(("p", "a"))) is None


def test_conflict_survives_its_way_through_json() -> None:
    conflict = overlapping_file_groups(write_set(("p", "a"), name=OURS), write_set(("p", "a")))

    assert conflict is not None
    assert conflict.to_json()["file_groups"] == [["p", "a"]]


def test_completed_write_that_is_gone_has_vanished() -> None:
    commit = instant(7, Action.COMMIT, State.COMPLETED)
    clean = instant(8, Action.CLEAN, State.COMPLETED)
    pending = instant(9, Action.COMMIT, State.INFLIGHT)

    assert find_missing_commits([commit, clean, pending], []) == [commit]
    assert find_missing_commits([commit], [commit]) == []
