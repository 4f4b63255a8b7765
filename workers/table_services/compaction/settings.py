"""The settings of a compaction, under Hudi's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.options.service_keys import (
    COMPACTION_PARAMETERS,
    COMPACTION_STRATEGY_KEY,
    COMPACTION_THREADS_KEY,
    LOG_BYTES_KEY,
    LOG_FILES_KEY,
    MAX_DELTA_COMMITS_KEY,
    SCHEDULE_ONLY,
    TARGET_IO_KEY,
)
from workers.table_services.parameters import parse_instant

_MEGABYTE = 1024 * 1024


class Strategy(StrEnum):
    """Which file groups a plan takes, and in which order."""

    LOG_FILE_SIZE_BASED = "LogFileSizeBased"
    LOG_FILE_NUM_BASED = "LogFileNumBased"
    BOUNDED_IO = "BoundedIO"
    UNBOUNDED = "Unbounded"


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """What is compacted and how: `parse_compaction_settings` reads it of a service's parameters."""

    strategy: Strategy = Strategy.LOG_FILE_SIZE_BASED
    io_bytes_max: int = 512_000 * _MEGABYTE
    log_bytes_least: int = 0
    log_files_least: int = 0
    delta_commits_least: int = 0
    """Since the last compaction; with fewer nothing is scheduled."""
    threads: int | None = None
    is_schedule_only: bool = False
    instant: InstantTime | None = None


def parse_compaction_settings(options: Mapping[str, str]) -> CompactionSettings:
    """Parse the settings of a compaction. Raises InvalidInput naming the key."""
    keys = COMPACTION_PARAMETERS
    values = keys.fill_defaults(options)
    return CompactionSettings(
        strategy=_strategy(values[COMPACTION_STRATEGY_KEY]),
        io_bytes_max=keys.integer(values, TARGET_IO_KEY) * _MEGABYTE,
        log_bytes_least=keys.integer(values, LOG_BYTES_KEY),
        log_files_least=keys.integer(values, LOG_FILES_KEY),
        delta_commits_least=keys.integer(values, MAX_DELTA_COMMITS_KEY),
        threads=keys.integer(values, COMPACTION_THREADS_KEY) or None,
        is_schedule_only=keys.boolean(values, SCHEDULE_ONLY),
        instant=parse_instant(values),
    )


def _strategy(text: str) -> Strategy:
    """The strategy by Hudi's class name, with or without its package; the class is never loaded."""
    short = text.rpartition(".")[2].removesuffix("CompactionStrategy")
    short = "Unbounded" if short == "UnBounded" else short
    for strategy in Strategy:
        if strategy.lower() == short.lower():
            return strategy
    raise InvalidInput(
        "unknown compaction strategy",
        key=COMPACTION_STRATEGY_KEY,
        value=text,
        known=[strategy.value for strategy in Strategy],
    )
