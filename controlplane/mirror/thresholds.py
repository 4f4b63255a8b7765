"""Thresholds of health checks: what each means, and what it is where nobody set another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from django.conf import settings

from controlplane.mirror.event_times import AHEAD_MAX

Unit = Literal["s", "minutes", "days", "commits", "MB", "file groups", "times", "percent"]
Limits = Mapping[str, float]
"""What holds for one table, by the name of each threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    check: str
    unit: Unit
    default: float
    least: float
    most: float
    meaning: str
    """When the check is unwell, in words: "warns when ..."."""


_DAY_MINUTES: Final = 24 * 60
THRESHOLDS: Final[Mapping[str, Threshold]] = MappingProxyType(
    {
        "commit-sla": Threshold(
            check="commits",
            unit="minutes",
            default=0,
            least=0,
            most=365 * _DAY_MINUTES,
            meaning="warns when the newest commit of rows completed longer ago, is bad at twice "
            "that; 0: no check",
        ),
        "mirror-lag": Threshold(
            check="mirror",
            unit="s",
            default=120,
            least=5,
            most=7 * 86_400,
            meaning="warns when the mirror last read the table longer ago",
        ),
        "dead-write": Threshold(
            check="failed-writes",
            unit="minutes",
            default=60,
            least=1,
            most=30 * _DAY_MINUTES,
            meaning="is bad, not a warning, when a pending write without a heartbeat is older",
        ),
        "planned-service": Threshold(
            check="planned",
            unit="minutes",
            default=60,
            least=1,
            most=30 * _DAY_MINUTES,
            meaning="is bad when a planned service has waited for longer",
        ),
        "compaction-commits": Threshold(
            check="compaction",
            unit="commits",
            default=5,
            least=1,
            most=10_000,
            meaning="warns when more delta commits completed since the last compaction, is bad at "
            "four times that (Hudi's hoodie.compact.inline.max.delta.commits)",
        ),
        "clean-commits": Threshold(
            check="cleaning",
            unit="commits",
            default=30,
            least=1,
            most=10_000,
            meaning="warns when more commits completed since the last clean",
        ),
        "active-commits": Threshold(
            check="archiving",
            unit="commits",
            default=30,
            least=2,
            most=100_000,
            meaning="warns when more commits are on the active timeline, is bad at four times that "
            "while something blocks archiving (Hudi's hoodie.keep.max.commits)",
        ),
        "savepoint-age": Threshold(
            check="savepoints",
            unit="days",
            default=7,
            least=1,
            most=3650,
            meaning="warns when the oldest savepoint is older",
        ),
        "clock-ahead": Threshold(
            check="clocks",
            unit="minutes",
            default=AHEAD_MAX.total_seconds() / 60,
            least=1,
            most=30 * _DAY_MINUTES,
            meaning="is bad when an event is further ahead of this node's clock",
        ),
        "small-file": Threshold(
            check="small-files",
            unit="MB",
            default=100,
            least=0.001,
            most=100_000,
            meaning="a file group is small when its latest slice has fewer (Hudi's "
            "hoodie.parquet.small.file.limit)",
        ),
        "small-files": Threshold(
            check="small-files",
            unit="file groups",
            default=500,
            least=1,
            most=100_000_000,
            meaning="warns when more file groups are small, and most of the table's are",
        ),
        "skew": Threshold(
            check="skew",
            unit="times",
            default=20,
            least=2,
            most=1_000_000,
            meaning="warns when the largest file group is so many times the mean of all; of ten "
            "file groups at least, and only if the largest is not small",
        ),
        "write-amplification": Threshold(
            check="write-amplification",
            unit="times",
            default=50,
            least=1,
            most=1_000_000,
            meaning="warns when the commits of the active timeline, compactions and clusterings "
            "included, wrote so many times the rows that were changed (a million rows written at "
            "least)",
        ),
        "orphan-age": Threshold(
            check="orphans",
            unit="minutes",
            default=60,
            least=1,
            most=30 * _DAY_MINUTES,
            meaning="warns when markers of an instant that is no longer pending are older",
        ),
    }
)


def defaults() -> dict[str, float]:
    """What holds where nobody set anything; the mirror's lag is the node's SLUICE_STALE_AFTER_S."""
    made = {name: threshold.default for name, threshold in THRESHOLDS.items()}
    return {**made, "mirror-lag": float(settings.SLUICE_STALE_AFTER_S)}
