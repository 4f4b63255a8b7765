"""What the newest writes cost: how many rows they were brought or changed, and how many they had to
write for it into files. Reads of the mirror, one query; never touches storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.mirror.density import lane_name
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime

_REWRITES = frozenset({"compaction", "logcompaction", "clustering"})
WRITES_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCost:
    """One completed write."""

    instant: InstantTime
    lane: str
    """What was done: deltacommit, compaction and so on."""
    changed: int
    """Rows that are new, changed or deleted by it; 0 of what rewrites rows that were there."""
    written: int
    """Rows in the files that it wrote."""
    bytes: int

    @property
    def is_rewrite(self) -> bool:
        return self.lane in _REWRITES


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCost:
    """The writes of one kind, added up."""

    lane: str
    writes: int
    changed: int
    written: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCosts:
    writes: list[WriteCost]
    """Oldest first, the newest sixty that say it."""
    lanes: list[LaneCost]
    """The most written first."""

    @property
    def amplification(self) -> float | None:
        """Rows written into files for each row that was changed; None where none was."""
        changed = sum(lane.changed for lane in self.lanes)
        return sum(lane.written for lane in self.lanes) / changed if changed else None

    @property
    def rewritten_pct(self) -> float | None:
        """How much of the bytes compactions and clusterings wrote."""
        every = sum(lane.bytes for lane in self.lanes)
        rewritten = sum(lane.bytes for lane in self.lanes if lane.lane in _REWRITES)
        return 100 * rewritten / every if every else None


def write_costs(table: Table) -> WriteCosts:
    """What the newest completed writes cost; one query."""
    newest = (
        InstantRecord.objects.filter(table=table, state="completed", action__in=DATA_ACTIONS)
        .filter(metadata__has_key="writes")
        .order_by("-requested_at")
        .values_list("requested_at", "action", "operation_type", "bytes", "metadata")
    )
    writes = [
        _cost(instant, lane_name(action, operation_type), size or 0, facts)
        for instant, action, operation_type, size, facts in newest[:WRITES_SHOWN]
    ]
    writes = [write for write in reversed(writes) if write.changed or write.written]
    return WriteCosts(writes=writes, lanes=_lanes(writes))


def _cost(instant: InstantTime, lane: str, size: int, facts: Mapping[str, Any]) -> WriteCost:
    changed = sum(int(facts.get(name) or 0) for name in ("inserts", "updates", "deletes"))
    return WriteCost(
        instant=instant,
        lane=lane,
        changed=0 if lane in _REWRITES else changed,
        written=int(facts.get("writes") or 0),
        bytes=size,
    )


def _lanes(writes: Sequence[WriteCost]) -> list[LaneCost]:
    names = dict.fromkeys(write.lane for write in writes)
    sums = [
        LaneCost(
            lane=name,
            writes=len(own),
            changed=sum(write.changed for write in own),
            written=sum(write.written for write in own),
            bytes=sum(write.bytes for write in own),
        )
        for name in names
        for own in ([write for write in writes if write.lane == name],)
    ]
    return sorted(sums, key=lambda lane: -lane.written)
