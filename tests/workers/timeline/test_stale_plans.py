"""A process that stalled before the file of a pending instant puts it too late: the instant was
archived, and never becomes pending again (TL13).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.watched_storage import At, WatchedStorage
from workers.errors import LeaseLost
from workers.storage.local import LocalStorage
from workers.timeline import decisions, transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.timeline import Timeline

LAYOUT = TimelineLayout()
ARCHIVED, ROLLED_BACK, BORDER, PLANNED = (f"2024010100000000{number}" for number in (1, 2, 5, 6))
PLAN = Instant(ARCHIVED, Action.COMPACTION, State.REQUESTED)
DONE = PLAN.complete(ROLLED_BACK)
NEWEST = CompletedInstant(BORDER, Action.COMMIT, State.COMPLETED, "20240101000000008")


def put(storage: LocalStorage, *instants: Instant) -> None:
    for instant in instants:
        storage.put(LAYOUT.path(instant), b"content")


def archive(storage: LocalStorage) -> None:
    """The plan, which another process carried out."""
    append(storage, [ArchivedInstant(DONE, b"content")], lambda: None)
    decisions.raise_archived_before(storage, BORDER)
    transitions.remove_archived(storage, [DONE])
    put(storage, NEWEST)


def names(storage: LocalStorage) -> list[str]:
    return [file.name for file in storage.list_files(LAYOUT.directory)]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


def test_plan_that_was_archived_is_not_started(storage: LocalStorage) -> None:
    archive(storage)

    with pytest.raises(LeaseLost, match="by another process"):
        transitions.start(storage, PLAN)

    assert names(storage) == [LAYOUT.path(NEWEST).rpartition("/")[2]]


@pytest.mark.parametrize("at", ["before", "after"])
def test_plan_that_is_archived_while_it_is_started_leaves_no_file(tmp_path: Path, at: str) -> None:
    """The archiver runs between the look and the file, or between the file and the second look."""
    others = LocalStorage(tmp_path / "table")
    put(others, PLAN)

    def carry_out_and_archive() -> None:
        put(others, PLAN.inflight(), DONE)
        archive(others)

    inflight = At("put_if_absent", LAYOUT.path(PLAN.inflight()), carry_out_and_archive)
    storage = WatchedStorage(tmp_path / "table", **{at: inflight})

    with pytest.raises(LeaseLost, match="by another process"):
        transitions.start(storage, PLAN)

    assert names(storage) == [LAYOUT.path(NEWEST).rpartition("/")[2]]


# what a stalled process puts
@pytest.mark.parametrize(
    "late",
    [
        PLAN.inflight(),
        Instant(ROLLED_BACK, Action.CLUSTERING, State.REQUESTED),
        Instant(ROLLED_BACK, Action.RESTORE, State.INFLIGHT),
        Instant(ARCHIVED, Action.DELTACOMMIT, State.INFLIGHT),
    ],
    ids=lambda late: f"{late.action}-{late.state}",
)
def test_pending_file_from_before_the_border_is_stale_and_goes(
    storage: LocalStorage, late: Instant
) -> None:
    archive(storage)
    put(storage, late)

    timeline = Timeline.load(storage)

    assert (timeline.instants, timeline.stale) == ((NEWEST,), (late,))
    transitions.remove_stale(storage, late)
    assert Timeline.load(storage) == Timeline((NEWEST,))


def test_plan_in_the_history_of_another_engine_is_stale(storage: LocalStorage) -> None:
    """That keeps no border."""
    append(storage, [ArchivedInstant(DONE, b"content")], lambda: None)
    put(storage, NEWEST, PLAN.inflight())

    assert Timeline.load(storage) == Timeline((NEWEST,), (PLAN.inflight(),))


def test_plan_that_is_older_than_every_commit_stays_pending(storage: LocalStorage) -> None:
    decisions.raise_archived_before(storage, ARCHIVED)
    put(storage, PLAN, PLAN.inflight(), NEWEST)

    assert Timeline.load(storage) == Timeline((PLAN.inflight(), NEWEST))


def test_pending_instant_is_compared_with_the_border_only_before_the_oldest_commit(
    tmp_path: Path,
) -> None:
    """Listing the timeline of a table with live writers costs nothing more."""
    storage = WatchedStorage(tmp_path / "table")
    archive(storage)
    put(storage, Instant(PLANNED, Action.COMPACTION, State.REQUESTED))
    calls: list[str] = []
    storage.watch(before=lambda call, path: calls.append(call))

    assert Timeline.load(storage).stale == ()
    assert calls == ["list_files"]
