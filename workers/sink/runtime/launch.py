"""One launch of a sink: what all its workers have in common, and how each of them ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.sink.config import SinkConfig
from workers.sink.epoch import Epoch


@dataclass(frozen=True, slots=True)
class Launch:
    """What the driver hands to each worker; pickled on the way."""

    config: SinkConfig
    run_id: str
    """Without a `/`."""
    secret: bytes = field(repr=False)
    """Signs the control messages; two launches ignore each other's."""
    workers: int
    """How many share the partitions."""
    epoch_before: int
    """Of the sink when this was launched."""
    options: Mapping[str, str]
    """Of writes and table services: those of the lock, for instance."""
    environment: Mapping[str, str] = field(repr=False)
    """The variable that holds the broker's password, where there is one."""

    def owner(self, worker: str) -> str:
        """Who holds the epoch, as it is written beside the table."""
        return f"{self.run_id}/{worker}"

    def is_owner(self, owner: str) -> bool:
        """Whether `owner`, as an epoch or a state names it, is a worker of this launch."""
        return launch_of(owner) == self.run_id

    def is_after(self, epoch: Epoch) -> bool:
        """Whether a later launch holds the sink."""
        return epoch.number > self.epoch_before and not self.is_owner(epoch.owner)


def launch_id(operation_id: str) -> str:
    """The `run_id` of the one launch that an operation makes, by which its epochs are known."""
    return operation_id.replace("-", "")


def launch_of(owner: str) -> str:
    """The `run_id` of the launch whose worker this owner of an epoch is."""
    return owner.partition("/")[0]


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """Why a worker or its coordinator ended; neither an error nor fenced after a stop."""

    reason: str
    is_error: bool = False
    """Starting again is in vain until somebody does something."""
    is_fenced: bool = False
    """Another coordinator has taken over."""
