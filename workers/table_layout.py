"""The places of all files below `.hoodie`, with the guarantee of each after a power failure.

Paths are relative to the table. Places outside of `.sluice` are Hudi's (format page 1 and 2); files
in `.hoodie/.sluice` are ours, and other engines ignore them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workers.durability import Durability

HOODIE: Final = ".hoodie"
_OURS: Final = f"{HOODIE}/.sluice"


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or a directory whose files all have the same guarantee."""

    path: str
    durability: Durability = Durability.DURABLE

    def file(self, name: str) -> str:
        """Return the path of the file with this name in the directory."""
        return f"{self.path}/{name}"


PROPERTIES: Final = Place(f"{HOODIE}/hoodie.properties")
PROPERTIES_BACKUP: Final = Place(f"{HOODIE}/hoodie.properties.backup")
METADATA_TABLE: Final = Place(f"{HOODIE}/metadata")
"""Apache Hudi's; Sluice keeps none."""
BUCKET_INDEX: Final = Place(f"{HOODIE}/.bucket_index")
"""Of consistent hashing, which Sluice does not write."""

TIMELINE: Final = Place(f"{HOODIE}/timeline")
TIMELINE_V1: Final = Place(HOODIE)
"""Until table version 6; its archive is a folder that the properties name."""
HISTORY: Final = Place(f"{TIMELINE.path}/history")

MARKERS: Final = Place(f"{HOODIE}/.temp")
"""A directory for each instant."""
STAGED_ROWS: Final = Place(MARKERS.path, Durability.SCRATCH)
"""Rows on their way to their file groups, next to the markers of their instant."""
STAGED_FRAMES: Final = Place(f"{MARKERS.path}/sluice-staging", Durability.SCRATCH)
"""What Spark's data source collects before the write begins."""

HEARTBEATS: Final = Place(f"{HOODIE}/.heartbeat", Durability.LIVENESS)
LOCK: Final = Place(f"{HOODIE}/.locks/table_lock.json", Durability.LIVENESS)
LOCK_WAITERS: Final = Place(f"{HOODIE}/.locks/waiting", Durability.LIVENESS)
"""The waiting writers, for people, and only while some wait."""
LOCK_BINDING: Final = Place(f"{_OURS}/lock_provider.json")

DECISIONS: Final = Place(f"{_OURS}/decision")
DECIDED_METADATA: Final = Place(f"{_OURS}/metadata")
SETTLED_METADATA: Final = Place(DECIDED_METADATA.path, Durability.SCRATCH)
"""The same once the instant is published: the next writer sweeps what comes back."""
ARCHIVED_BEFORE: Final = Place(f"{_OURS}/archived_before")
ARCHIVED_WRITES: Final = Place(f"{_OURS}/archived_writes")
HISTORY_FILES: Final = Place(f"{_OURS}/history_files")
LOST_WRITES: Final = Place(f"{_OURS}/lost_writes")
LATE_WRITERS: Final = Place(f"{_OURS}/writing")
OVERTAKEN: Final = Place(f"{_OURS}/overtaken")
UNORDERED: Final = Place(f"{_OURS}/unordered")
SINKS: Final = Place(f"{_OURS}/sink")
REPAIR: Final = Place(f"{_OURS}/repair")
ROLLBACK_PLANS: Final = Place(f"{_OURS}/rollback_plans")
"""The plans to roll several instants back, while they are executed."""
