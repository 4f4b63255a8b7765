"""The workloads: each prepares what it needs, lets the engines take turns, and gives its lines.

Hudi runs twice in every round, at its defaults and with our codec; ours runs once. Tables of one
workload are taken over by the next, so the order matters.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.dataset import Dataset, rows
from bench.engine import Engine, JobFailed, Measured
from bench.lines import Goal, Line, compared

HUDI: Final = "Apache Hudi 1.2"
DELTA: Final = "delta-rs"
CODECS: Final = {"defaults": f"{HUDI}, defaults", "zstd": f"{HUDI}, same codec"}
LOGS: Final = 5
"""Log files per file group where a table is read before its compaction."""
READS: Final = 9
LARGE_ROWS: Final = 10_000_000
_DELETED_SHARE = 100

Side = Callable[[int], Measured]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Bench:
    data: Dataset
    tables: Path
    ours: Engine
    hudi: Engine | None
    delta: Engine | None
    repeats: int
    _updates_taken: int = field(default=0, init=False)

    def table(self, name: str) -> str:
        return str(self.tables / name)

    def goal(self, bound: float) -> Goal:
        return Goal(bound).halved() if self.is_large else Goal(bound)

    @property
    def is_large(self) -> bool:
        return self.data.rows >= LARGE_ROWS

    def next_updates(self) -> str:
        """A round of updates that no table has seen; newer than all before."""
        self._updates_taken += 1
        return str(self.data.updates(self._updates_taken))

    def on_hudi(self, job: str, kind: str, **parameters: Any) -> dict[str, Side]:
        """Hudi's sides of one job, a table each."""
        if self.hudi is None:
            return {}
        hudi = self.hudi

        def side(codec: str) -> Side:
            table = self.table(f"hudi-{kind}-{codec}")
            more = {"kind": kind[:3], "buckets": self.data.buckets, "codec": codec}
            return lambda _: hudi.do(job, table=table, **more, **parameters)

        return {codec: side(codec) for codec in CODECS}


def taking_turns(
    sides: Mapping[str, Side], rounds: int, *, prepare: Callable[[int], None] | None = None
) -> dict[str, list[Measured]]:
    """Round 0 warms up and is not counted. A side that fails once is out, and missing."""
    measured: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        if prepare is not None:
            prepare(number)
        for name in list(measured):
            try:
                turn = sides[name](number)
            except JobFailed:
                _log.exception("%s is out", name)
                del measured[name]
                continue
            if number:
                measured[name].append(turn)
    return measured


def bulk_insert(bench: Bench) -> Iterator[Line]:
    given = str(bench.data.initial())
    ours, delta = bench.ours, bench.delta
    sides: dict[str, Side] = {
        "ours": lambda _: ours.do(
            "load", table=bench.table("cow"), rows=given, kind="cow", buckets=bench.data.buckets
        ),
        **bench.on_hudi("load", "cow", rows=given),
    }
    if delta is not None:
        sides["delta"] = lambda _: delta.do("load", table=bench.table("delta"), rows=given)
    measured = taking_turns(sides, bench.repeats)
    yield from _against_hudi(bench, "bulk insert", measured, defaults=3, same_codec=2)
    _check_content(bench, "cow")


def upsert_cow(bench: Bench) -> Iterator[Line]:
    given = [bench.next_updates() for _ in range(bench.repeats + 1)]
    ours, hudi, delta = bench.ours, bench.hudi, bench.delta
    sides: dict[str, Side] = {
        "ours": lambda n: ours.do("upsert", table=bench.table("cow"), rows=given[n]),
        **_hudi_upserts(bench, hudi, "cow", given),
    }
    if delta is not None:
        sides["delta"] = lambda n: delta.do("upsert", table=bench.table("delta"), rows=given[n])
    measured = taking_turns(sides, bench.repeats)
    yield from _against_hudi(bench, "upsert 100 k, copy-on-write", measured, 5, 3)
    _check_content(bench, "cow")


def upsert_mor(bench: Bench) -> Iterator[Line]:
    _load(bench, "mor")
    given = [bench.next_updates() for _ in range(bench.repeats + 1)]
    ours = bench.ours
    sides: dict[str, Side] = {
        "ours": lambda n: ours.do("upsert", table=bench.table("mor"), rows=given[n]),
        **_hudi_upserts(bench, bench.hudi, "mor", given),
    }
    measured = taking_turns(sides, bench.repeats)
    yield from _against_hudi(bench, "upsert 100 k, merge-on-read", measured, 3, 3)
    _check_content(bench, "mor")


