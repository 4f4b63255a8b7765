"""File names of instants, in both layouts, and the timeline made of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from workers.storage.local import LocalStorage
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.timeline import Timeline

R, C, LATER = "20240101000000001", "20240101000000002", "20240101000000003"
V2, V1 = TimelineLayout(2), TimelineLayout(1)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


def timeline_of(storage: LocalStorage, *names: str, layout: TimelineLayout = V2) -> Timeline:
    for name in names:
        storage.put(f"{layout.directory}/{name}", b"x")
    return Timeline.load(storage, layout)


@pytest.mark.parametrize("layout", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize(("action", "state"), list(itertools.product(Action, State)))
def test_a_name_says_its_instant_and_back(
    layout: TimelineLayout, action: Action, state: State
) -> None:
    instant = (
        Instant(R, action, state)
        if state is not State.COMPLETED
        else CompletedInstant(R, action, state, C if layout.version == 2 else R)
    )

    name = layout.path(instant).rpartition("/")[2]

    assert layout.parse(name) == instant


# file name -> action and state, or nothing
NAMES = f"""
{R}.commit.requested            commit       requested
{R}.inflight                    commit       inflight
{R}.commit.inflight             commit       inflight
{R}_{C}.commit                  commit       completed
{R}.deltacommit.requested       deltacommit  requested
{R}.deltacommit.inflight        deltacommit  inflight
{R}_{C}.deltacommit             deltacommit  completed
{R}.compaction.requested        compaction   requested
{R}.rollback.inflight           rollback     inflight
{R}_{C}.rollback                rollback     completed
20240101000000.commit.requested commit       requested
{R}.party.requested             -            -
{R}_{C}.party                   -            -
{R}.commit                      -            -
{R}_{C}.commit.crc              -            -
.{R}_{C}.commit.crc             -            -
{R[:-1]}_{C}.commit             -            -
{R}_{C}_{C}.commit              -            -
hoodie.properties               -            -
.aux                            -            -
"""


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_names_of_layout_2(line: str) -> None:
    name, action, state = line.split()

    parsed = V2.parse(name)

    assert (
        (parsed.action, parsed.state) == (action, state)
        if parsed
        else (action, state) == ("-", "-")
    )


def test_each_instant_stands_once_in_its_highest_state(storage: LocalStorage) -> None:
    timeline = timeline_of(
        storage, f"{R}.commit.requested", f"{R}.inflight", f"{R}_{C}.commit", f"{LATER}.inflight"
    )

    assert timeline.instants == (
        CompletedInstant(R, Action.COMMIT, State.COMPLETED, C),
        Instant(LATER, Action.COMMIT, State.INFLIGHT),
    )


@pytest.mark.parametrize(
    ("pending", "completed"),
    [
        ("compaction", "commit"),
        ("logcompaction", "deltacommit"),
        ("clustering", "replacecommit"),
    ],
)
def test_service_that_completed_under_another_name_is_one_instant(
    storage: LocalStorage, pending: str, completed: str
) -> None:
    timeline = timeline_of(
        storage, f"{R}.{pending}.requested", f"{R}.{pending}.inflight", f"{R}_{C}.{completed}"
    )

    assert [(one.action, one.is_completed) for one in timeline.instants] == [(completed, True)]


def test_empty_completed_file_leaves_the_instant_pending(storage: LocalStorage) -> None:
    storage.put(f"{V2.directory}/{R}_{C}.commit", b"")

    timeline = timeline_of(storage, f"{R}.commit.requested", f"{R}.inflight")

    assert [one.state for one in timeline.instants] == [State.INFLIGHT]


def test_writes_are_listed_as_they_became_visible(storage: LocalStorage) -> None:
    timeline = timeline_of(
        storage,
        f"{R}_20240101000000009.commit",
        f"{C}_20240101000000005.deltacommit",
        f"{LATER}_20240101000000004.clean",
    )

    assert [one.requested_at for one in timeline.list_completed_writes()] == [C, R]
    assert timeline.first_time == R
    assert timeline.last_time == "20240101000000009"


def test_last_time_counts_pending_requests_too(storage: LocalStorage) -> None:
    timeline = timeline_of(storage, f"{R}_{C}.commit", f"{LATER}.commit.requested")

    assert timeline.last_time == LATER


def test_empty_timeline_has_no_times(storage: LocalStorage) -> None:
    timeline = Timeline.load(storage)

    assert (timeline.first_time, timeline.last_time, timeline.instants) == (None, None, ())


def test_layout_1_orders_by_request(storage: LocalStorage) -> None:
    timeline = timeline_of(storage, f"{C}.commit", f"{R}.commit", f"{LATER}.inflight", layout=V1)

    assert [one.requested_at for one in timeline.list_completed_writes()] == [R, C]
    assert [one.requested_at for one in timeline.pending()] == [LATER]
