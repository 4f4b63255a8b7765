"""WriteClient: begin, hand a context to whoever writes the files, commit their statuses or abort.

Spark, Arrow and later the Kafka sink all come through here: there is no second commit path.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from workers import stop_points
from workers.clock import InstantTime, parse_instant
from workers.concurrency import transaction
from workers.concurrency.conflicts import Conflict, FileGroupKey, LostWrite
from workers.concurrency.heartbeat import HeartbeatContent
from workers.concurrency.late_writers import forget_beginner
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted, RolledBack
from workers.concurrency.proposal import Condition, Proposal
from workers.concurrency.sought_keys import Sought
from workers.concurrency.transaction import Started
from workers.errors import LakehouseError, LockTimeout, StorageFailed, WriteOutcomeUnknown
from workers.files.names import parse_base_file, parse_log_file
from workers.markers.doom import read_doom
from workers.markers.store import delete_markers
from workers.options.write_options import WriteOptions
from workers.processes import this_process
from workers.recovery.failed_writes import (
    clean_after_write,
    clean_before_write,
    delete_late_files,
)
from workers.recovery.plan import files_of
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.schema.strategies import check_strategy
from workers.storage.base import FileInfo
from workers.table.schema_history import current_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline import metadata
from workers.timeline.instant import Action
from workers.timeline.metadata import WriteStat
from workers.write.columns import writer_schema
from workers.write.context import WriteContext
from workers.write.dead_letters import DeadLetters, check_bad_rows
from workers.write.exhausted_lists import with_exhausted
from workers.write.finalize import drop_strays
from workers.write.overtaken import OvertakenRows
from workers.write.read_otherwise import KeysReadOtherwise
from workers.write.replacing import replacement
from workers.write.request import WriteRequest, check_request
from workers.write.snapshot_context import snapshot_context
from workers.write.status import DeadLetterFile, WriteStatus

__all__ = ["Transaction", "WriteClient", "WriteRequest"]

_log = logging.getLogger(__name__)


class WriteClient:
    """Begins writes of one table by one set of options; any number of them, one after the other."""

    def __init__(self, table: Table, options: WriteOptions) -> None:
        self._table = table
        self._options = options
        self._writer = options.writer or f"writer-{table.ports.ids.token()[:8]}"

    def begin(
        self, batch_schema: pa.Schema | None, request: WriteRequest | None = None
    ) -> Transaction:
        """Clean up as the options say, then start an instant. `delete_partition` has no batch.

        Raises InvalidInput or UnsupportedTable before anything is written, LockTimeout.
        """
        request = request or WriteRequest()
        table = self._table
        table.check_writable(begins_to_write=True)
        check_request(table, self._options, request)
        check_strategy(self._options.schema_strategy)
        # Refused before the first effect; done again on what the transaction starts from.
        writer_schema(table, self._options, request, batch_schema, current_schema(table))
        clean_before_write(table, self._options)
        content = HeartbeatContent(
            self._options, self._writer, request.operation, request.stream, *(request.sink or ())
        )
        action = Action.REPLACECOMMIT if request.replaces else None
        started = transaction.begin(table, self._options, content, action)
        attempt = Transaction(table, self._options, self._writer, request, started)
        try:
            attempt.prepare(batch_schema)
        except Exception as error:
            attempt.abort(str(error))
            raise
        return attempt


class Transaction:
    """One instant from start to outcome. `commit` or `abort` ends it, exactly once."""

    context: WriteContext

    def __init__(
        self,
        table: Table,
        options: WriteOptions,
        writer: str,
        request: WriteRequest,
        started: Started,
    ) -> None:
        self._table = table
        self._options = options
        self._writer = writer
        self._request = request
        self._started = started
        self._instant = started.instant.requested_at
        self._letters: tuple[DeadLetterFile, ...] = ()
        self._sought: Sought | None = None
        self._is_over = False
        self._committing_since_s = 0.0

    @property
    def is_over(self) -> bool:
        """An outcome was told or it was aborted; `commit` is not to be called again."""
        return self._is_over

    @property
    def instant(self) -> str:
        """The instant time of this write; it names its files and markers."""
        return self._instant

    @property
    def built_on(self) -> InstantTime:
        """Completion time of the newest commit that this builds on; empty when there is none."""
        return max(
            (one.completed_at for one in self._started.timeline.completed_writes()),
            default="",
        )

    @property
    def is_fenced(self) -> bool:
        """Somebody decided to roll this instant back: what is still being written is in vain."""
        return self._started.heartbeat.is_fenced

    def prepare(self, batch_schema: pa.Schema | None) -> None:
        """Make `context` of the snapshot that this started from. Raises as `WriteClient.begin`."""
        table, options = self._table, self._options
        at_start = self._started.schema
        known = at_start.schema if at_start else current_schema(table, self._started.timeline)
        schema = writer_schema(table, options, self._request, batch_schema, known)
        view = FileSystemView.load(table, timeline=self._started.timeline)
        delete_late_files(table, view)
        self.context = snapshot_context(
            view,
            options,
            self._request,
            instant=self._instant,
            writer=self._writer,
            schema=schema,
            batch_schema=batch_schema,
            begun_in=this_process(),
        )

    def seeks(self, sought: Sought | None) -> None:
        """Which keys the write looks for to delete them: see `sought_by`."""
        self._sought = sought

    def commit(
        self,
        statuses: Iterable[WriteStatus],
        letters: Iterable[DeadLetterFile] = (),
        condition: Condition | None = None,
        *,
        keeps_on_timeout: bool = False,
    ) -> CommitOutcome:
        """Drop strays, validate, publish, tidy up. Of the dead letters those of the attempts that
        were taken stay. `condition` is asked under the table lock before anything else.

        Raises LockTimeout, or InvalidInput for too many dead letters, with the instant rolled back.
        With `keeps_on_timeout` nothing is, as long as the lock was not had (`is_over` tells): the
        heart beats on, and the caller tries the same commit again or aborts.
        """
        written = list(statuses)
        self._committing_since_s = self._table.ports.clock.monotonic_s()
        self._letters = tuple(letters)
        stop_points.reach("after_data", writer=self._writer)
        try:
            if self._request.bounds_bad_rows:
                check_bad_rows(sum(one.rows for one in self._letters))
            self._drop_strays(written)
            proposal = replace(self._proposal(written), condition=condition)
            outcome = transaction.commit(self._table, self._options, self._started, proposal)
        except Exception as error:
            if not (keeps_on_timeout and isinstance(error, LockTimeout)):
                self.abort(str(error))
            raise
        if isinstance(outcome, Conflicted):
            size = sum(one.stat.bytes for one in written)
            groups = {(one.stat.partition_path, one.stat.file_id) for one in written}
            outcome = self._in_vain(outcome.conflict, groups, len(written), size)
        outcome = with_exhausted(self._table, outcome, written)  # Before files are tidied away.
        self._tidy(outcome, written)
        return outcome

    def lose_early(self) -> CommitOutcome:
        """End a write that was found to lose while it ran: roll back what it wrote so far.

        As `abort` when the table lock cannot be had.
        """
        storage = self._table.storage
        self._started.heartbeat.stop()
        conflict = read_doom(storage, self._instant)
        if conflict is None:  # Somebody rolled this back, and the verdict went with the markers.
            return self.end_undone()
        files = files_of(self._table, self._instant)
        conflict = replace(conflict, writer=self._writer)
        groups = {group for file in files if (group := _file_group(file))}
        size = sum(file.size for file in files)
        outcome = self._in_vain(conflict, groups, len(files), size)
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
        outcome = transaction.current_outcome(self._table, self._instant)
        if isinstance(outcome, RolledBack):
            self._started.heartbeat.remove()  # A beat may have met the end of the rollback.
            self._tidy_undone(files_of(self._table, self._instant))
        return outcome

    def _in_vain(
        self, conflict: Conflict, groups: Iterable[FileGroupKey], files: int, size: int
    ) -> Conflicted:
        lasted_ms = self._table.ports.clock.now_ms() - parse_instant(self._instant)
        lost = LostWrite(
            operation=self._request.operation,
            mode=self._options.mode.value,
            host=socket.gethostname(),
            pid=os.getpid(),
            operation_id=self._options.operation_id or None,
            stream=self._request.stream,
            attempt=int(dict(self._request.extra).get(metadata.ATTEMPTS_KEY, "1")),
            attempts_max=self._request.attempts_max or self._options.conflict_retries + 1,
        )
        conflict = conflict.wasting(files, size, lasted_ms).losing(lost, groups)
        return Conflicted(self._instant, conflict)

    def abort(self, reason: str) -> None:
        """Roll this instant back; its tasks are refused their next marker.

        When the table lock cannot be had, the next writer does it: nothing beats for this instant
        any more.
        """
        self._is_over = True
        self._started.heartbeat.stop()
        try:
            if self._roll_back(reason).was_gone:  # And the file that this was at came later.
                self._started.heartbeat.remove()
                self._tidy_undone(files_of(self._table, self._instant))
        except LakehouseError as error:
            _log.warning("left to the next writer: instant=%s error=%s", self._instant, error)

    def _tidy(self, outcome: CommitOutcome, written: list[WriteStatus]) -> None:
        self._is_over = True
        heartbeat = self._started.heartbeat
        heartbeat.stop()
        match outcome:
            case Committed(restated_by=restated_by):
                self._tidy_committed(written, restated_by)
            case Conflicted(conflict=conflict):
                self._roll_back(conflict.message, conflict=conflict)
            case RolledBack():
                self._tidy_undone(one.stat for one in written)
            case _:  # Unknown: nothing is deleted, the next writer settles it.
                _log.warning("outcome unknown: instant=%s", self._instant)

    def _tidy_undone(self, written: Iterable[FileInfo | WriteStat]) -> None:
        """Decided by another, so these are nobody's; he may have listed before we wrote them."""
        for file in written:
            self._table.storage.delete(file.path)
        delete_markers(self._table.storage, self._instant)
        forget_beginner(self._table.storage, self._instant)
        self._drop_letters()

    def _tidy_committed(self, written: list[WriteStatus], again: InstantTime | None) -> None:
        """The commit stands whatever happens here; what is left over goes with the next writer."""
        try:
            # A straggler may have opened its file between the first look and the decision.
            self._drop_strays(written)
            for instant in (self._instant, again):
                if instant is not None:
                    delete_markers(self._table.storage, instant)
            self._started.heartbeat.remove()
            if self._table.ports.clock.monotonic_s() >= self._committing_since_s + 0.5:
                forget_beginner(self._table.storage, self._instant)  # Its lease may have run out.
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
        forget_beginner(self._table.storage, self._instant)
        if not outcome.is_committed:
            self._drop_letters()
        return outcome

    def _drop_strays(self, written: list[WriteStatus]) -> None:
        """What attempts left that were not taken."""
        drop_strays(self._table.storage, self._instant, written)
        self._drop_letters(kept=self._letters)

    def _drop_letters(self, kept: Iterable[DeadLetterFile] = ()) -> None:
        path = self._options.dead_letter_path
        if path:
            DeadLetters(path, self._instant).keep_only(kept)

    def _proposal(self, written: list[WriteStatus]) -> Proposal:
        rows = sum(status.rows for status in written)
        begun_from, mode = self._started.timeline, self._options.mode.value
        process = {"host": socket.gethostname(), "pid": os.getpid(), "mode": mode}
        extra = {
            metadata.WRITER_KEY: self._writer,
            metadata.PROCESS_KEY: json.dumps(process),
            metadata.ROWS_KEY: str(rows),
            **dict(self._request.extra),
        }
        if self._options.dead_letter_path:
            extra[metadata.DEAD_LETTER_ROWS_KEY] = str(sum(one.rows for one in self._letters))
            names = ",".join(sorted(one.name for one in self._letters))
            extra[metadata.DEAD_LETTER_FILES_KEY] = names
        if self._options.operation_id:
            extra[metadata.OPERATION_KEY] = self._options.operation_id
        if self._request.stream:
            extra[metadata.STREAM_KEY] = self._request.stream
            extra[metadata.STREAM_COLUMNS_KEY] = ",".join(self.context.own_columns)
            orderings = [one.max_ordering for one in written if one.max_ordering is not None]
            if orderings:
                extra[metadata.STREAM_MAX_ORDERING_KEY] = str(max(orderings))
        if moved := sum(one.moved for one in written):
            extra[metadata.MOVED_ROWS_KEY] = str(moved)
        replaced = replacement(self.context, self._request, written)
        content = metadata.commit_metadata(
            [status.stat for status in written],
            extra=extra,
            operation_type=self._request.operation.upper(),
            replaced=replaced.file_ids,
        )
        return Proposal(
            content,
            self.context.schema,
            self._writer,
            rows,
            whole_partitions=replaced.whole_partitions,
            is_whole_table=replaced.is_whole_table,
            written=self._written(written),
            deletes_only=self._request.operation in ("delete", "delete_partition"),
            sought=self._sought,
            overtaken=OvertakenRows(self.context, self._table.storage, content.stats),
            read_otherwise=KeysReadOtherwise(self._table, begun_from, self.context, written),
        )

    def _written(self, statuses: list[WriteStatus]) -> frozenset[str] | None:
        """Columns into which the files bring values; None without files."""
        if not statuses:
            return None
        is_moving = any(one.moved for one in statuses)  # And takes all columns along.
        columns = set(self.context.schema.field_names if is_moving else self.context.columns)
        return frozenset().union(*(columns.difference(one.empty_columns) for one in statuses))


def _file_group(file: FileInfo) -> FileGroupKey | None:
    """The file group of a data file; None for any other."""
    partition, _, name = file.path.rpartition("/")
    file_name = parse_base_file(name) or parse_log_file(name)
    return (partition, file_name.file_id) if file_name else None
