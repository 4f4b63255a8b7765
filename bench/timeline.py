"""The set `timeline`: what a timeline of 100,000 instants costs a reader, and a plan of many files.

The reader is a process of its own and new for each cold look. The commit that it sees next is made
by this one. Two shapes: nearly all instants in the history, as an archiver leaves them, and all of
them in the directory of the active timeline, three files each, which no archiver leaves.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.engine import Engine, JobFailed, engine
from bench.lines import Goal, Line
from bench.timeline_tables import commit_content, commit_elsewhere, long_timeline, wide_table
from workers.clock import SystemClock

INSTANTS: Final = 100_000
ACTIVE: Final = 1_500
_PARTITIONS: Final = 1_000
_FILE_GROUPS: Final = 8
_COLD_ROUNDS: Final = 3
_AGAIN_ROUNDS: Final = 9
_SETTLE_S: Final = 4.0
"""A directory that changed less than three seconds ago is listed at every look."""
_COLD: Final = Goal(0.4, " s", is_least=False)
_AGAIN: Final = Goal(5, " ms", is_least=False)
_PLAN: Final = Goal(0.5, " s", is_least=False)
_REQUESTS: Final = Goal(_PARTITIONS + 10, " requests", is_least=False)
"""One of each partition, and a few of the table."""
_LIMIT: Final = "(a limit)"


def timeline(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a commit was not seen."""
    folder.mkdir(parents=True, exist_ok=True)
    yield from _timelines(folder, "archived", ACTIVE)
    yield from _timelines(folder, "all active", INSTANTS)
    yield from _plans(folder)


def _timelines(folder: Path, shape: str, active: int) -> Iterator[Line]:
    table = folder / "long"
    long_timeline(table, INSTANTS, active=active)
    looks: dict[str, list[float]] = {"cold": [], "warm": [], "one more commit": []}
    for _ in range(_COLD_ROUNDS):
        with engine("timeline", folder) as reader:
            _measure(reader, table, looks)
    shutil.rmtree(table)
    for look, seconds in looks.items():
        goal, unit = (_COLD, 1) if look == "cold" else (_AGAIN, 1_000)
        value = statistics.median(seconds)
        yield Line(
            f"timeline of {INSTANTS:,} instants, {shape}: {look}",
            _LIMIT,
            value,
            None,
            value * unit,
            goal,
            {"runs": len(seconds), "min_s": min(seconds), "max_s": max(seconds), "active": active},
        )


def _measure(reader: Engine, table: Path, looks: dict[str, list[float]]) -> None:
    SystemClock().sleep(_SETTLE_S)
    opened = reader.do("open", folder=str(table))
    looks["cold"].append(opened.seconds)
    looks["warm"] += [reader.do("again").seconds for _ in range(_AGAIN_ROUNDS)]
    content = commit_content()
    for number in range(1, _AGAIN_ROUNDS + 1):
        commit_elsewhere(table, content)
        seen = reader.do("again")
        if seen.answer != opened.answer + number:
            raise JobFailed(f"{seen.answer} instants instead of {opened.answer + number}")
        looks["one more commit"].append(seen.seconds)


def _plans(folder: Path) -> Iterator[Line]:
    for what, has_logs in (("base files", False), ("base and log files", True)):
        table = folder / "wide"
        wide_table(table, partitions=_PARTITIONS, file_groups=_FILE_GROUPS, has_logs=has_logs)
        seconds, requests = [], {}
        for _ in range(_COLD_ROUNDS):
            with engine("timeline", folder) as reader:
                planned = reader.do("plan", folder=str(table))
                if planned.answer != _PARTITIONS * _FILE_GROUPS:
                    raise JobFailed(f"a plan of {planned.answer} file slices")
                seconds.append(planned.seconds)
                requests = reader.do("requests", folder=str(table)).answer
        shutil.rmtree(table)
        value = statistics.median(seconds)
        name = f"{_PARTITIONS:,} partitions x {_FILE_GROUPS} file groups, {what}"
        details = {"runs": len(seconds), "min_s": min(seconds), "max_s": max(seconds)}
        yield Line(f"plan of a snapshot, {name}", _LIMIT, value, None, value, _PLAN, details)
        total = sum(requests.values())
        request_details = {"asked": requests}
        yield Line(f"requests of it, {what}", _LIMIT, None, None, total, _REQUESTS, request_details)
