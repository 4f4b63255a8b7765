"""Files that writers left and no process needs, each with its evidence: data files whose instant
will never count, and a stale lock file of Apache Hudi.

Changes nothing. Without evidence a warning names what a user has to find out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.locks.bindings import Binding, read_binding
from workers.concurrency.locks.hudi_file import FILE_NAME, file_holder
from workers.errors import HistoryLost
from workers.options.lock_options import LockProvider
from workers.storage.lock_file import SeenFile
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_layout import HOODIE
from workers.timeline import decisions
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.decision_lookup import SETTLED_BY, find_decision
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Instant, State
from workers.timeline.layout import pending_action

LOCK_KEPT_MS = 3_600_000
"""A commit takes seconds; Hudi does not make its file young while it holds the lock."""
WARNINGS_MAX = 20
_TWIN = "was committed with another file in its place"
_MINUTE_MS = 60_000
_MINUTES_BELOW = 120
_HOURS_BELOW = 48


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Data files that no commit counts and no pending writer has."""

    evidence: Mapping[str, str]
    """Path -> why no process needs it."""
    undecided: frozenset[InstantTime]
    """Instants among them without a decision to roll them back."""
    warnings: Sequence[str]
    """Warnings about files that stay because their state is unknown."""
    unmarked: frozenset[str] = frozenset()
    """Partitions with committed files and without partition metadata."""


def find_orphan_files(table: Table) -> OrphanFiles:
    """Find the files below the table that no instant accounts for. Raises MalformedTable for a
    history that is damaged.
    """
    view = FileSystemView.load(table)
    # Read after the files were listed: who put one of them had its instant here before.
    known_times = {listed.requested_at for listed in table.timeline().instants}
    paths: dict[InstantTime, list[str]] = defaultdict(list)
    for instant, path in view.uncommitted:
        if instant not in known_times:
            paths[instant].append(path)
    evidence = {
        path: f"{at} was committed with another file in its place" for at, path in view.twins
    }
    undecided, warnings = set(), []
    living = find_live_instants(table)
    for instant in sorted(paths):
        why = _find_rollback_reason(table, instant)
        if why is None and (doubt := _find_doubt(table, instant, living)) is not None:
            warnings.append(f"{_format_files(paths[instant])} of {instant} stay: {doubt}")
            continue
        if why is None:
            undecided.add(instant)
            why = f"{instant} is neither on the timeline nor in its history"
        evidence |= dict.fromkeys(paths[instant], why)
    return OrphanFiles(evidence, frozenset(undecided), _shorten(warnings), view.unmarked)


def find_stale_plans(table: Table) -> Mapping[str, str]:
    """Return the pending files of archived instants, by path, and why they can be deleted."""
    requested = [
        Instant(instant.requested_at, action, State.REQUESTED)
        for instant in table.timeline().stale
        for action in pending_action(instant.action.completes_as)
    ]
    paths = [
        (table.layout.path(file), file) for plan in requested for file in (plan, plan.inflight())
    ]
    return {
        path: f"{file.requested_at} is archived, and a stalled process put this file afterwards"
        for path, file in paths
        if table.storage.info(path) is not None
    }


def find_live_instants(table: Table) -> set[InstantTime]:
    """Return the instants whose writers have a fresh heartbeat."""
    now_ms = table.ports.clock.now_ms()
    return {beat.instant for beat in read_heartbeats(table.storage) if not beat.is_expired(now_ms)}


def is_covered_by_history(table: Table, instant: InstantTime) -> bool:
    """Check whether the timeline and its history are complete at the time of this instant."""
    since = table.config.history_since
    return since is not None and instant >= since


def get_lock_path(table: Table) -> Path:
    """Return the path of the lock file that a writer of Apache Hudi would use for the table."""
    binding = read_binding(table.storage) or Binding()
    if binding.provider != LockProvider.FILESYSTEM:
        return Path(table.storage.location, HOODIE, FILE_NAME)
    return Path(binding.directory, FILE_NAME)


def find_stale_lock_file(table: Table) -> tuple[SeenFile, str | None] | None:
    """Return Hudi's lock file, and why it may still be held; None if there is none."""
    file = file_holder(get_lock_path(table).parent)
    if file is None:
        return None
    age_ms = table.ports.clock.now_ms() - file.modified_ms
    if age_ms < LOCK_KEPT_MS:
        return file, f"it is {format_age(age_ms)}, and a writer of Apache Hudi may hold it"
    if living := find_live_instants(table):
        return file, f"writers live, of {', '.join(sorted(living))}"
    return file, None


def format_age(age_ms: int) -> str:
    """Format an age: `5 minutes old`, from two hours on in hours, from two days on in days."""
    minutes = age_ms // _MINUTE_MS
    if minutes < _MINUTES_BELOW:
        return f"{minutes} minutes old"
    hours = minutes // 60
    return f"{hours} hours old" if hours < _HOURS_BELOW else f"{hours // 24} days old"


def _find_rollback_reason(table: Table, instant: InstantTime) -> str | None:
    """Return how the instant was rolled back; None if that is unknown. What is older than the
    archived part and not in it counts as rolled back only where the history is complete.
    """
    try:
        decision = find_decision(table.storage, instant)
    except HistoryLost:
        decision = None
    if isinstance(decision, RollbackDecision):
        if decision.by != SETTLED_BY:
            return f"{instant} was rolled back"
        if is_covered_by_history(table, instant):
            return f"{instant} was rolled back, and the timeline archived since"
    if decisions.is_undone(table.storage, instant):
        return f"{instant} was rolled back"
    return None


def _find_doubt(table: Table, instant: InstantTime, living: set[InstantTime]) -> str | None:
    """Return why files of an unknown instant may still be needed; None if they cannot be."""
    since = table.config.history_since
    if since is None:
        return "it was neither completed nor rolled back, and another engine kept the history"
    if instant < since:
        return f"it was neither completed nor rolled back, and the history is whole from {since} on"
    history = ArchivedTimeline(table.storage, table.layout)
    if history.is_lost(instant):
        return "the part of the history that would show whether it was committed is lost"
    if isinstance(decisions.read(table.storage, instant), CommitDecision):
        return "it was decided to be committed, and is not on the timeline"
    if instant in living:
        return "its writer lives"
    return None


def _format_files(paths: Sequence[str]) -> str:
    others = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
    return f"{min(paths)}{others}"


def _shorten(warnings: Sequence[str]) -> list[str]:
    hidden = len(warnings) - WARNINGS_MAX
    first = list(warnings[:WARNINGS_MAX])
    return [*first, f"files of {hidden} more instants stay"] if hidden > 0 else first