def upsert_one(bench: Bench) -> Iterator[Line]:
    """On the merge-on-read tables as the upserts left them."""
    ours, hudi, delta = bench.ours, bench.hudi, bench.delta
    ids = np.array([4_711])
    given = [list(rows(ids, seed=1_000 + n).to_pylist()[0].values()) for n in range(READS + 1)]
    sides: dict[str, Side] = {
        "ours": lambda n: ours.do("upsert_one", table=bench.table("mor"), row=given[n]),
        "direct": lambda n: ours.do("upsert_one_arrow", table=bench.table("mor"), row=given[n]),
    }
    if hudi is not None:
        more = {"kind": "mor", "buckets": bench.data.buckets, "codec": "defaults"}
        table = bench.table("hudi-mor-defaults")
        sides["defaults"] = lambda n: hudi.do("upsert_one", table=table, row=given[n], **more)
    if delta is not None:
        sides["delta"] = lambda n: delta.do("upsert_one", table=bench.table("delta"), row=given[n])
    measured = taking_turns(sides, READS)
    yield from _against_hudi(bench, "upsert of one row in Spark", measured, 5, None)
    if direct := measured.get("direct"):
        line = compared("upsert of one row without Spark", "", direct, direct, None)
        assert line.ours_s is not None
        limit = Goal(60, " ms", is_least=False)
        mine = {"ours": line.details["ours"]}
        yield Line(line.name, "(a limit)", line.ours_s, None, line.ours_s * 1000, limit, mine)
        if "delta" in measured:
            yield compared(line.name, DELTA, direct, measured["delta"], None)


def delete_bytes(bench: Bench) -> Iterator[Line]:
    """Of the tables that the upserts left."""
    count = bench.data.rows // _DELETED_SHARE
    given = str(bench.data.updates(0, count))
    logged = bench.ours.do("delete", table=bench.table("mor"), rows=given)
    rewritten = bench.ours.do("delete", table=bench.table("cow"), rows=given)
    yield Line(
        "delete of 1 %: bytes, merge-on-read",
        "copy-on-write",
        logged.seconds,
        rewritten.seconds,
        100 * logged.answer / rewritten.answer,
        Goal(10, " %", is_least=False),
        {"ours_bytes": logged.answer, "peer_bytes": rewritten.answer},
    )


def read_with_logs(bench: Bench) -> Iterator[Line]:
    """Fresh tables with a few logs per file group, and a compacted copy of ours beside them."""
    _load(bench, "mor-logs")
    given = [bench.next_updates() for _ in range(LOGS)]
    for path in given:
        bench.ours.do("upsert", table=bench.table("mor-logs"), rows=path)
        for side in bench.on_hudi("upsert", "mor-logs", rows=path).values():
            side(0)
    ours, hudi = bench.ours, bench.hudi
    compacted = bench.table("compacted")
    shutil.rmtree(compacted, ignore_errors=True)
    shutil.copytree(bench.table("mor-logs"), compacted)
    ours.do("compact", table=compacted)
    sides: dict[str, Side] = {
        "ours": lambda _: ours.do("aggregate", table=bench.table("mor-logs")),
        "native": lambda _: ours.do("aggregate_files", table=compacted),
    }
    if hudi is not None:
        for codec in CODECS:
            sides[codec] = _reading(hudi, bench.table(f"hudi-mor-logs-{codec}"))
    measured = taking_turns(sides, READS)
    name = f"snapshot aggregation, {LOGS} logs per group"
    yield from _against_hudi(bench, name, measured, 2.5, 2.5)
    limit = Goal(1.3 if bench.is_large else 2.0, is_least=False)
    if "ours" in measured and "native" in measured:
        peer = "native scan, compacted"
        yield compared(name, peer, measured["ours"], measured["native"], limit)
    _check_content(bench, "mor-logs")


