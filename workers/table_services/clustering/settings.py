"""How a clustering is planned, under Hudi's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.option_values import boolean, integer
from workers.services.parameters import (
    INSTANT,
    SCHEDULE_ONLY,
    instant_or_none,
    listed,
    with_defaults,
)
from workers.services.row_order import LAYOUTS, Layout, RowOrder

SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
LAYOUT = "hoodie.layout.optimize.strategy"
MAX_COMMITS = "hoodie.clustering.inline.max.commits"
_PARTITIONS = "hoodie.clustering.plan.strategy.partition.selected"
_GROUPS_MAX = "hoodie.clustering.plan.strategy.max.num.groups"
THREADS = "sluice.clustering.threads"

PARAMETERS: dict[str, str] = {
    SORT_COLUMNS: "",
    LAYOUT: "linear",
    _PARTITIONS: "",  # All of them.
    _GROUPS_MAX: "0",  # All of them.
    MAX_COMMITS: "0",  # A person who asks for it gets it; inline waits for four.
    THREADS: "0",
    SCHEDULE_ONLY: "false",
    INSTANT: "",
}


@dataclass(frozen=True, slots=True)
class ClusteringSettings:
    order: RowOrder
    """Without columns nothing can be scheduled; a pending plan has its own."""
    partitions: tuple[str, ...] = ()
    groups_max: int | None = None
    commits_least: int = 0
    """Since the last clustering; with fewer nothing is scheduled."""
    threads: int | None = None
    is_schedule_only: bool = False
    instant: InstantTime | None = None


def clustering_settings(given: Mapping[str, str]) -> ClusteringSettings:
    """Raises InvalidInput naming the key."""
    values = with_defaults(given, PARAMETERS, service="clustering")
    return ClusteringSettings(
        order=order_of(values),
        partitions=listed(values[_PARTITIONS]),
        groups_max=integer(values, _GROUPS_MAX, least=0, most=1_000_000) or None,
        commits_least=integer(values, MAX_COMMITS, least=0, most=1_000_000),
        threads=integer(values, THREADS, least=0, most=64) or None,
        is_schedule_only=boolean(values, SCHEDULE_ONLY),
        instant=instant_or_none(values),
    )


def order_of(values: Mapping[str, str]) -> RowOrder:
    """From a service's parameters or from a plan's strategy. Raises InvalidInput."""
    return RowOrder(listed(values.get(SORT_COLUMNS, "")), _layout(values.get(LAYOUT, "")))


def strategy_of(order: RowOrder) -> dict[str, str]:
    """What a plan and its commit keep of the order."""
    return {SORT_COLUMNS: ",".join(order.columns), LAYOUT: order.layout}


def _layout(text: str) -> Layout:
    for one in LAYOUTS:
        if one == (text or "linear").lower():
            return one
    raise InvalidInput("unknown layout", key=LAYOUT, value=text, known=LAYOUTS)
