"""How a table's file groups are spread: sizes in bins, and which partitions the last writes
touched. Never touches storage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Q

from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime

_MB = 1_000_000
_EDGES = (0, 100_000, _MB, 8 * _MB, 32 * _MB, 64 * _MB, 128 * _MB, 256 * _MB, 1024 * _MB)
_NAMES = (
    "under 100 kB", "under 1 MB", "1 to 8 MB", "8 to 32 MB", "32 to 64 MB", "64 to 128 MB",
    "128 to 256 MB", "256 MB to 1 GB", "over 1 GB",
)  # fmt: skip
INSTANTS_SHOWN = 60
PARTITIONS_SHOWN = 40


@dataclass(frozen=True, slots=True)
class SizeBin:
    name: str
    file_groups: int


@dataclass(frozen=True, slots=True)
class WriteHeat:
    """Bytes that each of the last writes wrote, by partition."""

    partitions: tuple[str, ...]
    """Those that were written most, by path."""
    instants: tuple[InstantTime, ...]
    """Oldest first."""
    bytes: tuple[tuple[int, ...], ...]
    """`bytes[partition][instant]`"""


def size_bins(table: Table) -> list[SizeBin]:
    """Live file groups by the bytes of their latest slice. One query."""
    uppers = (*_EDGES[1:], None)
    conditions = {
        f"bin_{at}": Count(
            "pk", filter=Q(bytes__gte=low) & (Q(bytes__lt=high) if high is not None else Q())
        )
        for at, (low, high) in enumerate(zip(_EDGES, uppers, strict=True))
    }
    counts = FileGroupRecord.objects.filter(table=table, is_replaced=False).aggregate(**conditions)
    return [SizeBin(name, counts[f"bin_{at}"]) for at, name in enumerate(_NAMES)]


def write_heat(table: Table) -> WriteHeat:
    """Where the last completed writes went. One query."""
    writes = (
        InstantRecord.objects.filter(table=table, state="completed", action__in=DATA_ACTIONS)
        .filter(metadata__has_key="partition_bytes")
        .order_by("-requested_at")
        .values_list("requested_at", "metadata__partition_bytes")[:INSTANTS_SHOWN]
    )
    touched = [(at, Counter(sizes)) for at, sizes in writes if sizes]
    touched.reverse()
    totals: Counter[str] = Counter()
    for _, counted in touched:
        totals.update(counted)
    names = sorted(name for name, _ in totals.most_common(PARTITIONS_SHOWN))
    return WriteHeat(
        partitions=tuple(names),
        instants=tuple(at for at, _ in touched),
        bytes=tuple(tuple(counted[name] for _, counted in touched) for name in names),
    )
