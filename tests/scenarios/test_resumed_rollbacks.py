"""Rollbacks whose makers died, taken up by the next cleaner: what was decided is carried out once,
and what was not is dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioWriter
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.concurrency.heartbeat import heartbeat_path
from workers.errors import StorageFailed
from workers.markers.marker import markers_directory
from workers.markers.store import read_markers
from workers.options.write_options import write_options
from workers.options.writer_modes import POLICY_KEY
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, resume, rollback
from workers.storage.local import TEMPORARY_PREFIX
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action
from workers.timeline.metadata import RollbackPlanFile

OPTIONS = write_options({})


def planned(table: ScenarioTable, target: str, place: int) -> str:
    """A rollback of `target` whose maker died before he decided anything."""
    requested_at = str(int(target) + place)
    content = RollbackPlanFile(target, "commit", {}).encode(table.storage.location)
    transitions.request(table.storage, requested_at, Action.ROLLBACK, content)
    return requested_at


def decide(table: ScenarioTable, target: str, by: str) -> None:
    assert decisions.decide(table.storage, target, RollbackDecision(by, "nonce", "test"))


def rollbacks(table: ScenarioTable) -> list[tuple[str, bool]]:
    return [
        (one.requested_at, one.is_completed)
        for one in table.instants()
        if one.action is Action.ROLLBACK
    ]


def dead(table: ScenarioTable, key: int = 1) -> ScenarioWriter:
    writer = table.writer(f"dead{key}").upsert({"id": key, "city": "Rome"})
    writer.dies()
    return writer


def test_rollback_that_decided_nothing_is_dropped_and_its_target_goes_on(
    table: ScenarioTable,
) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})
    planned(table, busy.last_instant, 1)

    assert roll_back_dead_writers(table.table, OPTIONS) == []

    assert rollbacks(table) == []
    busy.wins()


@pytest.mark.parametrize("decided", [0, 1, 2])
def test_of_several_rollbacks_of_a_target_the_decided_one_is_carried_out(
    table: ScenarioTable, decided: int
) -> None:
    """Wherever it stands among those whose makers died earlier."""
    target = dead(table).last_instant
    made = [planned(table, target, place) for place in (1, 2, 3)]
    decide(table, target, made[decided])

    roll_back_dead_writers(table.table, OPTIONS)

    assert rollbacks(table) == [(made[decided], True)]
    assert table.table.timeline().find(target) is None
    assert table.orphan_files() == table.leftovers() == []


def test_rollbacks_of_several_targets_are_not_taken_for_each_other(table: ScenarioTable) -> None:
    targets = [dead(table, key).last_instant for key in (1, 2)]
    made = [planned(table, max(targets), place) for place in (1, 2)]
    for target, by in zip(targets, reversed(made), strict=True):
        decide(table, target, by)

    roll_back_dead_writers(table.table, OPTIONS)

    assert [table.table.timeline().find(target) for target in targets] == [None, None]
    assert all(is_completed for _, is_completed in rollbacks(table))
    assert table.orphan_files() == table.leftovers() == []


def test_rollback_that_a_takeover_fenced_is_not_carried_out(table: ScenarioTable) -> None:
    """Who sleeps with the lock is not to do anything under that name; another is made."""
    target = dead(table).last_instant
    fenced = planned(table, target, 1)
    decide(table, target, fenced)
    decide(table, fenced, "takeover")

    roll_back_dead_writers(table.table, OPTIONS)

    [(made, is_completed)] = rollbacks(table)
    assert made != fenced
    assert is_completed
    assert table.table.timeline().find(target) is None
    assert table.orphan_files() == table.leftovers() == []


def test_resuming_what_ended_or_never_was_changes_nothing(table: ScenarioTable) -> None:
    target = dead(table).last_instant
    outcome = rollback(table.table, RollbackRequest(target, by="admin", reason="test"), OPTIONS)
    assert outcome.rollback_instant is not None
    before = table.listing()

    resume(table.table, outcome.rollback_instant, OPTIONS)
    resume(table.table, "20200101000000000", OPTIONS)

    assert table.listing() == before


def test_living_writer_that_was_fenced_is_rolled_back(table: ScenarioTable) -> None:
    """Its decision stands, so its heart does not help it."""
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})
    decide(table, busy.last_instant, "takeover")

    [outcome] = roll_back_dead_writers(table.table, OPTIONS)

    assert outcome.target == busy.last_instant
    assert table.data_files() == []
    busy.is_told_rolled_back()


def test_writer_whose_heart_beats_again_is_left_alone_and_the_others_go(
    table: ScenarioTable,
) -> None:
    """It woke up between the cleaner's look and his lock."""
    sleeper, gone = dead(table, 1), dead(table, 2)
    beat = table.location / heartbeat_path(sleeper.last_instant)
    waking = At("replace_if_match", ".locks", lambda: os.utime(beat))
    cleaner = table.writer("cleaner", storage=WatchedStorage(table.location, before=waking))

    outcomes = roll_back_dead_writers(cleaner.table, OPTIONS)

    assert waking.hits == 1
    assert [outcome.target for outcome in outcomes] == [gone.last_instant]
    sleeper.wins()


