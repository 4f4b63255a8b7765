"""Settings of early conflict detection: how a write searches for rivals while it runs.

Names and defaults are Hudi's (requirements 4.4 and 4.5). Values only; `workers.markers` does the
search.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workers.errors import InvalidInput

PERIOD_MS = 30_000


class EarlyStrategy(StrEnum):
    """Hudi's class names."""

    TRANSACTIONAL_DIRECT = (
        "org.apache.hudi.table.marker.SimpleTransactionDirectMarkerBasedDetectionStrategy"
    )
    """Looked for under the table lock, which is held until the markers are there."""
    SIMPLE_DIRECT = "org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy"
    ASYNCHRONOUS = (
        "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy"
    )
    """Looked for by the marker server, every period."""

    @property
    def is_direct(self) -> bool:
        """True if it belongs to direct markers; the asynchronous strategy belongs to the marker
        server.
        """
        return self is not EarlyStrategy.ASYNCHRONOUS

    @property
    def short_name(self) -> str:
        """Hudi's class name without its package."""
        return self.value.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class EarlyDetection:
    """The search of a write for rivals before it commits (requirements 4.4)."""

    strategy: EarlyStrategy
    checks_commits: bool = False
    """Also meet what was completed since the write began, not only markers of live writers."""
    initial_delay_ms: int = 0
    period_ms: int = PERIOD_MS


def strategy_named(text: str, *, with_direct_markers: bool) -> EarlyStrategy:
    """Return the strategy with this class name, with or without its package; empty for the marker
    type's default.

    Raises InvalidInput for an unknown name, and for a strategy of the other marker type.
    """
    if not text:
        return (
            EarlyStrategy.TRANSACTIONAL_DIRECT
            if with_direct_markers
            else EarlyStrategy.ASYNCHRONOUS
        )
    for strategy in EarlyStrategy:
        if text in (strategy.value, strategy.short_name):
            if strategy.is_direct == with_direct_markers:
                return strategy
            raise InvalidInput(
                "this strategy of early conflict detection is for the other marker type",
                strategy=text,
            )
    raise InvalidInput(
        "unknown strategy of early conflict detection",
        strategy=text,
        known=[strategy.value for strategy in EarlyStrategy],
    )
