"""The table as the coordinator's ledger: position and transactions of the sink.

A commit is a compare-and-set on the offset map. Under the table lock it checks the position of the
sink and the newest epoch again. So several coordinators may run at once, and none of them writes a
record twice or skips one (KS3, KS4). A transaction lives in the process that began it. The next
coordinator rolls it back and reads its records again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule
from workers.concurrency.outcome import (
    Committed,
    Conflicted,
    RolledBack,
    Unknown,
)
from workers.errors import (
    InvalidInput,
    LakehouseError,
    LockTimeout,
    SinkFenced,
    TopicReplaced,
)
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import publish_decided
from workers.sink.config import SinkConfig
from workers.sink.context import begin_transaction
from workers.sink.coordinator_events import (
    CommitFailed,
    CommitResult,
    CommitUnknown,
)
from workers.sink.coordinator_events import Committed as SinkCommitted
from workers.sink.epoch import Epoch, read_epoch
from workers.sink.initial_offsets import resolve_initial_offsets
from workers.sink.messages import Report
from workers.sink.new_columns import add_fields
from workers.sink.offsets import (
    Attempt,
    SinkCommit,
    Stale,
    StaleCause,
    check_commit,
    format_offsets,
    merge_offsets,
)
from workers.sink.sink_commits import (
    SinkCommits,
    build_count_keys,
    build_place_keys,
    parse_reported_files,
    read_committed_offsets,
)
from workers.sink.stale_transactions import abort_pending_transactions
from workers.sink.start_offsets import StartOffsets, TopicRange, choose_start_offsets
from workers.sink.tables import check_sink_table, has_keys_by_topic_name, has_rows
from workers.sink.topic_identity import CommittedTopics
from workers.table.table import Table
from workers.timeline.decision_lookup import find_decision
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.timeline import Timeline
from workers.write.transaction import Transaction

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkTransaction:
    """A transaction on the table, and the values for START_COMMIT."""

    start_offsets: StartOffsets
    topic_id: str
    cluster_id: str
    transaction: Transaction

    @property
    def instant(self) -> InstantTime:
        """Request time of the transaction's instant on the table."""
        return self.transaction.instant

    @property
    def offsets(self) -> Mapping[int, int]:
        """First offset of each partition of the transaction."""
        return self.start_offsets.starts

    @property
    def schema(self) -> str:
        """Avro JSON of the schema that all participants write with."""
        return self.transaction.context.schema.avro_json

    @property
    def read_at(self) -> InstantTime:
        """Completion time of the newest commit that it builds on; empty if none."""
        return self.transaction.built_on


