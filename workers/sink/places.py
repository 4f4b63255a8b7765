"""Where a sink keeps what is no row and no commit: `.hoodie/.sluice/sink/<id>/`."""

from __future__ import annotations

from dataclasses import dataclass

from workers.storage.base import Storage
from workers.table_layout import SINKS


@dataclass(frozen=True, slots=True)
class SinkPlaces:
    """The paths of one sink, relative to the table."""

    sink_id: str

    @property
    def directory(self) -> str:
        """Holds all the others."""
        return SINKS.file(self.sink_id)

    @property
    def epoch(self) -> str:
        """See `workers.sink.epoch`."""
        return f"{self.directory}/epoch"

    @property
    def first_look(self) -> str:
        """See `workers.sink.first_look`."""
        return f"{self.directory}/first-look"

    @property
    def stop(self) -> str:
        """See `workers.sink.stop_request`."""
        return f"{self.directory}/stop"

    @property
    def state(self) -> str:
        """See `workers.sink.state_file`."""
        return f"{self.directory}/state.json"

    @property
    def replays(self) -> str:
        """A directory; see `workers.sink.replays`."""
        return f"{self.directory}/replays"


def sink_ids(storage: Storage) -> list[str]:
    """Every sink that ever ran on the table, sorted."""
    return [path.rpartition("/")[2] for path in storage.list_directories(SINKS.path)]
