"""The set `controlplane`: the mirror of a fleet, and of a long history, on PostgreSQL.

A thousand small tables beside what `make up` runs of the mirror: fifty of them are written to all
the time, the others are still. Then, without that node, one process looks at all of them, and takes
a table of a hundred thousand archived instants in.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.engine import JobFailed, engine
from bench.fleet import environment_of, running_node
from bench.lines import Goal, Line
from bench.support.fleet import make_fleet
from bench.support.postgres import postgres_cluster, programs
from bench.support.redis_server import redis_server
from bench.timeline_tables import long_timeline
from workers.clock import SystemClock

TABLES: Final = 1_000
BUSY: Final = 50
_EVERY_S: Final = 10.0
"""Each busy table is committed to so often."""
_BUSY_S: Final = 60.0
_PATIENCE_S: Final = 400.0
_SETTLE_S: Final = 10.0
_INSTANTS: Final = 100_000
_ACTIVE: Final = 30
_ROUNDS: Final = 5
_MORE: Final = 100
_LIMIT: Final = "(a limit)"
_FRESH_BUSY: Final = Goal(3, " s", is_least=False)
_FRESH_STILL: Final = Goal(60, " s", is_least=False)
_SHARE: Final = Goal(30, " %", is_least=False)
_LOOK: Final = Goal(1, " ms", is_least=False)
_QUERIES: Final = Goal(20, " queries", is_least=False)
_NAMES: Final = Goal(150_000, " /s")
_CONTENTS: Final = Goal(3_000, " /s/core")
_HUNDRED: Final = Goal(50, " ms", is_least=False)


def controlplane(folder: Path) -> Iterator[Line]:
    """Nothing where PostgreSQL is not installed. Raises JobFailed when a table stays unsynced."""
    if programs() is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    with ExitStack() as stack:
        database = stack.enter_context(postgres_cluster())
        redis = stack.enter_context(redis_server("of-the-bench"))
        environment = environment_of(folder, database, redis.address)
        make_fleet(folder / "tables", TABLES)
        yield from _fleet(folder, environment)
        yield from _alone(folder, environment)
    shutil.rmtree(folder, ignore_errors=True)


def _fleet(folder: Path, environment: Mapping[str, str]) -> Iterator[Line]:
    root, clock = folder / "tables", SystemClock()
    with ExitStack() as stack:
        node = stack.enter_context(running_node(folder, environment))
        outside = stack.enter_context(engine("controlplane", folder, environment=environment))
        outside.do("register", root=str(root))
        synced = outside.do("await_synced", tables=TABLES, patience_s=_PATIENCE_S).answer
        if synced["synced"] != TABLES or synced["refused"]:
            raise JobFailed(f"of {TABLES} tables: {synced}")
        clock.sleep(_SETTLE_S)
        before, began_s = sum(node.cpu_s().values()), clock.monotonic_s()
        busy = outside.do(
            "keep_busy", root=str(root), tables=BUSY, every_s=_EVERY_S, seconds=_BUSY_S
        ).answer
        share = 100 * (sum(node.cpu_s().values()) - before) / (clock.monotonic_s() - began_s)
    what = f"mirror of {TABLES:,} tables, {BUSY} busy"
    waits_s, ages_s = busy["waits_s"], busy["ages_s"]
    details = {"commits": busy["commits"], "median_s": statistics.median(waits_s)}
    yield _limit(f"{what}: commit to its row, p95", _p95(waits_s), _FRESH_BUSY, details)
    details = {"max_s": max(ages_s), "all_synced_s": synced["all_s"]}
    yield _limit(f"{what}: age of the others, p95", _p95(ages_s), _FRESH_STILL, details)
    yield _limit(f"{what}: processor of the mirror", share, _SHARE, {})


def _alone(folder: Path, environment: Mapping[str, str]) -> Iterator[Line]:
    long = folder / "tables" / "long"
    long_timeline(long, _INSTANTS, active=_ACTIVE)
    SystemClock().sleep(_SETTLE_S)
    with engine("controlplane", folder, environment=environment) as reader:
        looked = reader.do("look_at_all", rounds=_ROUNDS).answer
        per_table_ms = statistics.median(looked["per_table_ms"])
        what = f"look at {looked['tables']:,} quiet tables"
        yield _limit(f"{what}: processor per table", per_table_ms, _LOOK, looked)
        yield _limit(f"{what}: queries in all", looked["queries"], _QUERIES, {})
        history = reader.do("mirror_history", folder=str(long)).answer
        what = f"history of {_INSTANTS:,} instants"
        names_per_s = history["names"] / history["names_s"]
        yield Line(f"{what}: names", _LIMIT, history["names_s"], None, names_per_s, _NAMES, history)
        contents_per_s = history["contents"] / history["contents_cpu_s"]
        contents_s = history["contents_s"]
        yield Line(
            f"{what}: contents", _LIMIT, contents_s, None, contents_per_s, _CONTENTS, history
        )
        took_s = reader.do("add_instants", folder=str(long), count=_MORE, rounds=_ROUNDS).answer
        took_ms = 1_000 * statistics.median(took_s)
        details = {"rounds_s": took_s}
        yield _limit(f"{_MORE} more instants of a table: one look", took_ms, _HUNDRED, details)


def _limit(name: str, figure: float, goal: Goal, details: Mapping[str, object]) -> Line:
    return Line(name, _LIMIT, None, None, figure, goal, dict(details))


def _p95(figures: list[float]) -> float:
    return statistics.quantiles(figures, n=20)[-1]
