"""How much a writer writes that cannot win: two slots, 100 file groups, 5 of them a rival's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.lines import Goal, Line
from bench.workloads import Bench

_PARTITIONS: Final = 4
_GROUPS: Final = 100


def early_conflict(bench: Bench) -> Iterator[Line]:
    """The share of its file groups that the doomed writer wrote before it was stopped."""
    table = bench.table("early-conflict")
    given = str(bench.data.initial())
    bench.ours.do("load", table=table, rows=given, kind="cow", buckets=_GROUPS // _PARTITIONS)
    measured = bench.ours.do("early_conflict", table=table, rows=bench.next_updates())
    said = measured.answer
    share = 100 * said["files"] / said["groups"]
    name = f"early conflict, {said['groups']} file groups, written in vain"
    goal = Goal(5, " %", is_least=False)
    yield Line(name, "(a limit)", said["lasted_ms"] / 1000, None, share, goal, {"ours": said})
