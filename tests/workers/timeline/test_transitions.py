"""Transitions beside others: two that want one time, two instants that are decided together, who
finishes or wakes late, what is discarded, and savepoints."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.errors import HistoryLost, InstantRolledBack, LeaseLost, MalformedTable
from workers.storage.local import LocalStorage
from workers.timeline import decisions, transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, CompletedInstant, State
from workers.timeline.timeline import Timeline
from workers.timeline.transitions import Completion

R, PLAN, C, PLAN_C, LATER = (f"2024010100000000{number}" for number in range(1, 6))
GONE = RollbackDecision("takeover", "nonce", "test")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


def completion(storage: LocalStorage, following: Completion | None = None) -> Completion:
    begun = transitions.begin(storage, R, Action.COMMIT)
    return Completion(begun.complete(C), b"mine", "mine", following=following)


def both(storage: LocalStorage) -> Completion:
    """A commit, and a pending plan that is decided with it."""
    plan = transitions.request(storage, PLAN, Action.COMPACTION, b"plan")
    return completion(storage, Completion(plan.complete(PLAN_C), b"follower", "follower"))


def published(storage: LocalStorage) -> list[str]:
    return [one.requested_at for one in Timeline.load(storage).iterate_completed()]


def decided(storage: LocalStorage) -> CommitDecision:
    decision = decisions.read(storage, R)
    assert isinstance(decision, CommitDecision)
    return decision


def test_who_begins_at_a_time_that_is_taken_is_refused(storage: LocalStorage) -> None:
    first = transitions.begin(storage, R, Action.COMMIT)

    with pytest.raises(LeaseLost, match="taken"):
        transitions.begin(storage, R, Action.COMMIT)

    assert Timeline.load(storage).instants == (first,)


# ---- decided together


def test_instants_that_are_decided_together_are_published_together(storage: LocalStorage) -> None:
    transitions.complete(storage, both(storage))

    assert published(storage) == [R, PLAN]
    assert storage.read(f".hoodie/timeline/{PLAN}_{PLAN_C}.commit") == b"follower"
    assert decisions.load_staged_metadata(storage) == []


@pytest.mark.parametrize("part", [f"decision/{PLAN}", f"{R}_{C}.commit", f"{PLAN}_{PLAN_C}.commit"])
def test_whoever_comes_after_a_death_publishes_both_at_once(tmp_path: Path, part: str) -> None:
    """The first decision stands, so both are committed, wherever their writer died."""
    dying = At("put_if_absent", part, fails(Died()))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    with pytest.raises(Died):
        transitions.complete(storage, both(storage))

    assert transitions.finish_decided(storage, Timeline.load(storage))

    assert published(storage) == [R, PLAN]
    assert decisions.load_staged_metadata(storage) == []


def test_follower_that_was_decided_to_go_stays_off_the_timeline(storage: LocalStorage) -> None:
    mine = both(storage)
    decisions.decide(storage, PLAN, GONE)

    transitions.complete(storage, mine)

    assert published(storage) == [R]
    assert decisions.read(storage, PLAN) == GONE


# ---- finished by others


@pytest.mark.parametrize("is_undone", [True, False])
def test_what_was_decided_to_go_is_not_finished(tmp_path: Path, is_undone: bool) -> None:
    dying = At("put_if_absent", f"_{C}.commit", fails(Died()))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    mine = completion(storage)
    if is_undone:
        with pytest.raises(Died):
            transitions.complete(storage, mine)
        decisions.undo(storage, R, by=LATER, reason="wrong data")
    else:
        decisions.decide(storage, R, GONE)

    assert not transitions.finish_decided(storage, Timeline.load(storage))

    assert published(storage) == []


def test_what_was_undone_is_not_published_even_for_a_moment(tmp_path: Path) -> None:
    publishing = At("put_if_absent", f"_{C}.commit", lambda: None)
    storage = WatchedStorage(tmp_path / "table", before=publishing)
    decisions.undo(storage, R, by=LATER, reason="wrong data")

    with pytest.raises(InstantRolledBack, match="then undone"):
        transitions.finish(storage, R, waiting(storage))

    assert publishing.hits == 0


def test_who_finishes_after_another_did_changes_nothing(storage: LocalStorage) -> None:
    done = transitions.complete(storage, completion(storage))

    assert transitions.finish(storage, R, decided(storage)) == done

    assert Timeline.load(storage).instants == (done,)


def test_decided_commit_whose_content_is_lost_is_named_and_not_published(
    storage: LocalStorage,
) -> None:
    transitions.begin(storage, R, Action.COMMIT)
    decisions.decide(storage, R, CommitDecision(C, "mine", "commit", "0" * 64))

    with pytest.raises(MalformedTable, match="lost its content"):
        transitions.finish(storage, R, decided(storage))

    assert published(storage) == []


# ---- woken long after


def waiting(storage: LocalStorage) -> CommitDecision:
    """The decision of a publisher whose content is still there."""
    storage.put(decisions.metadata_path(R, "mine"), b"mine")
    return CommitDecision(C, "mine", "commit", sha256(b"mine").hexdigest())


def history(storage: LocalStorage, *requested: str) -> None:
    """These are archived; everything before `LATER` is settled."""
    done = [CompletedInstant(at, Action.COMMIT, State.COMPLETED, LATER) for at in requested]
    if done:
        append(storage, [ArchivedInstant(one, b"mine") for one in done], lambda: None)
    decisions.raise_archived_before(storage, LATER)


def test_publisher_who_wakes_after_the_archiver_does_not_bring_it_back(tmp_path: Path) -> None:
    """Asleep between looking whether it is archived and publishing."""
    others = LocalStorage(tmp_path / "table")

    def finish_and_archive() -> None:
        transitions.finish_decided(others, Timeline.load(others))
        history(others, R)
        transitions.remove_archived(others, list(Timeline.load(others).iterate_completed()))

    asleep = At("put_if_absent", f"_{C}.commit", finish_and_archive)
    storage = WatchedStorage(tmp_path / "table", before=asleep)

    assert transitions.complete(storage, completion(storage)).requested_at == R

    assert Timeline.load(others).instants == ()


def test_publisher_of_what_a_lost_history_may_have_held_is_told_what_is_missing(
    storage: LocalStorage,
) -> None:
    history(storage)

    with pytest.raises(HistoryLost, match="missing=every file"):
        transitions.finish(storage, R, waiting(storage))

    assert Timeline.load(storage).instants == ()


@pytest.mark.parametrize("archived", [[PLAN], [PLAN, C]])
def test_publisher_of_what_went_without_being_archived_is_told(
    storage: LocalStorage, archived: list[str]
) -> None:
    history(storage, *archived)

    with pytest.raises(InstantRolledBack, match="settled long ago"):
        transitions.finish(storage, R, waiting(storage))

    assert Timeline.load(storage).instants == ()


def test_publisher_of_what_was_archived_with_later_ones_has_nothing_to_do(
    storage: LocalStorage,
) -> None:
    history(storage, R, PLAN)

    assert transitions.finish(storage, R, waiting(storage)).requested_at == R

    assert Timeline.load(storage).instants == ()


# ---- discarded


def test_discarding_takes_a_completed_file_of_no_bytes_and_no_other(storage: LocalStorage) -> None:
    for instant in (R, PLAN):
        transitions.begin(storage, instant, Action.COMMIT)
    for name, content in [
        (f"{R}_{C}.commit", b""),
        (f"{PLAN}_{C}.commit", b""),
        (f"{R}_{LATER}.deltacommit", b"x"),
    ]:
        storage.put(f".hoodie/timeline/{name}", content)

    transitions.discard(storage, R, Action.COMMIT)

    left = [name for name in storage.list_names(".hoodie/timeline") if not name.startswith(PLAN)]
    assert left == [f"{R}_{LATER}.deltacommit"]
    assert storage.info(f".hoodie/timeline/{PLAN}_{C}.commit") is not None


def test_commit_at_the_archives_end_is_not_yet_anybodys_to_unpublish(storage: LocalStorage) -> None:
    done = transitions.complete(storage, completion(storage))
    decisions.raise_archived_before(storage, R)

    with pytest.raises(AssertionError):
        transitions.unpublish(storage, done)

    assert published(storage) == [R]


# ---- savepoints


def test_savepoint_is_made_once_and_is_gone_when_it_was_deleted(storage: LocalStorage) -> None:
    savepoint = transitions.put_savepoint(storage, R, C, b"files")
    with pytest.raises(LeaseLost, match="another process"):
        transitions.put_savepoint(storage, R, C, b"others")
    assert Timeline.load(storage).instants == (savepoint,)
    assert storage.read(f".hoodie/timeline/{R}_{C}.savepoint") == b"files"

    transitions.delete_savepoint(storage, savepoint)

    assert Timeline.load(storage).instants == ()


def test_savepoint_holds_until_its_deletion_has_ended(tmp_path: Path) -> None:
    dying = At("delete", f"_{C}.savepoint", fails(Died()))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    savepoint = transitions.put_savepoint(storage, R, C, b"files")

    with pytest.raises(Died):
        transitions.delete_savepoint(storage, savepoint)

    assert Timeline.load(storage).instants == (savepoint,)


def test_savepoint_whose_maker_died_is_seen_and_deleted(tmp_path: Path) -> None:
    dying = At("put_if_absent", f"_{C}.savepoint", fails(Died()))
    storage = WatchedStorage(tmp_path / "table", before=dying)
    with pytest.raises(Died):
        transitions.put_savepoint(storage, R, C, b"files")
    [half_made] = Timeline.load(storage).instants
    assert (half_made.action, half_made.state) == (Action.SAVEPOINT, State.INFLIGHT)

    transitions.delete_savepoint(storage, half_made)

    assert Timeline.load(storage).instants == ()
