"""Nobody who slept through his own archiving decides or publishes anything (TL13)."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from workers.clock import InstantTime, format_instant
from workers.errors import InstantRolledBack, MalformedTable
from workers.table_layout import ARCHIVED_BEFORE
from workers.timeline import decisions, transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, CompletedInstant, State
from workers.timeline.timeline import Timeline
from workers.timeline.transitions import Completion, complete


def at(number: int) -> InstantTime:
    return format_instant(1_790_000_000_000 + number)


@pytest.fixture
def storage() -> MemoryStorage:
    """Everything before 10 is archived or gone, its decisions are removed."""
    made = MemoryStorage(StillClock())
    decisions.raise_archived_before(made, at(10))
    return made


def completion(number: int) -> Completion:
    instant = CompletedInstant(at(number), Action.COMMIT, State.COMPLETED, at(number + 1))
    return Completion(instant, b"metadata", "nonce")


def test_commit_of_an_instant_that_was_rolled_back_long_ago_is_refused(
    storage: MemoryStorage,
) -> None:
    with pytest.raises(InstantRolledBack):
        complete(storage, completion(5))

    assert decisions.read(storage, at(5)) is None
    assert Timeline.load(storage).instants == ()


def test_publication_of_an_archived_instant_does_not_bring_it_back(
    storage: MemoryStorage,
) -> None:
    done = completion(5).instant
    append(storage, [ArchivedInstant(done, b"metadata")], lambda: None)
    decision = CommitDecision(at(6), "nonce", "commit", sha256(b"metadata").hexdigest())
    storage.put(decisions.metadata_path(at(5), "nonce"), b"metadata")

    assert transitions.finish(storage, at(5), decision) == done

    assert Timeline.load(storage).instants == ()


def test_undo_of_an_archived_instant_is_refused(storage: MemoryStorage) -> None:
    assert not decisions.undo(storage, at(5), by=at(6), reason="slept")
    assert not decisions.is_undone(storage, at(5))
    assert decisions.undo(storage, at(10), by=at(11), reason="in time")


def test_pending_instant_from_before_may_still_be_rolled_back(storage: MemoryStorage) -> None:
    assert decisions.decide(storage, at(5), RollbackDecision(at(20), "nonce", "a late zombie"))


def test_later_instants_are_decided_as_ever(storage: MemoryStorage) -> None:
    assert complete(storage, completion(10)).completed_at == at(11)


def test_the_end_of_the_archive_never_goes_back(storage: MemoryStorage) -> None:
    decisions.raise_archived_before(storage, at(4))

    assert decisions.load_archive_border(storage) == at(10)


def test_decisions_of_settled_instants_go_and_pending_ones_stay(storage: MemoryStorage) -> None:
    for number in (3, 5, 12):
        decisions.decide(storage, at(number), RollbackDecision(at(20), "nonce", "test"))

    decisions.remove_archived(storage, {at(5)}, at(9))

    assert decisions.list_decided_instants(storage) == [at(5), at(12)]


def test_commit_of_a_settled_instant_is_not_decided(storage: MemoryStorage) -> None:
    commit = CommitDecision(at(6), "nonce", "commit", "0" * 64)

    assert decisions.decide(storage, at(5), commit) is False
    assert decisions.decide(storage, at(10), commit) is True


def test_instant_is_settled_by_its_decision_or_by_the_end_of_the_archive(
    storage: MemoryStorage,
) -> None:
    decisions.decide(storage, at(12), RollbackDecision(at(20), "nonce", "test"))

    settled = [number for number in range(8, 14) if decisions.is_decided(storage, at(number))]

    assert settled == [8, 9, 12]


def test_the_end_of_the_archive_goes_forward(storage: MemoryStorage) -> None:
    decisions.raise_archived_before(storage, at(12))

    assert decisions.load_archive_border(storage) == at(12)


# the latest in the history -> of 3, 5 (pending), 9, 10 and 12, what keeps its decision and its undo
@pytest.mark.parametrize(
    ("last", "kept"),
    [(None, [3, 5, 9, 10, 12]), (8, [5, 9, 10, 12]), (9, [5, 10, 12]), (12, [5, 10, 12])],
)
def test_what_is_decided_goes_with_its_undo_once_both_ends_have_passed(
    storage: MemoryStorage, last: int | None, kept: list[int]
) -> None:
    """The archive's end, and the latest instant of the history."""
    for number in (3, 5, 9, 10, 12):
        decisions.decide(storage, at(number), RollbackDecision(at(20), "nonce", "test"))
        decisions.fence_undo(storage, at(number), by=at(21))

    decisions.remove_archived(storage, {at(5)}, None if last is None else at(last))

    assert decisions.list_decided_instants(storage) == [at(number) for number in kept]
    assert decisions.undone_instants(storage) == [at(number) for number in kept]


@pytest.mark.parametrize("content", [b"", b"2026", b"\xff" * 17, b"20269999999999999", b"nothing"])
def test_a_damaged_border_is_refused_and_opens_no_fence(
    storage: MemoryStorage, content: bytes
) -> None:
    storage.put(ARCHIVED_BEFORE.path, content)

    with pytest.raises(MalformedTable, match="archived_before"):
        complete(storage, completion(5))
    with pytest.raises(MalformedTable, match="archived_before"):
        decisions.raise_archived_before(storage, at(12))
    assert Timeline.load(storage).instants == ()


@pytest.mark.parametrize("border", [b"99991231235959999", at(40).encode()])
def test_a_border_behind_every_instant_is_damaged_and_settles_nothing(
    storage: MemoryStorage, border: bytes
) -> None:
    transitions.begin(storage, at(20), Action.COMMIT)
    storage.put(ARCHIVED_BEFORE.path, border)

    with pytest.raises(MalformedTable, match=r"first active instant.*archived_before"):
        decisions.is_decided(storage, at(20))
    with pytest.raises(MalformedTable, match="archived_before"):
        complete(storage, completion(20))
    assert decisions.read(storage, at(20)) is None
    with pytest.raises(MalformedTable, match="archived_before"):
        decisions.undo(storage, at(20), by=at(21), reason="test")
    assert not decisions.is_undone(storage, at(20))

    storage.put(ARCHIVED_BEFORE.path, at(20).encode())
    assert complete(storage, completion(20)).completed_at == at(21)


def test_a_decision_to_complete_at_no_time_is_damaged(storage: MemoryStorage) -> None:
    decisions.decide(storage, at(20), CommitDecision("soon", "nonce", "commit", "0"))

    with pytest.raises(MalformedTable, match="damaged"):
        decisions.read(storage, at(20))
