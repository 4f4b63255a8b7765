"""Reset of a sink's offsets by a user: a plan first, then one commit without rows.

The commit contains the offsets like any transaction. So the next coordinator begins there, and a
restore of the table undoes the reset. Existing rows do not change. In an append-only table a record
that is read again is the same row, and a record of another topic with the same name is a separate
row. The epoch fences a coordinator that runs at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput, LakehouseError, OffsetsMissing, PlanChanged
from workers.sink.config import SinkConfig, sink_config
from workers.sink.context import sink_write_options
from workers.sink.coordinator_state import CoordinatorName
from workers.sink.epoch import acquire_epoch
from workers.sink.ledger import SinkLedger
from workers.sink.offsets import Attempt, SinkCommit, Stale
from workers.sink.sink_commits import SinkCommits, build_count_keys, build_place_keys
from workers.sink.start_offsets import StartOffsets, TopicRange
from workers.sink.state_file import read_state
from workers.sink.tables import check_sink_table, has_keys_by_topic_name
from workers.sink.topic_identity import CommittedTopics
from workers.table.table import Table
from workers.timeline.timeline import Timeline

RESET_KEY = "hoodie.sink.reset.by"
"""User of the reset. Commits with rows do not have this key."""
_START = "hoodie.kafka.start.offsets"
RUNS_WITHIN_MS = 15_000
"""Age of the state after which the coordinator has stopped. It reports every two seconds."""


@dataclass(frozen=True, slots=True)
class PartitionReset:
    """One partition of a reset: the committed offset, the new one, and the topic's range."""

    partition: int
    stands: int | None
    """Committed next offset; None if the partition has none."""
    next: int
    first: int
    """First offset that the topic still has."""
    end: int


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """Effect of a reset, for review. `partitions` are those of the topic, sorted."""

    last_commit: SinkCommit
    topic_id: str
    cluster_id: str
    partitions: tuple[PartitionReset, ...]
    missing_partitions: tuple[int, ...]
    """Partitions that have a committed offset and are not in the topic."""

    @property
    def is_same_topic(self) -> bool:
        """True if the committed offsets belong to the topic that has the name now."""
        return self.last_commit.topic_id == self.topic_id

    @property
    def offsets(self) -> dict[int, int]:
        """Partition to the next offset to read, as the reset commits it."""
        return {partition.partition: partition.next for partition in self.partitions}

    @property
    def read_again(self) -> int:
        """Number of records that are in the table and will be read again."""
        if not self.is_same_topic:
            return 0
        return sum(
            max(0, min(partition.stands, partition.end) - partition.next)
            for partition in self.partitions
            if partition.stands is not None
        )

    @property
    def passed_over(self) -> int:
        """Number of records of the topic that are not in the table and will not be read."""
        return sum(
            max(0, partition.next - self._unread_from(partition)) for partition in self.partitions
        )

    @property
    def lost(self) -> dict[int, tuple[int, int]]:
        """Partition to the range of offsets (end exclusive) that the topic lost unread."""
        since = {
            each.partition: each.stands or 0 if self.is_same_topic else 0
            for each in self.partitions
        }
        firsts = {each.partition: each.first for each in self.partitions}
        return {
            partition: (at, firsts[partition])
            for partition, at in since.items()
            if at < firsts[partition]
        }

    def _unread_from(self, partition: PartitionReset) -> int:
        stands = (
            partition.stands
            if self.is_same_topic and partition.stands is not None
            else partition.first
        )
        return max(stands, partition.first)


def plan_reset(
    table: Table, config: SinkConfig, topic: TopicRange, to: str | Mapping[int, int]
) -> ResetPlan:
    """Plan a reset to `to`: earliest, latest or the next offset of each partition. Nothing changes.

    Raises InvalidInput for offsets that the topic does not have, and while the sink runs. Raises
    OffsetsMissing if it has committed nothing, TopicReplaced if the topic's records would overwrite
    rows.
    """
    check_sink_table(table, config)
    _check_stopped(table, config)
    timeline = table.timeline()
    if has_keys_by_topic_name(table.config):
        origins = CommittedTopics(table, config.topic)
        origins.check(timeline, topic.topic_id, topic.cluster_id)
    last_commit = SinkCommits(table, config.sink_id).load_newest(timeline)
    if not last_commit.offsets:
        raise OffsetsMissing(
            "the sink has committed nothing, so it begins at hoodie.kafka.start.offsets",
            sink=config.sink_id,
        )
    if isinstance(to, Mapping) and (strange := sorted(to.keys() - topic.watermarks.keys())):
        raise InvalidInput("the topic has no such partitions", partitions=strange)
    partitions = tuple(
        PartitionReset(at, last_commit.offsets.get(at), _choose_next(to, at, ends), *ends)
        for at, ends in sorted(topic.watermarks.items())
    )
    missing = tuple(sorted(last_commit.offsets.keys() - topic.watermarks.keys()))
    return ResetPlan(last_commit, topic.topic_id, topic.cluster_id, partitions, missing)