@pytest.mark.parametrize("policy", ["LAZY", "NEVER"])
def test_nobody_begins_beside_a_rollback_that_is_decided(table: ScenarioTable, policy: str) -> None:
    """Nothing is built on what is being taken back, whatever becomes of the dead."""
    target = dead(table).last_instant
    made = planned(table, target, 1)
    decide(table, target, made)
    writer = table.writer("next", options={POLICY_KEY: policy})

    writer.begin(table.batch([{"id": 2, "city": "Oslo"}]).schema)

    assert rollbacks(table) == [(made, True)]
    assert table.table.timeline().find(target) is None
    writer.abort()


@pytest.mark.parametrize("policy", ["EAGER", "NEVER"])
def test_cleaner_publishes_what_a_dead_writer_decided(table: ScenarioTable, policy: str) -> None:
    publishing = At("put_if_absent", ".commit", fails(Died()))
    storage = WatchedStorage(
        table.location, before=lambda call, path: publishing(call, path) if "_" in path else None
    )
    unlucky = table.writer("unlucky", storage=storage).upsert({"id": 1, "city": "Oslo"})
    with pytest.raises(Died):
        unlucky.commit()
    unlucky.dies()

    roll_back_dead_writers(table.table, write_options({POLICY_KEY: policy}))

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_cleaning_that_fails_does_not_turn_a_commit_into_an_error(table: ScenarioTable) -> None:
    """It comes after the commit; what it leaves is the next one's."""
    target = dead(table).last_instant
    failing = At("delete", ".parquet", fails(StorageFailed("503")), times=100)
    storage = WatchedStorage(table.location, before=failing)

    table.writer("next", storage=storage).upsert_and_commit({"id": 2, "city": "Oslo"})

    assert failing.hits > 0
    assert table.rows() == [{"id": 2, "city": "Oslo"}]
    roll_back_dead_writers(table.table, OPTIONS)
    assert table.table.timeline().find(target) is None
    assert table.orphan_files() == table.leftovers() == []


# ---- what a look at a table costs


def calls_of_a_look(table: ScenarioTable) -> list[str]:
    calls: list[str] = []
    watch: Callable[[str, str], None] = lambda call, path: calls.append(path)  # noqa: E731
    looking = table.writer("looking", storage=WatchedStorage(table.location, before=watch))
    assert roll_back_dead_writers(looking.table, OPTIONS) == []
    return calls


def test_where_everybody_lives_nobody_takes_the_lock(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    busy = table.writer("busy").upsert({"id": 1, "city": "Rome"})

    assert not [path for path in calls_of_a_look(table) if ".locks" in path]

    busy.wins()


# ---- what lies about


def test_file_that_a_dead_process_began_goes_once_it_is_old(table: ScenarioTable) -> None:
    old, young = (table.location / f".hoodie/{TEMPORARY_PREFIX}{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    long_ago_s = time.time() - 24 * 3600
    os.utime(old, (long_ago_s, long_ago_s))
    dead(table)

    roll_back_dead_writers(table.table, OPTIONS)

    assert (old.exists(), young.exists()) == (False, True)
    young.unlink()


@pytest.mark.parametrize("is_somebody_dead", [True, False])
def test_what_lies_about_of_nobody_goes_and_what_the_living_need_stays(
    table: ScenarioTable, is_somebody_dead: bool
) -> None:
    """A content that waits for its decision is the commit of whoever wrote it."""
    busy = table.writer("busy").upsert({"id": 2, "city": "Oslo"})
    gone = str(int(busy.last_instant) - 1_000)
    left = [
        f"{markers_directory(gone)}/a.parquet.marker.CREATE",
        decisions.metadata_path(gone, "n"),
    ]
    needed = decisions.metadata_path(busy.last_instant, "n")
    for path in (*left, needed):
        table.storage.put(path, b"")
    if is_somebody_dead:
        dead(table)

    roll_back_dead_writers(table.table, OPTIONS)

    assert [table.storage.info(path) for path in left] == [None, None]
    assert table.storage.info(needed) is not None
    assert len(read_markers(table.storage, busy.last_instant)) == 1
    busy.wins()
    decisions.delete_metadata(table.storage, needed)


def test_half_made_savepoint_goes_and_a_whole_one_stays(table: ScenarioTable) -> None:
    commits = [
        table.writer("w").upsert_and_commit({"id": 1, "city": city}).instant
        for city in ("Oslo", "Rome")
    ]
    later = str(int(commits[1]) + 500)
    whole = transitions.put_savepoint(table.storage, commits[0], later, b"files")
    table.storage.put(f".hoodie/timeline/{commits[1]}.savepoint.inflight", b"")

    roll_back_dead_writers(table.table, OPTIONS)

    saved = [one for one in table.instants() if one.action is Action.SAVEPOINT]
    assert saved == [whole]
    transitions.delete_savepoint(table.storage, whole)
