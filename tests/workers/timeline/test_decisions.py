"""One decision per instant, whoever comes first; an undo beside it, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.support.watched_storage import At, WatchedStorage, fails
from workers.errors import InstantRolledBack, MalformedTable, StorageFailed, WriteOutcomeUnknown
from workers.storage.local import LocalStorage
from workers.timeline import decisions, transitions
from workers.timeline.decisions import CommitDecision, Decision, RollbackDecision
from workers.timeline.instant import Action, State
from workers.timeline.timeline import Timeline

R, C = "20240101000000001", "20240101000000002"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


def commit_decision(nonce: str = "n") -> CommitDecision:
    return CommitDecision(C, nonce, "commit", "0" * 64, "w")


def rollback_decision(nonce: str = "n") -> RollbackDecision:
    return RollbackDecision(C, nonce, "test", "w", {"rival": R})


@pytest.mark.parametrize("decision", [commit_decision(), rollback_decision()])
def test_decision_is_read_as_it_was_made(storage: LocalStorage, decision: Decision) -> None:
    assert decisions.read(storage, R) is None

    assert decisions.decide(storage, R, decision)

    assert decisions.read(storage, R) == decision
    assert decisions.list_decided_instants(storage) == [R]


@pytest.mark.parametrize("count", [2, 50])
def test_of_many_instants_the_decided_ones_are_found(storage: LocalStorage, count: int) -> None:
    instants = [f"202401010000000{number:02d}" for number in range(count)]
    assert decisions.read_all(storage, instants) == {}
    decisions.decide(storage, instants[1], commit_decision())
    decisions.decide(storage, instants[0], rollback_decision())
    decisions.undo(storage, instants[0], by=C, reason="x")
    decisions.decide(storage, "20250101000000000", commit_decision())

    decision_of = decisions.read_all(storage, instants)

    assert decision_of == {instants[0]: rollback_decision(), instants[1]: commit_decision()}


def test_of_commit_and_rollback_in_many_threads_exactly_one_stands(storage: LocalStorage) -> None:
    for turn in range(20):
        instant = f"202401010000000{turn:02d}"
        makers: list[Decision] = []
        for number in range(4):
            makers += [commit_decision(f"c{number}"), rollback_decision(f"r{number}")]
        together = Barrier(len(makers))

        def decide(
            decision: Decision, instant: str = instant, together: Barrier = together
        ) -> bool:
            together.wait()
            return decisions.decide(storage, instant, decision)

        with ThreadPoolExecutor(len(makers)) as pool:
            won = list(pool.map(decide, makers))

        assert won.count(True) == 1
        assert decisions.read(storage, instant) == makers[won.index(True)]


def test_decision_that_was_made_again_by_its_maker_is_still_his(storage: LocalStorage) -> None:
    assert decisions.decide(storage, R, commit_decision("mine"))
    assert decisions.decide(storage, R, commit_decision("mine"))
    assert not decisions.decide(storage, R, commit_decision("another's"))


def test_lost_answer_is_settled_by_reading_back(tmp_path: Path) -> None:
    lost = At("put_if_absent", "decision", fails(WriteOutcomeUnknown("lost")))
    storage = WatchedStorage(tmp_path / "table", after=lost)

    assert decisions.decide(storage, R, commit_decision())


def test_lost_answer_to_a_write_that_lost_is_settled_too(tmp_path: Path) -> None:
    lost = At("put_if_absent", "decision", fails(WriteOutcomeUnknown("lost")))
    storage = WatchedStorage(tmp_path / "table", after=lost)
    decisions.decide(LocalStorage(tmp_path / "table"), R, rollback_decision())

    assert not decisions.decide(storage, R, commit_decision())


def test_storage_that_stays_away_leaves_it_open(tmp_path: Path) -> None:
    away = At("put_if_absent", "decision", fails(StorageFailed("503")), times=100)
    storage = WatchedStorage(tmp_path / "table", before=away)

    with pytest.raises(StorageFailed):
        decisions.decide(storage, R, commit_decision())

    assert away.hits == 3


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"outcome": "commit"}', b"\xff"])
def test_damaged_decision_is_named_and_never_guessed(storage: LocalStorage, content: bytes) -> None:
    storage.put(decisions.get_decision_path(R), content)

    with pytest.raises(MalformedTable, match=R):
        decisions.read(storage, R)


def test_undo_stands_in_the_name_of_its_rollback(storage: LocalStorage) -> None:
    assert not decisions.is_undone(storage, R)

    assert decisions.undo(storage, R, by=C, reason="wrong data")

    assert decisions.is_undone(storage, R)
    assert decisions.find_rollback_instant(storage, R) == C
    assert decisions.undone_instants(storage) == [R]
    assert decisions.list_decided_instants(storage) == []


@pytest.mark.parametrize(
    ("decision", "is_undone", "goes"),
    [
        (rollback_decision(), False, True),
        (commit_decision(), True, True),
        (commit_decision(), False, False),
    ],
)
def test_what_was_rolled_back_or_undone_is_decided_to_go(
    storage: LocalStorage, decision: Decision, is_undone: bool, goes: bool
) -> None:
    decisions.decide(storage, R, decision)
    if is_undone:
        decisions.undo(storage, R, by=C, reason="x")

    assert decisions.has_rollback_decision(storage, R) is goes


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]"])
def test_damaged_undo_is_named_and_never_guessed(storage: LocalStorage, content: bytes) -> None:
    decisions.undo(storage, R, by=C, reason="x")
    [undo] = storage.list_files(decisions._undo_directory(R))
    storage.put(undo.path, content)

    with pytest.raises(MalformedTable, match="undo object is damaged"):
        decisions.is_undone(storage, R)


def test_undo_that_was_fenced_first_does_not_stand(storage: LocalStorage) -> None:
    decisions.fence_undo(storage, R, by=C)

    assert not decisions.undo(storage, R, by=C, reason="wrong data")

    assert not decisions.is_undone(storage, R)


def test_fence_that_comes_after_the_undo_changes_nothing(storage: LocalStorage) -> None:
    decisions.undo(storage, R, by=C, reason="wrong data")

    decisions.fence_undo(storage, R, by=C)

    assert decisions.find_rollback_instant(storage, R) == C


def test_fenced_undo_that_wakes_does_not_cover_one_that_stands(storage: LocalStorage) -> None:
    decisions.fence_undo(storage, R, by="20240101000000003")
    decisions.undo(storage, R, by=C, reason="wrong data")

    assert not decisions.undo(storage, R, by="20240101000000003", reason="late")

    assert decisions.find_rollback_instant(storage, R) == C


# ---- transitions


def completion(storage: LocalStorage, content: bytes = b"metadata") -> transitions.Completion:
    requested = transitions.request(storage, R, Action.COMMIT, b"")
    inflight = transitions.start(storage, requested)
    return transitions.Completion(inflight.complete(C), content, "nonce", "w")


def test_completing_publishes_the_content_and_leaves_nothing_waiting(
    storage: LocalStorage,
) -> None:
    done = transitions.complete(storage, completion(storage))

    assert storage.read(f".hoodie/timeline/{R}_{C}.commit") == b"metadata"
    assert Timeline.load(storage).instants == (done,)
    assert decisions.load_staged_metadata(storage) == []


def test_completing_what_was_decided_to_go_is_refused(storage: LocalStorage) -> None:
    mine = completion(storage)
    decisions.decide(storage, R, rollback_decision())

    with pytest.raises(InstantRolledBack):
        transitions.complete(storage, mine)

    assert [one.state for one in Timeline.load(storage).instants] == [State.INFLIGHT]
    assert decisions.load_staged_metadata(storage) == []


def test_decided_commit_is_finished_by_anybody_once(tmp_path: Path) -> None:
    dying = At("put_if_absent", f"_{C}.commit", fails(StorageFailed("503")))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    with pytest.raises(StorageFailed):
        transitions.complete(storage, completion(storage))
    assert next(Timeline.load(storage).pending()).state is State.INFLIGHT

    assert transitions.finish_decided(storage, Timeline.load(storage))
    assert not transitions.finish_decided(storage, Timeline.load(storage))

    assert storage.read(f".hoodie/timeline/{R}_{C}.commit") == b"metadata"


@pytest.mark.parametrize(
    ("call", "part"), [("put_if_absent", ".sluice/decision/"), ("put_if_absent", f"_{C}.commit")]
)
def test_what_is_undone_while_its_publisher_sleeps_is_off_the_timeline_when_he_is_told(
    tmp_path: Path, call: str, part: str
) -> None:
    """Asleep before he decides, or between looking whether it was undone and publishing it."""
    admin = LocalStorage(tmp_path / "table")

    def undo() -> None:
        assert decisions.undo(admin, R, by="20240101000000003", reason="wrong data")

    storage = WatchedStorage(tmp_path / "table", before=At(call, part, undo))

    with pytest.raises(InstantRolledBack):
        transitions.complete(storage, completion(storage))

    assert [one.state for one in Timeline.load(admin).instants] == [State.INFLIGHT]
    assert decisions.is_undone(admin, R)


def test_content_that_is_not_what_was_decided_is_never_published(tmp_path: Path) -> None:
    dying = At("put_if_absent", f"_{C}.commit", fails(StorageFailed("503")))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    with pytest.raises(StorageFailed):
        transitions.complete(storage, completion(storage))
    [waiting] = decisions.load_staged_metadata(storage)
    storage.put(waiting.path, b"something else")

    with pytest.raises(MalformedTable, match=R):
        transitions.finish_decided(storage, Timeline.load(storage))

    assert not list(Timeline.load(storage).iterate_completed())


def test_two_writers_never_share_a_requested_file(storage: LocalStorage) -> None:
    transitions.request(storage, R, Action.COMMIT, b"")

    with pytest.raises(Exception, match="taken"):
        transitions.request(storage, R, Action.COMMIT, b"")


def test_discarding_takes_only_that_instant(storage: LocalStorage) -> None:
    for instant in (R, C):
        transitions.start(storage, transitions.request(storage, instant, Action.COMMIT, b""))

    transitions.discard(storage, R, Action.COMMIT)
    transitions.discard(storage, R, Action.COMMIT)

    assert [one.requested_at for one in Timeline.load(storage).instants] == [C]
