"""Paths of the files that a sink stores below `.hoodie/.sluice/sink/<id>/`."""

from __future__ import annotations

from dataclasses import dataclass

from workers.storage.base import Storage
from workers.table_layout import SINKS


@dataclass(frozen=True, slots=True)
class SinkPaths:
    """Paths of one sink, relative to the table."""

    sink_id: str

    @property
    def directory(self) -> str:
        """Directory of all other paths."""
        return SINKS.file(self.sink_id)

    @property
    def epoch(self) -> str:
        """File of `workers.sink.epoch`."""
        return f"{self.directory}/epoch"

    @property
    def initial_offsets(self) -> str:
        """File of `workers.sink.initial_offsets`."""
        return f"{self.directory}/first-look"

    @property
    def stop(self) -> str:
        """File of `workers.sink.stop_request`."""
        return f"{self.directory}/stop"

    @property
    def state(self) -> str:
        """File of `workers.sink.state_file`."""
        return f"{self.directory}/state.json"

    @property
    def replays(self) -> str:
        """Directory of `workers.sink.replays`."""
        return f"{self.directory}/replays"


def list_sink_ids(storage: Storage) -> list[str]:
    """Return the ids of all sinks that ever ran on the table, sorted."""
    return [path.rpartition("/")[2] for path in storage.list_directories(SINKS.path)]