@dataclass(slots=True)
class SinkLedger:
    """Ledger of one coordinator, for one thread. `options` are those of `sink_write_options`.

    The constructor raises InvalidInput, UnsupportedTable for a table that the sink cannot write.
    """

    table: Table
    config: SinkConfig
    epoch: Epoch
    options: WriteOptions
    _agreed: StartOffsets | None = None
    """Start offsets of partitions without a committed offset, until a commit has one."""
    _agreed_of: tuple[str, bool] = ("", False)
    """The topic's id, and whether the sink had committed. What was agreed of one topic does not
    hold for another. After a restore that undid every commit, the sink begins as at first.
    """
    _sink_commits: SinkCommits = field(init=False)
    _origins: CommittedTopics | None = field(init=False)
    """None if keys contain the ids of topic and cluster."""

    def __post_init__(self) -> None:
        check_sink_table(self.table, self.config)
        self._sink_commits = SinkCommits(self.table, self.config.sink_id)
        by_name = has_keys_by_topic_name(self.table.config)
        self._origins = CommittedTopics(self.table, self.config.topic) if by_name else None

    def load_last_commit(self) -> SinkCommit:
        """Return the newest completed commit of this sink, or an empty one.

        Raises LockTimeout, MalformedTable.
        """
        publish_decided(self.table, self.options)
        return self._sink_commits.load_newest(self.table.timeline())

    def begin(self, topic: TopicRange) -> SinkTransaction | None:
        """Roll back the sink's pending transactions, and begin an instant at the table's position.
        Return None if the topic has no records after it.

        Raises SinkFenced, LockTimeout, StorageFailed. Raises OffsetsMissing, TopicReplaced,
        OffsetExpired, InvalidInput and UnsupportedTable, which need a user's decision.
        """
        self.prepare()
        last_commit = self.load_last_commit()
        if self._origins is not None:
            self._origins.check(self.table.timeline(), topic.topic_id, topic.cluster_id)
        now_of = (topic.topic_id, bool(last_commit.offsets))
        if self._agreed_of != now_of:
            self._agreed, self._agreed_of = None, now_of
        if not last_commit.offsets and self._agreed is None and self.config.chooses_offsets:
            self._agreed = StartOffsets(
                {}, resolve_initial_offsets(self.table.storage, self.config, topic)
            )
        began = choose_start_offsets(
            self.config,
            last_commit,
            topic,
            agreed=self._agreed,
            has_rows=not last_commit.offsets and has_rows(self.table),
        )
        self._agreed = began.drop_bases()
        if not (self.config.commits_empty or began.has_records(topic)):
            return None
        return SinkTransaction(began, topic.topic_id, topic.cluster_id, self.open_transaction())

    def prepare(self) -> None:
        """Check the epoch, and roll back all open transactions of this sink.

        Raises SinkFenced, LockTimeout, StorageFailed.
        """
        if (newest := self._find_newer_epoch()) is not None:
            raise SinkFenced(
                "another coordinator has a higher epoch", **_describe_epochs(self.epoch, newest)
            )
        self._abort_pending_transactions()

    def open_transaction(self) -> Transaction:
        """Begin an instant of this sink and epoch."""
        return begin_transaction(self.table, self.config, self.options, self.epoch.number)

    def commit(self, begun: SinkTransaction, reports: Sequence[Report]) -> CommitResult:
        """Commit the files in these reports, one report of each partition. The transaction has
        ended, except after `CommitUnknown` and after a failure that can be retried.
        """
        try:
            condition = _Condition(
                self, _build_attempt(self, begun, reports), begun.start_offsets, reports
            )
            statuses, letters = parse_reported_files(begun.instant, reports)
        except LakehouseError as error:
            self.abort(begun, str(error))
            return CommitFailed(str(error))
        try:
            outcome = begun.transaction.commit(statuses, letters, condition, keeps_on_timeout=True)
        except LakehouseError as error:
            if isinstance(error, LockTimeout) and not begun.transaction.is_over:
                # Nothing is decided, so the records need not be read again.
                return CommitFailed(str(error), can_retry=True)
            return self._resolve_error(begun.instant, str(error))
        match outcome:
            case Committed(warnings=warnings):
                for warning in warnings:
                    _log.warning("committed: instant=%s warning=%s", outcome.instant, warning)
                return SinkCommitted(condition.merged)
            case Conflicted(conflict=conflict):
                return condition.stale or CommitFailed(conflict.message)
            case RolledBack(by=by, reason=reason):
                return CommitFailed(f"rolled back by {by}: {reason}")
            case Unknown(reason=reason):
                return CommitUnknown(reason)

    def settle(self, begun: SinkTransaction) -> SinkCommitted | CommitFailed | CommitUnknown:
        """Find out whether the transaction was committed. If not, rule out a later commit (KS7)."""
        instant = begun.instant
        try:
            if find_decision(self.table.storage, instant) is None:
                begun.transaction.abort("its outcome was unknown")
            publish_decided(self.table, self.options)
            match find_decision(self.table.storage, instant):
                case CommitDecision():
                    return SinkCommitted(read_committed_offsets(self.table, instant))
                case RollbackDecision(reason=reason):
                    begun.transaction.end_undone()
                    return CommitFailed(reason)
                case None:
                    return CommitUnknown("nothing could be decided yet")
        except LakehouseError as error:
            return CommitUnknown(str(error))

    def abort(self, begun: SinkTransaction, reason: str) -> None:
        """Roll the transaction back. If that fails, the next `begin` of any coordinator does it."""
        begun.transaction.abort(reason)

    def evolve(self, new_fields: str) -> None:
        """Add the fields of this Avro record as nullable columns, and missing fields to structs.
        Fields that the table has by now are skipped.

        Raises InvalidInput for fields that the table cannot have, LakehouseError if another attempt
        may succeed.
        """
        add_fields(self.table, self.options, new_fields)

    @property
    def _name(self) -> str:
        return self.table.config.name

    def _find_newer_epoch(self) -> Epoch | None:
        """Return the newest epoch if it is not this coordinator's, else None."""
        newest = read_epoch(self.table.storage, self.config.sink_id)
        if newest is None:
            raise SinkFenced(
                "the sink's epoch is gone: the table was created again", table=self._name
            )
        return None if newest.number == self.epoch.number else newest

    def _abort_pending_transactions(self) -> None:
        """Roll back the pending transactions of this coordinator and of older ones, even if their
        heartbeats have not expired.
        """
        abort_pending_transactions(
            self.table, self.options, sink_id=self.config.sink_id, epoch=self.epoch.number
        )

    def _resolve_error(self, instant: InstantTime, reason: str) -> CommitResult:
        """Return the result of a commit that raised an error, from its decision."""
        try:
            decision = find_decision(self.table.storage, instant)
        except LakehouseError as error:
            return CommitUnknown(f"{reason}; then {error}")
        if isinstance(decision, CommitDecision):
            return CommitUnknown(reason)
        return CommitFailed(reason)

    def check_attempt(self, timeline: Timeline, attempt: Attempt) -> Stale | SinkCommit:
        """Check the attempt under the table lock. Return why it is stale, or the newest commit."""
        last_commit = self.load_position(timeline)
        if isinstance(last_commit, Stale):
            return last_commit
        if stale := check_commit(last_commit, attempt):
            return stale
        if self._origins is not None:
            try:
                self._origins.check(timeline, attempt.topic_id, attempt.cluster_id)
            except TopicReplaced as replaced:
                return Stale(StaleCause.TOPIC, str(replaced))
        return last_commit

    def load_position(self, timeline: Timeline) -> Stale | SinkCommit:
        """Return the sink's newest commit, or Stale if another coordinator has a newer epoch."""
        if (newest := self._find_newer_epoch()) is not None:
            reason = f"epoch {self.epoch.number} was followed by epoch {newest.number}"
            return Stale(StaleCause.EPOCH, reason)
        return self._sink_commits.load_newest(timeline)


