"""What the timeline's writer refuses by itself, whoever asks: our own mistakes must not become a
table's (invariants TL2, TL3, TL6, TL11)."""

from __future__ import annotations

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from workers.clock import format_instant
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.timeline import Timeline
from workers.timeline.transitions import Completion


def at(number: int) -> str:
    return format_instant(1_790_000_000_000 + number)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(StillClock())


def committed(storage: MemoryStorage, number: int) -> Instant:
    begun = transitions.start(storage, transitions.request(storage, at(number), Action.COMMIT, b""))
    return transitions.complete(storage, Completion(begun.complete(at(number + 1)), b"x", "n"))


def test_states_go_forward_only() -> None:
    requested = Instant(at(1), Action.COMMIT, State.REQUESTED)
    done = requested.complete(at(2))

    for instant in (requested.inflight(), done):
        with pytest.raises(AssertionError):
            instant.inflight()
    with pytest.raises(AssertionError):
        done.complete(at(3))


@pytest.mark.parametrize("completion", [0, 1])
def test_nothing_completes_at_or_before_its_request(
    storage: MemoryStorage, completion: int
) -> None:
    begun = transitions.start(storage, transitions.request(storage, at(1), Action.COMMIT, b""))
    early = CompletedInstant(at(1), Action.COMMIT, State.COMPLETED, at(completion))

    with pytest.raises(AssertionError):
        begun.complete(at(completion))
    with pytest.raises(AssertionError):
        transitions.complete(storage, Completion(early, b"x", "n"))

    assert decisions.read(storage, at(1)) is None
    assert list(Timeline.load(storage).instants) == [begun]


def test_commit_that_stands_is_neither_unpublished_nor_discarded(storage: MemoryStorage) -> None:
    done = committed(storage, 1)
    before = dict(storage.files)

    with pytest.raises(AssertionError):
        transitions.unpublish(storage, done)
    with pytest.raises(AssertionError):
        transitions.discard(storage, done.requested_at, Action.COMMIT)

    assert storage.files == before
    decisions.undo(storage, done.requested_at, by=at(5), reason="an admin's")
    transitions.unpublish(storage, done)
    transitions.discard(storage, done.requested_at, Action.COMMIT)
    assert Timeline.load(storage).instants == ()


def test_commit_that_is_only_decided_is_not_discarded(storage: MemoryStorage) -> None:
    done = committed(storage, 1)
    storage.delete(f".hoodie/timeline/{at(1)}_{at(2)}.commit")  # As if not yet published.

    with pytest.raises(AssertionError):
        transitions.discard(storage, done.requested_at, Action.COMMIT)

    assert [one.requested_at for one in Timeline.load(storage).pending()] == [at(1)]


def test_what_was_decided_to_go_may_be_unpublished(storage: MemoryStorage) -> None:
    """A foreign engine completed what we had fenced."""
    transitions.request(storage, at(1), Action.COMMIT, b"")
    decisions.decide(storage, at(1), RollbackDecision(by=at(3), nonce="n", reason="dead"))
    storage.put(f".hoodie/timeline/{at(1)}_{at(2)}.commit", b"x")
    [done] = Timeline.load(storage).iterate_completed()

    transitions.unpublish(storage, done)

    assert list(Timeline.load(storage).iterate_completed()) == []


def test_archived_instants_are_removed_in_ascending_order_or_not_at_all(
    storage: MemoryStorage,
) -> None:
    done = [committed(storage, number) for number in (1, 11, 21)]
    before = dict(storage.files)

    for wrong in (done[::-1], [done[0], done[0]], [done[0], done[2], done[1]]):
        with pytest.raises(AssertionError):
            transitions.remove_archived(storage, wrong)

    assert storage.files == before
    transitions.remove_archived(storage, done)
    assert Timeline.load(storage).instants == ()
