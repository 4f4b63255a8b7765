"""When the files of an instant's states were made, as the active timeline's listing shows it."""

from __future__ import annotations

from collections.abc import Mapping

from workers.clock import InstantTime
from workers.table import table as engine
from workers.timeline.instant import Action, Instant

PhaseKey = tuple[InstantTime, Action]
"""(requested time, the action that it completes as): all states of an instant have the same."""


def file_times(opened: engine.Table) -> Mapping[PhaseKey, Mapping[str, int]]:
    """Epoch ms by state, by the storage's clock. A completed file of no bytes completes nothing and
    is left out. Raises StorageFailed.
    """
    times: dict[PhaseKey, dict[str, int]] = {}
    for file in opened.storage.list_files(opened.layout.directory):
        instant = opened.layout.parse(file.name)
        if instant is not None and (file.size or not instant.is_completed):
            times.setdefault(phase_key(instant), {})[instant.state.value] = file.modified_ms
    return times


def phase_key(instant: Instant) -> PhaseKey:
    return instant.requested_at, instant.action.completes_as
