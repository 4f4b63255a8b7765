"""What the coordinator knows: a value that a page can show."""

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
    """After a failure; doubles with each one in a row."""
    restart_delay_max_ms: int = 30_000
    interval_least_ms: int = 1_000
    """Transactions become shorter with each failure in a row, down to this."""
    idle_delay_ms: int = 1_000
    """Between looks at a topic that has nothing new."""
    resend_ms: int = 2_000
    """Between repetitions of START or END while somebody has not followed."""
    silence_ms: int = 15_000
    """A participant that was not heard for so long is not counted on."""
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
    """What the runtime was asked for and has not answered yet; one thing at a time."""

    NOTHING = "nothing"
    BEGIN = "begin"
    COMMIT = "commit"
    SETTLE = "settle"
    ABORT = "abort"
    EVOLVE = "evolve"


@dataclass(frozen=True, slots=True)
class Seen:
    """The participant of one partition, as it last reported itself."""

    participant_id: str
    since_ms: int
    state: ParticipantName
    instant: InstantTime | str
    offset: int
    at_ms: int

    def gives_way_to(self, ready: Ready, *, now_ms: int, silence_ms: int) -> bool:
        """A younger one has replaced it; an older one is heard only when this has fallen silent."""
        if ready.sender == self.participant_id:
            return True
        is_younger = (ready.since_ms, ready.sender) > (self.since_ms, self.participant_id)
        return is_younger or now_ms - self.at_ms > silence_ms


@dataclass(frozen=True, slots=True)
class Transaction:
    """The open transaction. `offsets` is partition to where it begins, `schema` Avro JSON,
    `read_at` the completion time of the newest commit that it builds on, `commits` how often a
    commit was tried.
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
        """By partition, each once; only those that have come so far."""
        return tuple(self.reports[one] for one in sorted(self.reports))

    @property
    def is_empty(self) -> bool:
        """Whether no report so far brings a file or moves an offset."""
        return all(one.is_empty for one in self.reports.values())


@dataclass(frozen=True, slots=True)
class Stopping:
    """Why the coordinator begins nothing more, and whether it still commits what was read."""

    is_graceful: bool
    reason: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """All that one coordinator knows; `coordinator.step` makes the next state from it."""

    coordinator_id: str
    epoch: int
    run_id: str
    """Which launch of the sink it belongs to; when it stops, so do the participants of that."""
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    name: CoordinatorName = CoordinatorName.INIT
    work: Work = Work.NOTHING
    transaction: Transaction | None = None
    deadline_ms: int = 0
    """When this state ends by itself; without a transaction, when the next one begins."""
    sent_ms: int = 0
    """When START, END or the last ACK was published, last."""
    failures: int = 0
    """In a row."""
    deaths: int = 0
    """Of these failures, those because a participant was replaced or stopped."""
    reason: str = ""
    """Of the last failure."""
    participants: Mapping[int, Seen] = field(default_factory=dict)
    last_instant: InstantTime | str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Of the last commit of this coordinator."""
    needed_fields: str = ""
    """To be added once the transaction that asked for them is aborted."""
    refused_fields: tuple[str, ...] = ()
    stopping: Stopping | None = None
    is_leaving: bool = False
    """The last ACK is out."""
    ignored: Mapping[Ignored, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """`Stopped` was the last effect."""
        return (
            self.name in (CoordinatorName.STOPPED, CoordinatorName.FENCED)
            and self.work is Work.NOTHING
        )

    @property
    def interval_ms(self) -> int:
        """How long the next transaction reads. Where something fails again and again, a transaction
        of full length may never come to its end; a shorter one may.
        """
        shorter = self.settings.interval_ms >> min(self.failures, 20)
        return max(shorter, min(self.settings.interval_ms, self.settings.interval_least_ms))

    def present(self, partition: int, now_ms: int) -> Seen | None:
        """The participant that can be counted on."""
        seen = self.participants.get(partition)
        if seen is None or seen.state is ParticipantName.STOPPED:
            return None
        return seen if now_ms - seen.at_ms <= self.settings.silence_ms else None

    def absent(self, now_ms: int) -> list[int]:
        """Partitions of the transaction for which START waits."""
        partitions = self.transaction.offsets if self.transaction else ()
        return [one for one in sorted(partitions) if self.present(one, now_ms) is None]

    def missing(self) -> list[int]:
        """Partitions of the transaction that have not reported."""
        if self.transaction is None:
            return []
        return sorted(self.transaction.offsets.keys() - self.transaction.reports.keys())

    def has_joined(self, partition: int) -> bool:
        """Whether the partition's member says that it got START."""
        seen, transaction = self.participants.get(partition), self.transaction
        return (
            seen is not None
            and transaction is not None
            and seen.participant_id == transaction.members.get(partition)
            and seen.instant == transaction.instant
        )