def compaction(bench: Bench) -> Iterator[Line]:
    """Each round adds one log per group, untimed; the round that warms up merges the others too."""
    ours, hudi = bench.ours, bench.hudi

    def add_logs(_: int) -> None:
        path = bench.next_updates()
        ours.do("upsert", table=bench.table("mor-logs"), rows=path)
        for side in bench.on_hudi("upsert", "mor-logs", rows=path).values():
            side(0)

    sides: dict[str, Side] = {
        "ours": lambda _: ours.do("compact", table=bench.table("mor-logs")),
    }
    if hudi is not None:
        for codec in CODECS:
            sides[codec] = _compacting(hudi, bench.table(f"hudi-mor-logs-{codec}"))
    measured = taking_turns(sides, bench.repeats, prepare=add_logs)
    yield from _against_hudi(bench, "compaction, one log per group", measured, 4, None)
    _check_content(bench, "mor-logs")


def read_without_logs(bench: Bench) -> Iterator[Line]:
    """The table against Spark reading the table's own files, both by the same session."""
    table = bench.table("cow")
    if not Path(table).exists():
        given = str(bench.data.initial())
        bench.ours.do("load", table=table, rows=given, kind="cow", buckets=bench.data.buckets)
    sides: dict[str, Side] = {
        "ours": lambda _: bench.ours.do("aggregate", table=table),
        "native": lambda _: bench.ours.do("aggregate_files", table=table),
    }
    if bench.hudi is not None and Path(bench.table("hudi-cow-zstd")).exists():
        sides["zstd"] = _reading(bench.hudi, bench.table("hudi-cow-zstd"))
    if bench.delta is not None and Path(bench.table("delta")).exists():
        sides["delta"] = _reading(bench.delta, bench.table("delta"))
    measured = taking_turns(sides, READS)
    name = "log-free read"
    # At a million rows the fixed cost of finding the files shows, so the goal is for ten million.
    limit = Goal(1.1, is_least=False) if bench.is_large else None
    yield compared(name, "Spark on the same files", measured["ours"], measured["native"], limit)
    yield from _against_hudi(bench, name, measured, None, None)


def _hudi_upserts(
    bench: Bench, hudi: Engine | None, kind: str, given: list[str]
) -> dict[str, Side]:
    if hudi is None:
        return {}

    def side(codec: str) -> Side:
        table = bench.table(f"hudi-{kind}-{codec}")
        more = {"kind": kind, "buckets": bench.data.buckets, "codec": codec}
        return lambda number: hudi.do("upsert", table=table, rows=given[number], **more)

    return {codec: side(codec) for codec in CODECS}


def _reading(engine: Engine, table: str) -> Side:
    return lambda _: engine.do("aggregate", table=table)


def _compacting(engine: Engine, table: str) -> Side:
    return lambda _: engine.do("compact", table=table)


def _load(bench: Bench, kind: str) -> None:
    given = str(bench.data.initial())
    bench.ours.do(
        "load", table=bench.table(kind), rows=given, kind="mor", buckets=bench.data.buckets
    )
    for side in bench.on_hudi("load", kind, rows=given).values():
        side(0)


def _against_hudi(
    bench: Bench,
    name: str,
    measured: Mapping[str, list[Measured]],
    defaults: float | None,
    same_codec: float | None,
) -> Iterator[Line]:
    """The lines of both codecs, and of delta-rs where it took part."""
    goals = {"defaults": defaults, "zstd": same_codec}
    for codec, peer in CODECS.items():
        goal = None if goals[codec] is None else bench.goal(goals[codec] or 0)
        if "ours" in measured and codec in measured:
            yield compared(name, peer, measured["ours"], measured[codec], goal)
        elif goal is not None and bench.hudi is not None:
            yield Line(name, peer, None, None, None, goal)
    if "ours" in measured and "delta" in measured:
        yield compared(name, DELTA, measured["ours"], measured["delta"], None)


def _check_content(bench: Bench, kind: str) -> None:
    """Every engine holds the same rows, or no time of it counts.

    Raises JobFailed naming who differs.
    """
    contents = {"ours": bench.ours.do("content", table=bench.table(kind)).answer}
    if bench.hudi is not None:
        for codec in CODECS:
            table = bench.table(f"hudi-{kind}-{codec}")
            contents[codec] = bench.hudi.do("content", table=table).answer
    if bench.delta is not None and kind == "cow":
        contents["delta"] = bench.delta.do("content", table=bench.table("delta")).answer
    if len({tuple(one) for one in contents.values()}) > 1:
        raise JobFailed(f"engines hold different rows after {kind}: {contents}")
