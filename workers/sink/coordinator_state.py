"""State of the coordinator, as a value that pages can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workers.clock import InstantTime
from workers.sink.messages import Ignored, ParticipantName, Ready, Report


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The coordinator's times and bounds."""

    interval_ms: int = 60_000
    write_timeout_ms: int = 300_000
    init_delay_ms: int = 100
    restart_delay_ms: int = 500
    """Delay after a failure. It doubles with each consecutive failure."""
    restart_delay_max_ms: int = 30_000
    interval_min_ms: int = 1_000
    """Transactions become shorter with each consecutive failure, down to this minimum."""
    idle_delay_ms: int = 1_000
    """Between checks of a topic without new records."""
    resend_ms: int = 2_000
    """Between repetitions of START or END while a participant has not answered."""
    silence_ms: int = 15_000
    """A participant without a message for this time counts as absent."""
    commit_tries: int = 3
    farewell_ms: int = 5_000
    """How long the last ACK is repeated while participants have not stopped."""
    commits_empty: bool = False


class CoordinatorName(StrEnum):
    """RFC-32's states; STOPPED and FENCED are ours."""

    INIT = "INIT"
    STARTED_COMMIT = "STARTED_COMMIT"
    ENDED_COMMIT = "ENDED_COMMIT"
    WRITE_STATUS_RCVD = "WRITE_STATUS_RCVD"
    WRITE_STATUS_TIMEDOUT = "WRITE_STATUS_TIMEDOUT"
    FAILED_COMMIT = "FAILED_COMMIT"
    ACKED_COMMIT = "ACKED_COMMIT"
    STOPPED = "STOPPED"
    FENCED = "FENCED"


class Work(StrEnum):
    """Work that the runtime was asked for and has not completed, one at a time."""

    NOTHING = "nothing"
    BEGIN = "begin"
    COMMIT = "commit"
    SETTLE = "settle"
    ABORT = "abort"
    EVOLVE = "evolve"


@dataclass(frozen=True, slots=True)
class ParticipantStatus:
    """Last reported status of the participant of one partition."""

    participant_id: str
    since_ms: int
    state: ParticipantName
    instant: InstantTime | str
    offset: int
    at_ms: int

    def can_be_replaced_by(self, ready: Ready, *, now_ms: int, silence_ms: int) -> bool:
        """Check whether the participant of `ready` replaces this one. A younger one always does, an
        older one only if this one has been silent for `silence_ms`.
        """
        if ready.sender == self.participant_id:
            return True
        is_younger = (ready.since_ms, ready.sender) > (self.since_ms, self.participant_id)
        return is_younger or now_ms - self.at_ms > silence_ms


@dataclass(frozen=True, slots=True)
class Transaction:
    """The open transaction. `offsets` is partition to first offset, `schema` Avro JSON, `read_at`
    the completion time of the newest commit that it builds on, `commits` the number of attempts to
    commit.
    """

    instant: InstantTime
    offsets: Mapping[int, int]
    schema: str
    read_at: InstantTime | str
    members: Mapping[int, str] = field(default_factory=dict)
    """Fixed when START is sent; empty before."""
    reports: Mapping[int, Report] = field(default_factory=dict)
    commits: int = 0
    is_unknown: bool = False
    """Its commit may have happened."""
    topic_id: str = ""
    cluster_id: str = ""

    @property
    def ordered_reports(self) -> tuple[Report, ...]:
        """The reports received so far, sorted by partition."""
        return tuple(self.reports[partition] for partition in sorted(self.reports))

    @property
    def is_empty(self) -> bool:
        """True if no report so far has a file or a higher offset."""
        return all(report.is_empty for report in self.reports.values())


@dataclass(frozen=True, slots=True)
class Stopping:
    """Reason of a stop, and whether the records that were read are still committed."""

    is_graceful: bool
    reason: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """Complete state of one coordinator; `coordinator.step` returns the next one."""

    coordinator_id: str
    epoch: int
    run_id: str
    """Launch of the sink that it belongs to. The participants of the launch stop with it."""
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    name: CoordinatorName = CoordinatorName.INIT
    work: Work = Work.NOTHING
    transaction: Transaction | None = None
    deadline_ms: int = 0
    """When this state times out; without a transaction, when the next one begins."""
    sent_ms: int = 0
    """When START, END or the last ACK was last published."""
    failures: int = 0
    """Number of consecutive failures."""
    deaths: int = 0
    """Number of these failures that were caused by a replaced or stopped participant."""
    reason: str = ""
    """Reason of the last failure."""
    participants: Mapping[int, ParticipantStatus] = field(default_factory=dict)
    last_instant: InstantTime | str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Offsets in the last commit of this coordinator."""
    needed_fields: str = ""
    """Fields to add once the transaction that requested them is aborted."""
    refused_fields: tuple[str, ...] = ()
    stopping: Stopping | None = None
    is_leaving: bool = False
    """Whether the last ACK was sent."""
    ignored: Mapping[Ignored, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """True if `Stopped` was the last effect."""
        return (
            self.name in (CoordinatorName.STOPPED, CoordinatorName.FENCED)
            and self.work is Work.NOTHING
        )

    @property
    def interval_ms(self) -> int:
        """Duration of the next transaction's reading. If transactions fail repeatedly, one of full
        length may never complete, but a shorter one may.
        """
        shorter = self.settings.interval_ms >> min(self.failures, 20)
        return max(shorter, min(self.settings.interval_ms, self.settings.interval_min_ms))

    def find_participant(self, partition: int, now_ms: int) -> ParticipantStatus | None:
        """Return the status of the partition's participant, or None if it is absent."""
        status = self.participants.get(partition)
        if status is None or status.state is ParticipantName.STOPPED:
            return None
        return status if now_ms - status.at_ms <= self.settings.silence_ms else None

    def list_absent(self, now_ms: int) -> list[int]:
        """Return the partitions of the transaction without a participant, for which START waits."""
        partitions = self.transaction.offsets if self.transaction else ()
        return [
            partition
            for partition in sorted(partitions)
            if self.find_participant(partition, now_ms) is None
        ]

    def list_missing(self) -> list[int]:
        """Return the partitions of the transaction without a report."""
        if self.transaction is None:
            return []
        return sorted(self.transaction.offsets.keys() - self.transaction.reports.keys())

    def has_joined(self, partition: int) -> bool:
        """Check whether the partition's member has confirmed START."""
        status, transaction = self.participants.get(partition), self.transaction
        return (
            status is not None
            and transaction is not None
            and status.participant_id == transaction.members.get(partition)
            and status.instant == transaction.instant
        )
