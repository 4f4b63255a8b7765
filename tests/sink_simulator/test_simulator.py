"""The sink's protocol, whatever is lost, late, repeated, frozen or killed (KS1 to KS8, KS10, KS11).

What is simulated and what is the engine's own stands in the package; what the invariants say, in
docs/sink-protocol.md. A failure names the command that tells its story.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.sink_simulator.bugs import BUGS
from tests.sink_simulator.rules import Rules
from tests.sink_simulator.simulation import Simulation
from tests.sink_simulator.world import Violation

BUG_RUNS_MAX = 400


def part(number: int, count: int, runs: int) -> range:
    return range(number * runs // count, (number + 1) * runs // count)


LONGER = [
    pytest.param(
        part(one, 20, 50_000),
        id=f"longer-{one}",
        marks=[pytest.mark.slow, pytest.mark.sampled(every=4)],
    )
    for one in range(20)
]
SOAK = [
    pytest.param(
        part(one, 100, 1_000_000),
        id=f"soak-{one}",
        marks=[pytest.mark.soak, pytest.mark.timeout(0)],
    )
    for one in range(100)
]


FOUND = pytest.param([1_000_169], id="all-restored-and-expired")
"""What a soak found."""


@pytest.mark.parametrize("seeds", [pytest.param(range(400), id="short"), FOUND, *LONGER, *SOAK])
def test_every_record_is_in_the_table_once_and_the_sink_goes_on(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            Simulation(seed).run()
        except (Violation, AssertionError) as wrong:
            pytest.fail(f"{wrong!r}; its story: python -m tests.sink_simulator {seed}")


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, 40))],
    ids=lambda seed: f"calm-{seed}",
)
def test_a_kill_before_and_after_every_message_and_every_call(seed: int) -> None:
    """K13: whoever sends or calls is killed there, and another takes its place."""
    calm = Simulation(seed, is_calm=True)
    calm.run()
    assert calm.points > 60
    assert len(calm.ledger.commits) >= 2

    for point in range(1, calm.points + 1):
        killed = Simulation(seed, is_calm=True, crash_points=[point])
        try:
            killed.run()
        except (Violation, AssertionError) as wrong:
            pytest.fail(f"{wrong!r} when killed at point {point} of seed {seed}")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    for seed in range(BUG_RUNS_MAX):
        try:
            Simulation(seed, BUGS[name]).run()
        except (Violation, AssertionError):
            return
    pytest.fail(f"not found in {BUG_RUNS_MAX} runs")


def test_a_seed_tells_the_same_story_each_time() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(3)
        simulation.story = []
        simulation.run()
        stories.append(simulation.story)

    assert stories[0] == stories[1]
    assert len(stories[0]) > 50


def test_the_runs_reach_what_the_protocol_is_for() -> None:
    """Otherwise no fault would prove anything."""
    stories, rng = list[str](), random.Random(1)
    for seed in rng.sample(range(10_000), 120):
        simulation = Simulation(seed, Rules())
        simulation.story = []
        simulation.run()
        stories += simulation.story

    for word in (
        "CommitUnknown",
        "Settled(result=Committed",
        "Settled(result=CommitFailed",
        "Stale(",
        "SchemaEvolved",
        "SchemaRefused",
        "NothingToRead",
        "no report",
        "no participant",
        ": replaced",
        ": stopped",
        "speaks of epoch",
        "records bring new fields",
        "nothing was read",
        "ends_run='run",
        "fault _restore",
        "fault _expire",
        "fault _add_partition",
    ):
        assert any(word in line for line in stories), word
