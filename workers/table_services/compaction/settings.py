"""How a compaction is planned, under Hudi's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.option_values import boolean, integer
from workers.services.parameters import INSTANT, SCHEDULE_ONLY, instant_or_none, with_defaults

MAX_DELTA_COMMITS = "hoodie.compact.inline.max.delta.commits"
_STRATEGY = "hoodie.compaction.strategy"
_TARGET_IO = "hoodie.compaction.target.io"
_SIZE_THRESHOLD = "hoodie.compaction.logfile.size.threshold"
_NUM_THRESHOLD = "hoodie.compaction.logfile.num.threshold"
THREADS = "sluice.compaction.threads"
_MEGABYTE = 1024 * 1024

PARAMETERS: dict[str, str] = {
    _STRATEGY: "LogFileSizeBasedCompactionStrategy",
    _TARGET_IO: "512000",  # Megabytes read and written by one plan.
    _SIZE_THRESHOLD: "0",
    _NUM_THRESHOLD: "0",
    MAX_DELTA_COMMITS: "0",  # A person who asks for it gets it; inline waits for five.
    THREADS: "0",  # As many as there are cores, and as memory allows.
    SCHEDULE_ONLY: "false",
    INSTANT: "",
}


class Strategy(StrEnum):
    """Which file groups a plan takes, and in which order."""

    LOG_FILE_SIZE_BASED = "LogFileSizeBased"
    LOG_FILE_NUM_BASED = "LogFileNumBased"
    BOUNDED_IO = "BoundedIO"
    UNBOUNDED = "Unbounded"


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    strategy: Strategy = Strategy.LOG_FILE_SIZE_BASED
    io_bytes_max: int = 512_000 * _MEGABYTE
    log_bytes_least: int = 0
    log_files_least: int = 0
    delta_commits_least: int = 0
    """Since the last compaction; with fewer nothing is scheduled."""
    threads: int | None = None
    is_schedule_only: bool = False
    instant: InstantTime | None = None


def compaction_settings(given: Mapping[str, str]) -> CompactionSettings:
    """Raises InvalidInput naming the key."""
    values = with_defaults(given, PARAMETERS, service="compaction")
    most = 2**40
    return CompactionSettings(
        strategy=_strategy(values[_STRATEGY]),
        io_bytes_max=integer(values, _TARGET_IO, least=1, most=most) * _MEGABYTE,
        log_bytes_least=integer(values, _SIZE_THRESHOLD, least=0, most=most),
        log_files_least=integer(values, _NUM_THRESHOLD, least=0, most=most),
        delta_commits_least=integer(values, MAX_DELTA_COMMITS, least=0, most=1_000_000),
        threads=integer(values, THREADS, least=0, most=64) or None,
        is_schedule_only=boolean(values, SCHEDULE_ONLY),
        instant=instant_or_none(values),
    )


def _strategy(text: str) -> Strategy:
    """By Hudi's class name, with or without its package. The class itself is never loaded."""
    short = text.rpartition(".")[2].removesuffix("CompactionStrategy")
    short = "Unbounded" if short == "UnBounded" else short
    for one in Strategy:
        if one.lower() == short.lower():
            return one
    raise InvalidInput(
        "unknown compaction strategy",
        key=_STRATEGY,
        value=text,
        known=[one.value for one in Strategy],
    )
