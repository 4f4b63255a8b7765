"""Where a sink goes on, set by a person: shown first, then one commit without rows.

The commit carries the offsets like those of any transaction, so whoever runs the sink next begins
there, and a restore of the table takes it back. Rows that stand are left alone: in an append-only
table a record that is read again is the same row again, and one of a topic that took the name of
another is a row of its own. A coordinator that runs meanwhile is fenced by the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput, LakehouseError, OffsetsMissing, PlanChanged
from workers.sink.beginning import Beginning, TopicRange
from workers.sink.commit_facts import count_keys, place_keys
from workers.sink.config import SinkConfig, sink_config
from workers.sink.context import sink_write_options
from workers.sink.coordinator_state import CoordinatorName
from workers.sink.epoch import acquire_epoch
from workers.sink.ledger import SinkLedger
from workers.sink.offsets import Attempt, SinkCommit, Stale
from workers.sink.origins import CommittedOrigins
from workers.sink.sink_commits import SinkCommits
from workers.sink.state_file import read_state
from workers.sink.tables import check_sink_table, has_keys_by_topic_name
from workers.table.table import Table
from workers.timeline.timeline import Timeline

RESET_KEY = "hoodie.sink.reset.by"
"""Whose reset a commit is; those that rows came with have none."""
_START = "hoodie.kafka.start.offsets"
RUNS_WITHIN_MS = 15_000
"""A coordinator says every two seconds that it is there."""


@dataclass(frozen=True, slots=True)
class PartitionReset:
    """One partition of a reset: where the table stands, where it is to go on, and what the topic
    has.
    """

    partition: int
    stands: int | None
    """Of the table now; None where it has none of this partition."""
    next: int
    first: int
    """That the topic still has."""
    end: int


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset would do, for a person to look at; `partitions` are the topic's, sorted."""

    last_commit: SinkCommit
    topic_id: str
    cluster_id: str
    partitions: tuple[PartitionReset, ...]
    gone: tuple[int, ...]
    """Partitions that the table has offsets of and the topic has not."""

    @property
    def is_same_topic(self) -> bool:
        """Whether the table's offsets are of the topic that has the name now."""
        return self.last_commit.topic_id == self.topic_id

    @property
    def offsets(self) -> dict[int, int]:
        """Partition to the next offset to read, as the reset commits it."""
        return {one.partition: one.next for one in self.partitions}

    @property
    def read_again(self) -> int:
        """Records that are in the table already."""
        if not self.is_same_topic:
            return 0
        return sum(
            max(0, min(one.stands, one.end) - one.next)
            for one in self.partitions
            if one.stands is not None
        )

    @property
    def passed_over(self) -> int:
        """Records that the topic has, the table has not, and nobody will read."""
        return sum(max(0, one.next - self._unread_from(one)) for one in self.partitions)

    @property
    def lost(self) -> dict[int, tuple[int, int]]:
        """Partition to the offsets, the last one exclusive, that the topic lost unread."""
        since = {
            one.partition: one.stands or 0 if self.is_same_topic else 0 for one in self.partitions
        }
        firsts = {one.partition: one.first for one in self.partitions}
        return {one: (at, firsts[one]) for one, at in since.items() if at < firsts[one]}

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
    """`to` is earliest, latest or the next offset of each partition; nothing is changed.

    Raises InvalidInput for offsets that the topic does not have, and while the sink runs;
    OffsetsMissing where it has committed nothing; TopicReplaced where the topic's records would
    take the place of rows.
    """
    check_sink_table(table, config)
    _check_stopped(table, config)
    timeline = table.timeline()
    if has_keys_by_topic_name(table.config):
        origins = CommittedOrigins(table, config.topic)
        origins.check(timeline, topic.topic_id, topic.cluster_id)
    last_commit = SinkCommits(table, config.sink_id).newest(timeline)
    if not last_commit.offsets:
        raise OffsetsMissing(
            "the sink has committed nothing, so it begins where hoodie.kafka.start.offsets says",
            sink=config.sink_id,
        )
    if isinstance(to, Mapping) and (strange := sorted(to.keys() - topic.watermarks.keys())):
        raise InvalidInput("the topic has no such partitions", partitions=strange)
    partitions = tuple(
        PartitionReset(one, last_commit.offsets.get(one), _next(to, one, ends), *ends)
        for one, ends in sorted(topic.watermarks.items())
    )
    gone = tuple(sorted(last_commit.offsets.keys() - topic.watermarks.keys()))
    return ResetPlan(last_commit, topic.topic_id, topic.cluster_id, partitions, gone)


def reset_offsets(table: Table, config: SinkConfig, plan: ResetPlan, *, by: str) -> InstantTime:
    """Commit the plan; the commit's instant.

    Raises PlanChanged where the sink stands elsewhere than when the plan was made, InvalidInput
    while it runs, SinkFenced, LockTimeout; LakehouseError where it is not certain whether it was
    committed: the next plan tells.
    """
    _check_stopped(table, config)
    epoch = acquire_epoch(table.storage, config.sink_id, table.ports, owner=f"reset by {by}")
    options = sink_write_options(config, table.storage.location)
    ledger = SinkLedger(table, config, epoch, options)
    ledger.prepare()
    transaction = ledger.opened()
    outcome = transaction.commit([], condition=_Condition(ledger, plan, by))
    match outcome:
        case Committed(instant=instant):
            return instant
        case Conflicted(conflict=conflict):
            raise PlanChanged(conflict.message, sink=config.sink_id)
        case _:
            raise LakehouseError(
                "the offsets may not have been reset; look at the plan again",
                outcome=type(outcome).__name__,
            )


@dataclass(frozen=True, slots=True)
class _Condition:
    """Asked under the table lock: the plan holds only where the sink stands as it says."""

    ledger: SinkLedger
    plan: ResetPlan
    by: str

    def __call__(self, timeline: Timeline) -> Conflict | Mapping[str, str]:
        stands = self.ledger.stands(timeline)
        if isinstance(stands, Stale):
            return self._refused(stands.reason)
        if stands != self.plan.last_commit:
            return self._refused("the sink has committed since the plan was made; look again")
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
        keys = place_keys(config, attempt, offsets) | count_keys(
            Beginning({}, offsets, self.plan.lost), ()
        )
        return keys | {RESET_KEY: self.by}

    def _refused(self, reason: str) -> Conflict:
        writer = self.ledger.options.writer
        return Conflict("write", reason, None, writer=writer, rule=ConflictRule.PLAN_RESET)


def reset_target(text: str) -> str | Mapping[int, int]:
    """What is written for `to`. Raises InvalidInput."""
    if not text.startswith("{"):
        return text
    return sink_config({"hoodie.kafka.topic": "any", _START: text}).start_offsets


def _next(to: str | Mapping[int, int], partition: int, ends: tuple[int, int]) -> int:
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
    shown = read_state(table.storage, config.sink_id)
    if shown is None or shown.state in (CoordinatorName.STOPPED, CoordinatorName.FENCED):
        return
    if table.ports.clock.now_ms() - shown.updated_ms < RUNS_WITHIN_MS:
        raise InvalidInput("the sink runs; stop it first", sink=config.sink_id, owner=shown.owner)