def reset_offsets(table: Table, config: SinkConfig, plan: ResetPlan, *, by: str) -> InstantTime:
    """Commit the plan, and return the commit's instant.

    Raises PlanChanged if the sink's position changed since the plan was made, InvalidInput while
    the sink runs, SinkFenced, LockTimeout. Raises LakehouseError if the outcome is unknown: the
    next plan shows it.
    """
    _check_stopped(table, config)
    epoch = acquire_epoch(table.storage, config.sink_id, table.ports, owner=f"reset by {by}")
    options = sink_write_options(config, table.storage.location)
    ledger = SinkLedger(table, config, epoch, options)
    ledger.prepare()
    transaction = ledger.open_transaction()
    outcome = transaction.commit([], condition=_Condition(ledger, plan, by))
    match outcome:
        case Committed(instant=instant):
            return instant
        case Conflicted(conflict=conflict):
            raise PlanChanged(conflict.message, sink=config.sink_id)
        case _:
            raise LakehouseError(
                "the offsets may not have been reset; check the plan again",
                outcome=type(outcome).__name__,
            )


@dataclass(frozen=True, slots=True)
class _Condition:
    """Check under the table lock: the plan is valid only at the position that it was made for."""

    ledger: SinkLedger
    plan: ResetPlan
    by: str

    def __call__(self, timeline: Timeline) -> Conflict | Mapping[str, str]:
        position = self.ledger.load_position(timeline)
        if isinstance(position, Stale):
            return self._build_conflict(position.reason)
        if position != self.plan.last_commit:
            return self._build_conflict(
                "the sink has committed since the plan was made; look again"
            )
        config, offsets = self.ledger.config, self.plan.offsets
        attempt = Attempt(
            epoch=self.ledger.epoch.number,
            topic=config.topic,
            topic_id=self.plan.topic_id,
            bases={},
            starts=offsets,
            ends=offsets,
            cluster_id=self.plan.cluster_id,
        )
        keys = build_place_keys(config, attempt, offsets) | build_count_keys(
            StartOffsets({}, offsets, self.plan.lost), ()
        )
        return keys | {RESET_KEY: self.by}

    def _build_conflict(self, reason: str) -> Conflict:
        writer = self.ledger.options.writer
        return Conflict("write", reason, None, writer=writer, rule=ConflictRule.PLAN_RESET)


def parse_reset_target(text: str) -> str | Mapping[int, int]:
    """Parse the text of a reset's target. Raises InvalidInput."""
    if not text.startswith("{"):
        return text
    return sink_config({"hoodie.kafka.topic": "any", _START: text}).start_offsets


def _choose_next(to: str | Mapping[int, int], partition: int, ends: tuple[int, int]) -> int:
    first, end = ends
    if to == "earliest":
        return first
    if to == "latest":
        return end
    if isinstance(to, str):
        raise InvalidInput('a sink is reset to earliest, latest or {"0": 17, "1": 4}', given=to)
    if partition not in to:
        raise InvalidInput("no offset is given for a partition", partition=partition)
    if not first <= to[partition] <= end:
        raise InvalidInput(
            "the topic does not have this offset",
            partition=partition,
            given=to[partition],
            first=first,
            end=end,
        )
    return to[partition]


def _check_stopped(table: Table, config: SinkConfig) -> None:
    state = read_state(table.storage, config.sink_id)
    if state is None or state.state in (CoordinatorName.STOPPED, CoordinatorName.FENCED):
        return
    if table.ports.clock.now_ms() - state.updated_ms < RUNS_WITHIN_MS:
        raise InvalidInput("the sink runs; stop it first", sink=config.sink_id, owner=state.owner)
