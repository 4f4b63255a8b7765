"""`hoodie.clean.failed.writes.policy`: when the dead go, and that the living never do."""

from __future__ import annotations

import pytest

from tests.scenarios.services import run
from tests.support.scenario_table import ScenarioTable, ScenarioWriter
from workers import failpoints
from workers.errors import InvalidInput
from workers.options.write_options import write_options
from workers.options.writer_modes import OLD_POLICY_KEY, POLICY_KEY, FailedWritesPolicy
from workers.recovery.failed_writes import roll_back_dead_writers

MODE = "hoodie.write.concurrency.mode"
OSLO, BERGEN = {"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}


def dead(table: ScenarioTable) -> ScenarioWriter:
    writer = table.writer("dead").upsert(OSLO)
    writer.dies()
    return writer


@pytest.mark.parametrize(
    ("mode", "policy"),
    [
        ("SINGLE_WRITER", FailedWritesPolicy.EAGER),
        ("OPTIMISTIC_CONCURRENCY_CONTROL", FailedWritesPolicy.LAZY),
        ("NON_BLOCKING_CONCURRENCY_CONTROL", FailedWritesPolicy.LAZY),
    ],
)
def test_default_follows_the_mode(mode: str, policy: FailedWritesPolicy) -> None:
    assert write_options({MODE: mode}).failed_writes is policy


@pytest.mark.parametrize("key", [POLICY_KEY, OLD_POLICY_KEY])
@pytest.mark.parametrize(
    "mode", ["OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"]
)
def test_eager_beside_other_writers_is_refused_by_name(mode: str, key: str) -> None:
    with pytest.raises(InvalidInput, match=f"set {POLICY_KEY}=LAZY.*mode={mode}"):
        write_options({MODE: mode, key: "EAGER"})


def test_older_name_is_taken_and_must_not_contradict_the_newer() -> None:
    assert write_options({OLD_POLICY_KEY: "never"}).failed_writes is FailedWritesPolicy.NEVER
    both = write_options({OLD_POLICY_KEY: "LAZY", POLICY_KEY: "LAZY"})
    assert both.failed_writes is FailedWritesPolicy.LAZY
    with pytest.raises(InvalidInput, match="older name differ"):
        write_options({OLD_POLICY_KEY: "LAZY", POLICY_KEY: "NEVER"})
    with pytest.raises(InvalidInput, match="not one of those allowed"):
        write_options({POLICY_KEY: "SOMETIMES"})


def test_eager_single_writer_rolls_back_before_it_begins(table: ScenarioTable) -> None:
    gone = dead(table)

    table.writer("next", mode="single").begin(table.batch([BERGEN]).schema)

    assert table.table.timeline().find(gone.last_instant) is None
    assert ("rollback", "completed") in table.timeline()


@pytest.mark.parametrize("mode", ["single", "optimistic"])
def test_lazy_writer_rolls_back_after_its_own_commit(table: ScenarioTable, mode: str) -> None:
    gone = dead(table)
    later = table.writer("next", mode=mode, options={POLICY_KEY: "LAZY"}).upsert(BERGEN)
    assert table.table.timeline().find(gone.last_instant) is not None

    later.wins()

    assert table.table.timeline().find(gone.last_instant) is None
    assert table.timeline()[-1] == ("rollback", "completed")
    assert table.rows() == [BERGEN]
    assert table.orphan_files() == table.leftovers() == []


def test_lazy_writer_that_loses_leaves_the_dead_to_others(table: ScenarioTable) -> None:
    slow = table.writer("slow").upsert(BERGEN)
    rival = table.writer("fast", options={POLICY_KEY: "NEVER"})
    rival.upsert_and_commit({"id": 2, "city": "Voss"})
    gone = dead(table)

    slow.loses()

    assert table.table.timeline().find(gone.last_instant) is not None
    run(table, "clean")
    assert table.table.timeline().find(gone.last_instant) is None


def test_clean_rolls_dead_writers_back(table: ScenarioTable) -> None:
    gone = dead(table)

    run(table, "clean")

    assert table.table.timeline().find(gone.last_instant) is None
    assert table.orphan_files() == []


def test_with_never_the_dead_stay_and_nobody_sees_their_rows(table: ScenarioTable) -> None:
    gone = dead(table)
    never = {POLICY_KEY: "NEVER"}

    table.writer("next", mode="single", options=never).upsert_and_commit(BERGEN)
    assert roll_back_dead_writers(table.table, write_options(never)) == []

    assert table.table.timeline().find(gone.last_instant) is not None
    assert table.rows() == [BERGEN]
    [outcome] = roll_back_dead_writers(table.table, write_options({}))
    assert outcome.target == gone.last_instant


@pytest.mark.parametrize("policy", ["EAGER", "LAZY", "NEVER"])
def test_live_writer_is_never_rolled_back_whatever_the_policy(
    table: ScenarioTable, policy: str
) -> None:
    """Apache Hudi's EAGER rolls back whatever is pending, alive or not."""
    live = table.writer("live").upsert(OSLO)

    table.writer("next", mode="single", options={POLICY_KEY: policy}).upsert_and_commit(BERGEN)

    live.wins()
    assert table.rows() == [OSLO, BERGEN]


@pytest.mark.parametrize("policy", ["EAGER", "LAZY", "NEVER"])
def test_commit_that_was_decided_is_published_before_the_next_write_whatever_the_policy(
    table: ScenarioTable, policy: str
) -> None:
    writer = table.writer("dead").upsert(OSLO)
    with pytest.MonkeyPatch.context() as patch:

        def die(point: str, **_: object) -> None:
            if point == "after_decision":
                raise KeyboardInterrupt

        patch.setattr(failpoints, "hit_failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            writer.commit()
    writer.dies()

    table.writer("next", mode="single", options={POLICY_KEY: policy}).upsert_and_commit(BERGEN)

    assert table.rows() == [OSLO, BERGEN]
