"""The only writer of timeline files: request, start, begin (both), complete, discard.

All are called under the table lock, except that discarding a decided instant needs none. Completing
follows design 2: durable content next to the decision, then the decision, then the completed file;
the next process after a crash finishes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workers import failpoints
from workers.clock import InstantTime
from workers.errors import InstantRolledBack, LeaseLost, MalformedTable, NotFound
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.timeline.archive import list_archived_times
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout, pending_action
from workers.timeline.timeline import Timeline
from workers.traces import span

_LAYOUT = TimelineLayout()


def request(storage: Storage, requested_at: InstantTime, action: Action, plan: bytes) -> Instant:
    """Create the requested file. Raises LeaseLost when another process used the same time."""
    instant = Instant(requested_at, action, State.REQUESTED)
    if not storage.put_if_absent(_LAYOUT.path(instant), plan):
        raise _time_taken(requested_at)
    return instant


def _time_taken(requested_at: InstantTime) -> LeaseLost:
    return LeaseLost("instant time was taken by another writer", instant=requested_at)


def start(storage: Storage, instant: Instant) -> Instant:
    """Move a requested instant to inflight. May be called again; both files stay.

    Raises LeaseLost with no file left when the requested file is missing: another process ended the
    instant. Archiving deletes the requested file before the inflight one, so either this function
    or archiving finds a file that is put too late.
    """
    inflight = instant.inflight()
    _reject_ended(storage, instant)
    storage.put_if_absent(_LAYOUT.path(inflight), b"")
    try:
        _reject_ended(storage, instant)
    except LeaseLost:
        storage.delete(_LAYOUT.path(inflight))
        raise
    return inflight


def _reject_ended(storage: Storage, requested: Instant) -> None:
    if storage.info(_LAYOUT.path(requested)) is None:
        raise LeaseLost(
            "the instant was completed or rolled back by another process",
            instant=requested.requested_at,
        )


def begin(storage: Storage, requested_at: InstantTime, action: Action) -> Instant:
    """Call `request` without a plan, then `start`, made durable together. Raises LeaseLost."""
    requested = Instant(requested_at, action, State.REQUESTED)
    inflight = requested.inflight()
    paths = [_LAYOUT.path(requested), _LAYOUT.path(inflight)]
    if not storage.put_empty(paths, is_exclusive=True):
        raise _time_taken(requested_at)
    return inflight


@dataclass(frozen=True, slots=True)
class Completion:
    """The content to publish for an instant, and the nonce of its staged file."""

    instant: CompletedInstant
    content: bytes
    nonce: str
    writer: str | None = None
    following: Completion | None = None
    """A pending instant that is decided with this one, and published behind it."""


def complete(storage: Storage, completion: Completion) -> Instant:
    """Decide and publish. `completion.instant` carries the completion time.

    Raises InstantRolledBack when a rollback was decided first, WriteOutcomeUnknown when storage
    gives no answer.
    """
    done = completion.instant
    decision = _laid_down(storage, completion)
    with span("transaction decide", {"sluice.instant": done.requested_at}):
        is_ours = decisions.decide(storage, done.requested_at, decision)
    if not is_ours:
        decisions.delete_metadata(
            storage, decisions.metadata_path(done.requested_at, completion.nonce)
        )
        raise InstantRolledBack(
            "the instant was decided by another process", instant=done.requested_at
        )
    failpoints.hit_failpoint("after_decision", writer=completion.writer)
    with span("transaction publish", {"sluice.instant": done.requested_at}):
        _decide_following(storage, decision)
        published = _publish(storage, done.requested_at, decision, completion.content)
        _finish_following(storage, decision)
    return published


def _laid_down(storage: Storage, completion: Completion) -> CommitDecision:
    """Make the content durable, and that of the following instants, and return the decision to
    make.
    """
    done, following = completion.instant, completion.following
    assert done.completed_at is not None, done
    assert done.completed_at > done.requested_at, done
    others = {}
    if following is not None:
        others = {following.instant.requested_at: _laid_down(storage, following)}
    storage.put(decisions.metadata_path(done.requested_at, completion.nonce), completion.content)
    return CommitDecision(
        completed_at=done.completed_at,
        nonce=completion.nonce,
        action=done.action,
        metadata_sha256=hashlib.sha256(completion.content).hexdigest(),
        writer=completion.writer,
        following=others,
    )


def _decide_following(storage: Storage, decision: CommitDecision) -> None:
    """Decide before the decision's own instant is published: until then it is found as a pending
    one.
    """
    for requested_at, other in decision.following.items():
        decisions.decide(storage, requested_at, other)


def _finish_following(storage: Storage, decision: CommitDecision) -> None:
    for requested_at, other in decision.following.items():
        if decisions.read(storage, requested_at) == other:
            finish(storage, requested_at, other)


def finish_decided(storage: Storage, timeline: Timeline) -> bool:
    """Publish every pending instant whose commit was decided, and return True if the timeline
    changed.
    """
    changed = False
    pending = [instant.requested_at for instant in timeline.pending()]
    for requested_at, decision in decisions.read_all(storage, pending).items():
        if isinstance(decision, CommitDecision) and not decisions.is_undone(storage, requested_at):
            _decide_following(storage, decision)
            finish(storage, requested_at, decision)
            _finish_following(storage, decision)
            changed = True
    return changed


def finish(storage: Storage, requested_at: InstantTime, decision: CommitDecision) -> Instant:
    """Publish a decided commit from its staged content."""
    waiting = decisions.metadata_path(requested_at, decision.nonce)
    try:
        content = storage.read(waiting)
    except NotFound:
        # It is removed only after publishing, so the other finisher was faster; the caller reloads.
        done = CompletedInstant(
            requested_at, Action(decision.action), State.COMPLETED, decision.completed_at
        )
        if storage.info(_LAYOUT.path(done)) is None:
            raise MalformedTable(
                "a decided commit lost its content", instant=requested_at
            ) from None
        return done
    return _publish(storage, requested_at, decision, content)


def _publish(
    storage: Storage, requested_at: InstantTime, decision: CommitDecision, content: bytes
) -> Instant:
    if hashlib.sha256(content).hexdigest() != decision.metadata_sha256:
        raise MalformedTable("a decided commit's content is damaged", instant=requested_at)
    done = CompletedInstant(
        requested_at, Action(decision.action), State.COMPLETED, decision.completed_at
    )
    if decisions.is_undone(storage, requested_at):  # Undone while this writer was stalled.
        raise InstantRolledBack("the instant was committed and then undone", instant=requested_at)
    if _is_archived(storage, requested_at):
        return done
    storage.put_if_absent(_LAYOUT.path(done), content)
    if _is_archived(storage, requested_at):  # It must not come back to the active timeline.
        unpublish(storage, done)
        return done
    # Or while it stalled between checking and putting.
    if decisions.is_undone(storage, requested_at):
        unpublish(storage, done)
        raise InstantRolledBack("the instant was committed and then undone", instant=requested_at)
    decisions.delete_metadata(storage, decisions.metadata_path(requested_at, decision.nonce))
    return done


def _is_archived(storage: Storage, requested_at: InstantTime) -> bool:
    """Return True if it was published by another process, and archived since.

    Raises InstantRolledBack when it was removed without being archived, HistoryLost when no record
    is left.
    """
    if requested_at >= decisions.load_archive_border(storage):
        return False
    if not list_archived_times(storage, requested_from=requested_at, requested_until=requested_at):
        raise InstantRolledBack("the instant was settled long ago", instant=requested_at)
    return True


def unpublish(storage: Storage, instant: Instant) -> None:
    """Delete the completed file, so that no reader sees the instant.

    Only for an instant with a rollback decision, or one that is in the history (invariant TL3).
    """
    assert instant.is_completed, instant
    assert _can_leave(storage, instant.requested_at), instant
    storage.delete(_LAYOUT.path(instant))


def _can_leave(storage: Storage, requested_at: InstantTime) -> bool:
    return (
        decisions.is_undone(storage, requested_at)
        or isinstance(decisions.read(storage, requested_at), RollbackDecision)
        or requested_at < decisions.load_archive_border(storage)
    )


def discard(storage: Storage, requested_at: InstantTime, action: Action) -> None:
    """Remove an instant's pending files; the requested one last, so a crash leaves it findable.

    A completed file of no bytes, which counts as pending, would stop foreign readers: it is removed
    too. No process may remove an instant with a commit decision (invariant TL6).
    """
    is_decided = isinstance(decisions.read(storage, requested_at), CommitDecision)
    assert not is_decided or _can_leave(storage, requested_at), requested_at
    for file in storage.list_files(_LAYOUT.directory):
        if file.size == 0 and file.name.startswith(f"{requested_at}_"):
            storage.delete(file.path)
    for name in pending_action(action):
        requested = Instant(requested_at, name, State.REQUESTED)
        storage.delete(_LAYOUT.path(requested.inflight()))
        storage.delete(_LAYOUT.path(requested))


def remove_archived(storage: Storage, archived: Sequence[Instant]) -> None:
    """Remove instants that are durable in the history from the active timeline, in ascending order
    (bug A10).

    The completed file of each is deleted last: what is left of an instant is never a pending one.
    """
    assert all(instant.is_completed for instant in archived), archived
    assert all(instant < other for instant, other in pairwise(archived)), archived
    for done in archived:
        remove_stale(storage, done)
        storage.delete(_LAYOUT.path(done))


def remove_stale(storage: Storage, ended: Instant) -> None:
    """Delete the pending files of an instant that is in the history or was rolled back. The
    requested one is deleted first: a process that starts it late then finds that it has ended.
    """
    for action in pending_action(ended.action.completes_as):
        requested = Instant(ended.requested_at, action, State.REQUESTED)
        storage.delete(_LAYOUT.path(requested))
        storage.delete(_LAYOUT.path(requested.inflight()))


def put_savepoint(
    storage: Storage, commit: InstantTime, completed_at: InstantTime, content: bytes
) -> Instant:
    """Create a savepoint of `commit`, whose request time it shares, so no decision is needed.

    Raises LeaseLost when another process created the same one.
    """
    done = CompletedInstant(commit, Action.SAVEPOINT, State.COMPLETED, completed_at)
    storage.put_if_absent(_LAYOUT.path(Instant(commit, Action.SAVEPOINT, State.INFLIGHT)), b"")
    if not storage.put_if_absent(_LAYOUT.path(done), content):
        raise LeaseLost("savepoint was made by another process", instant=commit)
    return done


def delete_savepoint(storage: Storage, savepoint: Instant) -> None:
    """Delete a savepoint; its completed file is deleted last, because it protects until then."""
    assert savepoint.action is Action.SAVEPOINT, savepoint
    inflight = Instant(savepoint.requested_at, Action.SAVEPOINT, State.INFLIGHT)
    storage.delete(_LAYOUT.path(inflight))
    if savepoint.is_completed:
        storage.delete(_LAYOUT.path(savepoint))