@dataclass(slots=True)
class _Condition:
    """Check of a commit under the table lock. It returns a conflict or the commit's metadata."""

    ledger: SinkLedger
    attempt: Attempt
    start_offsets: StartOffsets
    reports: Sequence[Report]
    stale: Stale | None = None
    merged: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, timeline: Timeline) -> Conflict | Mapping[str, str]:
        checked = self.ledger.check_attempt(timeline, self.attempt)
        if isinstance(checked, Stale):
            self.stale = checked
            return Conflict(
                kind="write",
                message=checked.reason,
                rival=None,
                writer=self.ledger.options.writer,
                rule=ConflictRule.CHECK_COMMIT,
            )
        self.stale, self.merged = None, merge_offsets(checked, self.attempt)
        place = build_place_keys(self.ledger.config, self.attempt, self.merged)
        return place | build_count_keys(self.start_offsets, self.reports)


def _build_attempt(
    ledger: SinkLedger, begun: SinkTransaction, reports: Sequence[Report]
) -> Attempt:
    """Build the attempt. Raises InvalidInput for reports of another transaction (KS5)."""
    starts = {report.partition: report.start for report in reports}
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
        cluster_id=begun.cluster_id,
        bases=begun.start_offsets.bases,
        starts=starts,
        ends={report.partition: report.end for report in reports},
    )


def _describe_epochs(ours: Epoch, newest: Epoch) -> dict[str, object]:
    return {"ours": ours.number, "newest": newest.number, "owner": newest.owner}
