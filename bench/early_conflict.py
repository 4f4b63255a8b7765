"""How much a writer writes that cannot win: two slots, 100 file groups, 5 of them a rival's.

The rival has registered before the writer begins, or registers while its tasks write. Then the
detector's period counts, and where in it the rival comes is chance: the worst of some rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from bench.lines import Goal, Line
from bench.workloads import Bench

_PARTITIONS: Final = 4
_GROUPS: Final = 100
_ROUNDS: Final = 5
_GOAL: Final = Goal(5, " %", is_least=False)


def early_conflict(bench: Bench) -> Iterator[Line]:
    """The share of its file groups that the doomed writer wrote before it was stopped."""
    table = bench.table("early-conflict")
    given = str(bench.data.initial())
    bench.ours.do("load", table=table, rows=given, kind="cow", buckets=_GROUPS // _PARTITIONS)
    yield _line("written in vain", [_one_write(bench, table, "before")])
    yield _line(
        "the rival registers meanwhile",
        [_one_write(bench, table, "during") for _ in range(_ROUNDS)],
    )


def _one_write(bench: Bench, table: str, when: str) -> dict[str, Any]:
    measured = bench.ours.do("early_conflict", table=table, rows=bench.next_updates(), when=when)
    counts: dict[str, Any] = measured.answer
    return counts


def _line(what: str, rounds: list[dict[str, Any]]) -> Line:
    shares = [100 * one["files"] / one["groups"] for one in rounds]
    took_s = median(one["lasted_ms"] for one in rounds) / 1000
    name = f"early conflict, {rounds[0]['groups']} file groups, {what}"
    return Line(name, "(a limit)", took_s, None, max(shares), _GOAL, {"rounds": rounds})
