"""The judge of every table sees what it is there to see: each invariant broken by hand (those of
`tests/support/invariants.py`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.invariants import assert_keys_are_unique
from tests.support.scenario_table import ScenarioTable
from workers.clock import next_instant
from workers.concurrency.outcome import Committed
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.markers.marker import markers_directory
from workers.timeline import decisions
from workers.timeline.metadata import read_commit_metadata


@pytest.fixture
def own(tmp_path: Path) -> ScenarioTable:
    """Judged by these tests alone, not again when they end."""
    made = ScenarioTable(tmp_path / "table")
    made.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    return made


def newest(table: ScenarioTable) -> Committed:
    return table.writer("newest").upsert_and_commit({"id": 1, "city": "Rome"})


def path_of(table: ScenarioTable, commit: Committed) -> str:
    return f".hoodie/timeline/{commit.instant}_{commit.completed_at}.commit"


def test_table_as_writers_leave_it_is_sound(own: ScenarioTable) -> None:
    newest(own)

    own.judge()


def test_time_that_is_given_twice_is_seen(own: ScenarioTable) -> None:
    """TL1."""
    commit = newest(own)
    content = own.storage.read(path_of(own, commit))
    later = next_instant(own.clock, commit.completed_at)
    own.storage.put(f".hoodie/timeline/{commit.completed_at}_{later}.commit", content)

    with pytest.raises(AssertionError, match="given twice"):
        own.judge()


def test_commit_that_completed_before_its_request_is_seen(own: ScenarioTable) -> None:
    """TL2."""
    commit = newest(own)
    content = own.storage.read(path_of(own, commit))
    own.storage.delete(path_of(own, commit))
    own.storage.delete(decisions.get_decision_path(commit.instant))
    early = "20200101000000000"
    own.storage.put(f".hoodie/timeline/{commit.instant}_{early}.commit", content)

    with pytest.raises(AssertionError):
        own.judge()


def test_reported_commit_that_is_gone_is_seen(own: ScenarioTable) -> None:
    """TL6."""
    commit = newest(own)
    for file in own.storage.list_files(".hoodie/timeline"):
        if file.name.startswith(commit.instant):
            own.storage.delete(file.path)

    with pytest.raises(AssertionError, match="reported as committed"):
        own.judge()


def test_committed_file_that_is_gone_is_seen(own: ScenarioTable) -> None:
    """TL10."""
    newest(own)
    own.storage.delete(own.data_files()[0])

    with pytest.raises(AssertionError, match="committed file is gone"):
        own.judge()


def test_update_that_was_made_from_an_older_version_is_seen(own: ScenarioTable) -> None:
    """TL8: the file group's second version was overwritten by one made from the first."""
    first = own.instants()[1].requested_at
    newest(own)
    last = own.writer("last").upsert_and_commit({"id": 1, "city": "Lima"})
    metadata = read_commit_metadata(own.storage.read(path_of(own, last)))
    [[partition, [stat]]] = metadata.partition_to_write_stats.items()
    lost = replace(
        metadata, partition_to_write_stats={partition: [replace(stat, prev_commit=first)]}
    )
    own.storage.put(path_of(own, last), lost.encode(own.table.data_action))
    own.storage.delete(decisions.get_decision_path(last.instant))

    with pytest.raises(AssertionError, match="prev_commit"):
        own.judge()


def test_key_that_is_there_twice_is_seen() -> None:
    """TL9."""
    rows = {PARTITION_PATH: ["p", "q", "p"], RECORD_KEY: ["a", "a", "a"]}

    with pytest.raises(AssertionError, match="there twice"):
        assert_keys_are_unique(pa.table(rows))
    assert_keys_are_unique(pa.table(rows).slice(1))


@pytest.mark.parametrize("left", ["file", "markers", "instant"])
def test_what_a_rollback_left_behind_is_seen(own: ScenarioTable, left: str) -> None:
    """RB3."""
    dead = own.writer("dead").upsert({"id": 1, "city": "Rome"})
    [written] = [path for path in own.data_files() if dead.last_instant in path]
    content = own.storage.read(written)
    dead.abort()
    own.judge()

    path = {
        "file": written,
        "markers": f"{markers_directory(dead.last_instant)}/MARKERS.type",
        "instant": f".hoodie/timeline/{dead.last_instant}.commit.requested",
    }[left]
    own.storage.put(path, content)

    with pytest.raises(AssertionError, match="rolled back"):
        own.judge()


def test_second_rollback_of_one_target_is_seen(own: ScenarioTable) -> None:
    """RB2."""
    own.writer("dead").upsert({"id": 1, "city": "Rome"}).abort()
    [done] = [one for one in own.instants() if one.action == "rollback"]
    content = own.storage.read(own.table.layout.path(done))
    again = next_instant(own.clock, done.completed_at)
    later = next_instant(own.clock, again)
    own.storage.put(f".hoodie/timeline/{again}_{later}.rollback", content)

    with pytest.raises(AssertionError, match="rolled back twice"):
        own.judge()
