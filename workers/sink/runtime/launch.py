"""Launch of a sink: the values that its workers share, and the end of each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.sink.config import SinkConfig
from workers.sink.epoch import Epoch


@dataclass(frozen=True, slots=True)
class Launch:
    """Values that the driver passes to each worker, pickled."""

    config: SinkConfig
    run_id: str
    """Without a `/`."""
    secret: bytes = field(repr=False)
    """Signs the control messages; two launches ignore each other's."""
    workers: int
    """Number of workers that share the partitions."""
    epoch_before: int
    """Epoch of the sink before the launch."""
    options: Mapping[str, str]
    """Options of writes and table services, such as those of the lock."""
    environment: Mapping[str, str] = field(repr=False)
    """The variable with the broker's password, if there is one."""

    def owner(self, worker: str) -> str:
        """Return the owner of the epoch, as it is stored next to the table."""
        return f"{self.run_id}/{worker}"

    def is_owner(self, owner: str) -> bool:
        """Check whether `owner`, from an epoch or a state, is a worker of this launch."""
        return get_run_id(owner) == self.run_id

    def is_after(self, epoch: Epoch) -> bool:
        """Check whether a later launch has taken over the sink."""
        return epoch.number > self.epoch_before and not self.is_owner(epoch.owner)


def to_run_id(operation_id: str) -> str:
    """Return the `run_id` of an operation's launch, which identifies its epochs."""
    return operation_id.replace("-", "")


def get_run_id(owner: str) -> str:
    """Return the `run_id` of the launch whose worker owns an epoch as `owner`."""
    return owner.partition("/")[0]


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """Reason why a worker or its coordinator ended. A stop is neither an error nor fenced."""

    reason: str
    is_error: bool = False
    """A restart fails until a user fixes the cause."""
    is_fenced: bool = False
    """Another coordinator has taken over."""
