"""The settings of a clustering, under Hudi's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.options.service_keys import (
    CLUSTERING_COMMITS_KEY,
    CLUSTERING_PARAMETERS,
    CLUSTERING_THREADS_KEY,
    GROUPS_MAX_KEY,
    LAYOUT_KEY,
    PARTITIONS_KEY,
    SCHEDULE_ONLY,
    SORT_COLUMNS_KEY,
)
from workers.table_services.parameters import parse_instant, parse_list
from workers.table_services.row_order import LAYOUTS, Layout, RowOrder


@dataclass(frozen=True, slots=True)
class ClusteringSettings:
    """What is clustered and how: `parse_clustering_settings` reads it of a service's parameters."""

    order: RowOrder
    """Without columns nothing can be scheduled; a pending plan has its own."""
    partitions: tuple[str, ...] = ()
    groups_max: int | None = None
    commits_least: int = 0
    """Since the last clustering; with fewer nothing is scheduled."""
    threads: int | None = None
    is_schedule_only: bool = False
    instant: InstantTime | None = None


def parse_clustering_settings(options: Mapping[str, str]) -> ClusteringSettings:
    """Parse the settings of a clustering. Raises InvalidInput naming the key."""
    keys = CLUSTERING_PARAMETERS
    values = keys.fill_defaults(options)
    return ClusteringSettings(
        order=parse_order(values),
        partitions=parse_list(values[PARTITIONS_KEY]),
        groups_max=keys.integer(values, GROUPS_MAX_KEY) or None,
        commits_least=keys.integer(values, CLUSTERING_COMMITS_KEY),
        threads=keys.integer(values, CLUSTERING_THREADS_KEY) or None,
        is_schedule_only=keys.boolean(values, SCHEDULE_ONLY),
        instant=parse_instant(values),
    )


def parse_order(values: Mapping[str, str]) -> RowOrder:
    """Parse the order that a service's parameters or a plan's strategy name. Raises
    InvalidInput.
    """
    return RowOrder(
        parse_list(values.get(SORT_COLUMNS_KEY, "")), _layout(values.get(LAYOUT_KEY, ""))
    )


def format_strategy(order: RowOrder) -> dict[str, str]:
    """Return the order as a plan and its commit store it."""
    return {SORT_COLUMNS_KEY: ",".join(order.columns), LAYOUT_KEY: order.layout}


def _layout(text: str) -> Layout:
    for layout in LAYOUTS:
        if layout == (text or "linear").lower():
            return layout
    raise InvalidInput("unknown layout", key=LAYOUT_KEY, value=text, known=LAYOUTS)
