"""The table as the coordinator's ledger: where the sink stands, and its transactions on the table.

A commit is a compare-and-set on the offset map: under the table lock it looks once more where the
sink stands, and which epoch is the newest. So any number of coordinators may be alive, and none of
them writes a record twice or passes one over (KS3, KS4). A transaction lives in the process that
began it; who comes after it takes it back, and reads the records again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.outcome import (
    Committed,
    Conflicted,
    RolledBack,
    Unknown,
)
from workers.config import WriteOptions
from workers.errors import (
    InvalidInput,
    LakehouseError,
    LockTimeout,
    RollbackRefused,
    SinkFenced,
)
from workers.files.names import instant_of
from workers.recovery.failed_writes import finish_decided
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.alter import AddColumn
from workers.schema.table_schema import TableSchema
from workers.sink.beginning import Beginning, TopicRange, beginning
from workers.sink.config import SinkConfig
from workers.sink.context import batch_schema, sink_request
from workers.sink.coordinator_events import (
    CommitFailed,
    CommitResult,
    CommitUnknown,
)
from workers.sink.coordinator_events import Committed as SinkCommitted
from workers.sink.epoch import Epoch, read_epoch
from workers.sink.first_look import first_look
from workers.sink.messages import Report
from workers.sink.offsets import (
    Attempt,
    Stale,
    StaleCause,
    Standing,
    check_commit,
    format_offsets,
    merged_offsets,
)
from workers.sink.standing import (
    EPOCH_KEY,
    GAPS_KEY,
    ID_KEY,
    LEFT_OUT_KEY,
    LETTERS_KEY,
    LOST_KEY,
    OFFSETS_KEY,
    START_KEY,
    TOPIC_ID_KEY,
    TOPIC_KEY,
    VALID_THROUGH_KEY,
    StandingOffsets,
    committed_offsets,
)
from workers.sink.tables import check_sink_table
from workers.table.schema_history import current_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.timeline import Timeline
from workers.write.alter import alter_schema
from workers.write.client import Transaction, WriteClient
from workers.write.status import DeadLetterFile, WriteStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkTransaction:
    """What START_COMMIT tells of it, and the transaction on the table."""

    began: Beginning
    topic_id: str
    transaction: Transaction

    @property
    def instant(self) -> InstantTime:
        return self.transaction.instant

    @property
    def offsets(self) -> Mapping[int, int]:
        """Where each partition of the transaction begins."""
        return self.began.starts

    @property
    def schema(self) -> str:
        """Avro JSON of the schema that everybody writes under."""
        return self.transaction.context.schema.avro_json

    @property
    def read_at(self) -> InstantTime:
        """Completion time of the newest commit that it builds on; empty if none."""
        return self.transaction.built_on


@dataclass(slots=True)
class SinkLedger:
    """Of one coordinator; one thread uses it. `options` are those of `sink_write_options`.

    Making one raises InvalidInput, UnsupportedTable for a table that the sink cannot write.
    """

    table: Table
    config: SinkConfig
    epoch: Epoch
    options: WriteOptions
    _agreed: dict[int, int] = field(default_factory=dict)
    _standing: StandingOffsets = field(init=False)

    def __post_init__(self) -> None:
        check_sink_table(self.table, self.config)
        self._standing = StandingOffsets(self.table, self.config.sink_id)

    def standing(self) -> Standing:
        """What the newest completed commit of this sink says.

        Raises LockTimeout, MalformedTable.
        """
        finish_decided(self.table, self.options)
        return self._standing.newest(self.table.timeline())

    def begin(self, topic: TopicRange) -> SinkTransaction | None:
        """Take back what this sink left pending, and begin an instant where the table stands; None
        when the topic ends there.

        Raises SinkFenced; OffsetsMissing, TopicReplaced, OffsetExpired, InvalidInput and
        UnsupportedTable, which are for a person; LockTimeout, StorageFailed.
        """
        self._check_epoch()
        self._take_back_pending()
        standing = self.standing()
        if not standing.offsets and not self._agreed and self.config.start_offsets == "latest":
            self._agreed = dict(first_look(self.table.storage, self.config.sink_id, topic))
        began = beginning(
            self.config,
            standing,
            topic,
            agreed=self._agreed,
            has_rows=not standing.offsets and bool(FileSystemView.load(self.table).slices),
        )
        self._agreed = dict(began.starts)
        if not (self.config.commits_empty or began.reads_something(topic)):
            return None
        schema = current_schema(self.table)
        if schema is None:
            raise InvalidInput("the table has no schema; create it with one", table=self._name)
        request = sink_request((self.config.sink_id, self.epoch.number))
        batch = batch_schema(self.config, schema.arrow)
        transaction = WriteClient(self.table, self.options).begin(batch, request)
        return SinkTransaction(began, topic.topic_id, transaction)

    def commit(self, begun: SinkTransaction, reports: Sequence[Report]) -> CommitResult:
        """Commit what all participants reported, one report of each partition. Anything but
        `CommitUnknown`, and a failure that may be tried again, has ended the transaction.
        """
        try:
            condition = _Condition(self, _attempt(self, begun, reports), begun.began, reports)
            statuses, letters = _files(begun.instant, reports)
        except LakehouseError as error:
            self.abort(begun, str(error))
            return CommitFailed(str(error))
        try:
            outcome = begun.transaction.commit(statuses, letters, condition, keeps_on_timeout=True)
        except LakehouseError as error:
            if isinstance(error, LockTimeout) and not begun.transaction.is_over:
                # Nobody has decided anything, so there is no need to read the records again.
                return CommitFailed(str(error), may_retry=True)
            return self._after(begun.instant, str(error))
        match outcome:
            case Committed():
                return SinkCommitted(condition.merged)
            case Conflicted(conflict=conflict):
                return condition.stale or CommitFailed(conflict.message)
            case RolledBack(by=by, reason=reason):
                return CommitFailed(f"rolled back by {by}: {reason}")
            case Unknown(reason=reason):
                return CommitUnknown(reason)

    def settle(self, begun: SinkTransaction) -> SinkCommitted | CommitFailed | CommitUnknown:
        """Find out whether it was committed; if not, see to it that it never will be (KS7)."""
        instant = begun.instant
        try:
            if decisions.read(self.table.storage, instant) is None:
                begun.transaction.abort("its outcome was unknown")
            finish_decided(self.table, self.options)
            match decisions.read(self.table.storage, instant):
                case CommitDecision():
                    return SinkCommitted(committed_offsets(self.table, instant))
                case RollbackDecision(reason=reason):
                    begun.transaction.end_undone()
                    return CommitFailed(reason)
                case None:
                    return CommitUnknown("nothing could be decided yet")
        except LakehouseError as error:
            return CommitUnknown(str(error))

    def abort(self, begun: SinkTransaction, reason: str) -> None:
        """Roll it back. Where that fails the next `begin` does it, of whichever coordinator."""
        begun.transaction.abort(reason)

    def evolve(self, new_fields: str) -> None:
        """Add the fields of this Avro record as nullable columns; those that the table has by now
        are passed over.

        Raises InvalidInput for fields that the table cannot have, LakehouseError for what may work
        the next time.
        """
        known = current_schema(self.table)
        names = set(known.field_names) if known else set()
        asked = TableSchema.from_avro_json(new_fields).arrow
        changes = [AddColumn(one.name, one.type) for one in asked if one.name not in names]
        if not changes:
            return
        outcome = alter_schema(self.table, self.options, changes)
        if not isinstance(outcome, Committed):
            raise LakehouseError("columns were not added", outcome=type(outcome).__name__)

    @property
    def _name(self) -> str:
        return self.table.config.name

    def _check_epoch(self) -> None:
        if (newest := self._newer_epoch()) is not None:
            raise SinkFenced("another coordinator has a higher epoch", **_told(self.epoch, newest))

    def _newer_epoch(self) -> Epoch | None:
        """Not None when this coordinator is not the one whose epoch stands."""
        found = read_epoch(self.table.storage, self.config.sink_id)
        if found is None:
            raise SinkFenced("the sink's epoch is gone: the table was made anew", table=self._name)
        return None if found.number == self.epoch.number else found

    def _take_back_pending(self) -> None:
        """What this sink began and nobody will commit: older coordinators' at once, whether their
        hearts beat or not, and our own.
        """
        pending = {one.requested_at for one in self.table.timeline().pending()}
        for beat in read_heartbeats(self.table.storage):
            if beat.sink != self.config.sink_id or beat.instant not in pending:
                continue
            if (beat.sink_epoch or 0) > self.epoch.number:
                raise SinkFenced(
                    "another coordinator has begun a transaction", instant=beat.instant
                )
            self._take_back(beat.instant)

    def _take_back(self, instant: InstantTime) -> None:
        request = RollbackRequest(
            instant,
            by=self.options.writer,
            reason=f"epoch {self.epoch.number} of sink {self.config.sink_id} begins anew",
            is_forced=True,
            is_only_pending=True,
            writer=self.options.writer,
        )
        try:
            rollback(self.table, request, self.options)
        except RollbackRefused as refused:  # Its writer was faster, and removed it.
            _log.info("left alone: instant=%s reason=%s", instant, refused)

    def _after(self, instant: InstantTime, reason: str) -> CommitResult:
        """A commit raised: what stands?"""
        try:
            decision = decisions.read(self.table.storage, instant)
        except LakehouseError as error:
            return CommitUnknown(f"{reason}; then {error}")
        if isinstance(decision, CommitDecision):
            return CommitUnknown(reason)
        return CommitFailed(reason)

    def check(self, timeline: Timeline, attempt: Attempt) -> Stale | Standing:
        """Under the table lock: why the attempt must not be committed, or what it stands on."""
        if (newest := self._newer_epoch()) is not None:
            reason = f"epoch {self.epoch.number} was followed by epoch {newest.number}"
            return Stale(StaleCause.EPOCH, reason)
        standing = self._standing.newest(timeline)
        return check_commit(standing, attempt) or standing


@dataclass(slots=True)
class _Condition:
    """Asked under the table lock: whether the commit may stand, and what it tells of the sink."""

    ledger: SinkLedger
    attempt: Attempt
    began: Beginning
    reports: Sequence[Report]
    stale: Stale | None = None
    merged: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, timeline: Timeline) -> Conflict | Mapping[str, str]:
        found = self.ledger.check(timeline, self.attempt)
        if isinstance(found, Stale):
            self.stale = found
            return Conflict(
                kind="write",
                message=found.reason,
                rival=None,
                writer=self.ledger.options.writer,
                rule=check_commit.__name__,
            )
        self.stale, self.merged = None, merged_offsets(found, self.attempt)
        return self._told()

    def _told(self) -> dict[str, str]:
        reports, config = self.reports, self.ledger.config
        newest = [one.max_timestamp_ms for one in reports if one.max_timestamp_ms]
        told = {
            OFFSETS_KEY: format_offsets(self.merged),
            ID_KEY: config.sink_id,
            EPOCH_KEY: str(self.attempt.epoch),
            TOPIC_KEY: self.attempt.topic,
            TOPIC_ID_KEY: self.attempt.topic_id,
            START_KEY: format_offsets(self.attempt.starts),
            GAPS_KEY: str(sum(one.gaps for one in reports)),
            LETTERS_KEY: str(sum(one.bad_records for one in reports)),
            LEFT_OUT_KEY: str(sum(one.left_out for one in reports)),
        }
        if newest:
            told[VALID_THROUGH_KEY] = str(min(newest))
        if self.began.lost:
            told[LOST_KEY] = ",".join(
                f"{one}={first}-{end}" for one, (first, end) in sorted(self.began.lost.items())
            )
        return told


def _attempt(ledger: SinkLedger, begun: SinkTransaction, reports: Sequence[Report]) -> Attempt:
    """Raises InvalidInput for reports that are not those of the transaction (KS5)."""
    starts = {one.partition: one.start for one in reports}
    if len(starts) < len(reports) or starts != dict(begun.offsets):
        raise InvalidInput(
            "the reports are not one of each partition, from where it began",
            instant=begun.instant,
            began=format_offsets(begun.offsets),
            reported=format_offsets(starts),
        )
    return Attempt(
        epoch=ledger.epoch.number,
        topic=ledger.config.topic,
        topic_id=begun.topic_id,
        bases=begun.began.bases,
        starts=starts,
        ends={one.partition: one.end for one in reports},
    )


def _files(
    instant: InstantTime, reports: Sequence[Report]
) -> tuple[list[WriteStatus], list[DeadLetterFile]]:
    """Raises MalformedTable, and InvalidInput for files that are not the transaction's."""
    statuses = [WriteStatus.from_json(text) for one in reports for text in one.statuses]
    letters = [DeadLetterFile.from_json(text) for one in reports for text in one.letters]
    for status in statuses:
        if instant_of(status.stat.file_name) != instant:
            raise InvalidInput(
                "a report names a file of another instant", path=status.stat.path, instant=instant
            )
    return statuses, letters


def _told(ours: Epoch, newest: Epoch) -> dict[str, object]:
    return {"ours": ours.number, "newest": newest.number, "owner": newest.owner}
