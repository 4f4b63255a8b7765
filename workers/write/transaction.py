"""A write from its start to its outcome: committed, lost, or rolled back."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from workers import failpoints
from workers.clock import InstantTime, parse_instant
from workers.concurrency import transaction
from workers.concurrency.begin import StartedTransaction
from workers.concurrency.conflicts import Conflict, FileGroupKey
from workers.concurrency.outcome import (
    CommitOutcome,
    Committed,
    Conflicted,
    RolledBack,
    load_outcome,
)
from workers.concurrency.proposal import Condition, Proposal
from workers.concurrency.read_set import ReadSet
from workers.concurrency.rolled_back_commits import find_rolled_back
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LockTimeout,
    MalformedTable,
    NotFound,
    SnapshotChanged,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.markers.early_conflict import read_early_conflict
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import (
    clean_after_write,
)
from workers.recovery.plan import find_files
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.table.table import Table
from workers.write.commit_proposal import build_proposal
from workers.write.context import WriteContext
from workers.write.dead_letters import check_bad_rows
from workers.write.instant_cleanup import InstantCleanup
from workers.write.outcome_report import build_conflict_outcome, parse_file_group, with_warnings
from workers.write.request import WriteRequest
from workers.write.status import DeadLetterFile, WriteStatus

_log = logging.getLogger(__name__)


class Transaction:
    """One instant from start to outcome. `commit` or `abort` ends it, exactly once."""

    context: WriteContext

    def __init__(
        self,
        table: Table,
        options: WriteOptions,
        writer: str,
        request: WriteRequest,
        started: StartedTransaction,
    ) -> None:
        self._table = table
        self._options = options
        self._writer = writer
        self._request = request
        self._started = started
        self._instant = started.instant.requested_at
        self._letters: tuple[DeadLetterFile, ...] = ()
        self._left = InstantCleanup(table.storage, self._instant, options.dead_letter_path)
        self._reads: ReadSet | None = None
        self._is_over = False
        self.left_out: tuple[str, ...] = ()
        """Columns of the batch without any value that the table lacks."""
        self._committing_since_s = 0.0

    @property
    def is_over(self) -> bool:
        """True after an outcome or an abort; `commit` must not be called again."""
        return self._is_over

    @property
    def instant(self) -> str:
        """The instant time of this write; it names its files and markers."""
        return self._instant

    @property
    def built_on(self) -> InstantTime:
        """Completion time of the newest commit that this builds on; empty when there is none."""
        return max(
            (write.completed_at for write in self._started.timeline.list_completed_writes()),
            default="",
        )

    @property
    def is_fenced(self) -> bool:
        """Another process decided to roll this instant back: its remaining work is wasted."""
        return self._started.heartbeat.is_fenced

    def declare_reads(self, reads: ReadSet) -> None:
        """Declare what decided about the rows of the write. A write that declares nothing counts as
        one that read the whole table, and so does one whose request has `reads_rows`.
        """
        self._reads = reads

    def commit(
        self,
        statuses: Iterable[WriteStatus],
        letters: Iterable[DeadLetterFile] = (),
        condition: Condition | None = None,
        *,
        keeps_on_timeout: bool = False,
    ) -> CommitOutcome:
        """Delete unreferenced files, validate, publish, tidy up. Only the dead letters of
        successful attempts stay. `condition` is checked first under the table lock.

        Raises LockTimeout, or InvalidInput for too many dead letters, with the instant rolled back.
        With `keeps_on_timeout` it is not rolled back if the lock was not acquired (`is_over` is
        false): the heartbeat continues, and the caller tries the same commit again or aborts.
        """
        written = list(statuses)
        self._committing_since_s = self._table.ports.clock.monotonic_s()
        self._letters = tuple(letters)
        failpoints.hit_failpoint("after_data", writer=self._writer)
        try:
            if self._request.bounds_bad_rows:
                check_bad_rows(sum(letters.rows for letters in self._letters))
            self._left.delete_unreferenced_files(written, self._letters)
            proposal = replace(self._build_proposal(written), condition=condition)
            outcome = transaction.commit(self._table, self._options, self._started, proposal)
        except Exception as error:
            if not (keeps_on_timeout and isinstance(error, LockTimeout)):
                self.fail(error)
            raise
        if isinstance(outcome, Conflicted):
            size = sum(status.stat.bytes for status in written)
            groups = {(status.stat.partition_path, status.stat.file_id) for status in written}
            outcome = self._build_conflict(outcome.conflict, groups, len(written), size)
        outcome = with_warnings(self._table, outcome, written, self.left_out)
        self._tidy(outcome, written)
        return outcome

    def lose_early(self) -> CommitOutcome:
        """End a write that was found to lose while it ran: roll back what it wrote so far.

        As `abort` when the table lock cannot be had.
        """
        storage = self._table.storage
        self._started.heartbeat.stop()
        conflict = read_early_conflict(storage, self._instant)
        if (
            conflict is None
        ):  # Another process rolled this back, and its decision was deleted with the markers.
            return self.end_undone()
        files = find_files(self._table, self._instant)
        conflict = replace(conflict, writer=self._writer)
        groups = {group for file in files if (group := parse_file_group(file))}
        size = sum(file.size for file in files)
        outcome = self._build_conflict(conflict, groups, len(files), size)
        try:
            self._roll_back(conflict.message, conflict=outcome.conflict)
        except LakehouseError as error:
            _log.warning("left to the next writer: instant=%s error=%s", self._instant, error)
        return outcome

    def end_undone(self) -> CommitOutcome:
        """End a write that others decided to roll back: bring that to its end, and take away what
        tasks wrote since.
        """
        self.abort("rolled back by another")
        outcome = load_outcome(self._table, self._instant)
        if isinstance(outcome, RolledBack):
            self._started.heartbeat.remove()  # A beat may have met the end of the rollback.
            self._left.delete_all(find_files(self._table, self._instant))
        return outcome

    def _build_conflict(
        self, conflict: Conflict, groups: Iterable[FileGroupKey], files: int, size: int
    ) -> Conflicted:
        lasted_ms = self._table.ports.clock.now_ms() - parse_instant(self._instant)
        conflict = conflict.with_waste(files, size, lasted_ms)
        return build_conflict_outcome(self._options, self._request, self._instant, conflict, groups)

    def fail(self, error: Exception) -> None:
        """End a write that `error` cut off, which the caller raises, and roll it back.

        Raises InstantRolledBack if another process had done that before: files that it archived and
        cleaned since are not a fault of the table. Raises SnapshotChanged if a commit that the
        write started from was rolled back in between.
        """
        was_gone = self.abort(f"{type(error).__name__}: {error}")
        if was_gone and isinstance(error, NotFound | MalformedTable):
            raise InstantRolledBack(
                "others rolled the write back while it ran, and what it reads is gone since",
                instant=self._instant,
            ) from error
        if isinstance(error, NotFound | MalformedTable) and find_rolled_back(
            self._table, self._started.timeline, self._table.timeline()
        ):
            raise SnapshotChanged(
                "a commit that the write read was rolled back meanwhile; write again",
                instant=self._instant,
                why=error,
            ) from error

    def abort(self, reason: str) -> bool:
        """Roll this instant back; its tasks are refused their next marker. Return True if another
        process had rolled it back before.

        When the table lock cannot be acquired, the next writer does it: this instant has no
        heartbeat then.
        """
        self._is_over = True
        self._started.heartbeat.stop()
        try:
            was_gone = self._roll_back(reason).was_already_rolled_back
            if was_gone:  # And the file that this was at came later.
                self._started.heartbeat.remove()
                self._left.delete_all(find_files(self._table, self._instant))
        except LakehouseError as error:
            _log.warning("left to the next writer: instant=%s error=%s", self._instant, error)
            return False
        return was_gone

    def _tidy(self, outcome: CommitOutcome, written: list[WriteStatus]) -> None:
        self._is_over = True
        heartbeat = self._started.heartbeat
        heartbeat.stop()
        match outcome:
            case Committed(republished_by=republished_by):
                self._tidy_committed(written, republished_by)
            case Conflicted(conflict=conflict):
                self._roll_back(conflict.message, conflict=conflict)
            case RolledBack():
                self._left.delete_all(status.stat for status in written)
            case _:  # Unknown: nothing is deleted, the next writer settles it.
                _log.warning("outcome unknown: instant=%s", self._instant)

    def _tidy_committed(self, written: list[WriteStatus], again: InstantTime | None) -> None:
        """Delete the remains of a commit, which is not affected by errors here; the next writer
        deletes the rest.
        """
        try:
            # A straggler may have opened its file between the first look and the decision.
            self._left.delete_unreferenced_files(written, self._letters)
            self._left.delete_markers(again)
            if written:  # An alteration has no context.
                partitions = {status.stat.partition_path for status in written}
                self.context.partitions.tidy(self._table.storage, partitions)
            self._started.heartbeat.remove()
            if self._table.ports.clock.monotonic_s() >= self._committing_since_s + 0.5:
                self._left.forget_beginner()  # Its lease may have run out.
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("committed, not tidied: instant=%s error=%s", self._instant, error)
            return
        clean_after_write(self._table, self._options)

    def _roll_back(self, reason: str, *, conflict: Conflict | None = None) -> RollbackOutcome:
        request = RollbackRequest(
            self._instant,
            by=self._writer,
            reason=reason,
            is_forced=True,
            is_only_pending=True,
            conflict=conflict.to_json() if conflict else None,
            writer=self._writer,
            writer_has_ended=True,
        )
        outcome = rollback(self._table, request, self._options)
        self._left.forget_beginner()
        if not outcome.is_committed:
            self._left.delete_dead_letters()
        return outcome

    @property
    def _read_set(self) -> ReadSet:
        declared = self._reads
        if declared is not None and not self._request.reads_rows:
            return declared
        return ReadSet(self.context.slices.values, declared.keys if declared else None)

    def _build_proposal(self, written: list[WriteStatus]) -> Proposal:
        return build_proposal(
            self._table,
            self._options,
            self._request,
            self.context,
            written,
            writer=self._writer,
            begun_from=self._started.timeline,
            letters=self._letters,
            reads=self._read_set,
        )
