"""Some writer of any that meet survives early detection, in any order of events (bug D9).

Not seeds but what was true at the time decides whether a verdict was right: see
`tests/support/early_simulation.py` for what is simulated and what is the engine's own.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from tests.support.early_simulation import SimulatedWriter, Simulation


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("block", range(10))
def test_d9_some_writer_of_any_that_meet_survives(block: int) -> None:
    judge(range(block * 50, (block + 1) * 50))


@pytest.mark.sampled(every=2)
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_d9_some_writer_of_any_that_meet_survives_ten_thousand_schedules(block: int) -> None:
    judge(range(10_000 + block * 1_000, 10_000 + (block + 1) * 1_000))


def judge(seeds: range) -> None:
    endings: Counter[str | None] = Counter()
    for seed in seeds:
        simulation = Simulation(seed)
        simulation.run()
        try:
            assert_verdicts_were_right(simulation)
            assert_somebody_survives(simulation)
            assert_no_update_is_lost(simulation)
            assert not simulation.missed, "a direct writer looked and did not see"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        endings.update(one.ending for one in simulation.writers)
    # Otherwise nothing was tried.
    assert min(endings[one] for one in ("committed", "early", "late")) > 0, endings


def assert_verdicts_were_right(simulation: Simulation) -> None:
    """Invariants EC1 and EC4."""
    by_time = {one.requested_at: one for one in simulation.writers if one.instant is not None}
    for verdict in simulation.verdicts:
        rival = by_time[verdict.conflict.rival or ""]
        loser, conflict_groups = verdict.loser, set(verdict.conflict.file_groups)
        assert conflict_groups, verdict
        assert conflict_groups <= claims_at_most(loser) & set(rival.claimed), verdict
        if rival.requested_at < loser.requested_at and rival.requested_at in verdict.live_before:
            before = verdict.claimed_before[rival.requested_at]
            assert conflict_groups >= before & verdict.claimed_before[loser.requested_at], verdict
        else:
            assert is_committed_since(rival, loser), verdict


def claims_at_most(writer: SimulatedWriter) -> set[tuple[str, str]]:
    """The refused one included."""
    return set(writer.claimed) | ({writer.refused} if writer.refused else set())


def is_committed_since(rival: SimulatedWriter, loser: SimulatedWriter) -> bool:
    completed_at = rival.instant.completed_at if rival.instant else None
    is_checked = loser.early is not None and loser.early.checks_commits
    return is_checked and completed_at is not None and completed_at > loser.requested_at


def assert_somebody_survives(simulation: Simulation) -> None:
    """Invariant EC3. Groups of writers are those that met each other, by whatever chain."""
    for group in groups_that_met(simulation.writers):
        oldest = min(group, key=lambda writer: writer.requested_at)
        doomed = {id(verdict.loser) for verdict in simulation.verdicts}
        assert any(id(one) not in doomed for one in group), "all of them were doomed"
        if not any(one.early and one.early.checks_commits for one in group):
            assert id(oldest) not in doomed, "the oldest gave way to markers"
        if not any(one.ending == "dead" for one in group):
            assert any(one.ending == "committed" for one in group), "nobody committed"


def groups_that_met(writers: list[SimulatedWriter]) -> list[list[SimulatedWriter]]:
    groups = [[one] for one in writers]
    for left, right in combinations(writers, 2):
        if claims_at_most(left) & claims_at_most(right):
            mine = next(group for group in groups if left in group)
            theirs = next(group for group in groups if right in group)
            if mine is not theirs:
                mine += theirs
                groups.remove(theirs)
    return groups


def assert_no_update_is_lost(simulation: Simulation) -> None:
    """Invariant EC2: the commit's own check, whatever was seen before."""
    done = [one for one in simulation.writers if one.ending == "committed"]
    for left, right in combinations(done, 2):
        if set(left.claimed) & set(right.claimed):
            first, second = sorted((left, right), key=completed_at)
            assert completed_at(first) < second.requested_at, (first.name, second.name)


def completed_at(writer: SimulatedWriter) -> str:
    assert writer.instant is not None
    assert writer.instant.completed_at is not None
    return writer.instant.completed_at
