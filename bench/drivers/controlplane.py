"""What the bench asks of a control plane on PostgreSQL, in a process of its own: commits on many
tables at once beside a running mirror, and looks at tables of its own, timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import django

from bench.drivers.fleet import await_synced, register
from bench.drivers.serving import Job, serve
from bench.support.fleet import add_row
from bench.timeline_tables import add_files, commit_content, instants
from workers.lakehouse import open_table

_POLL_S = 0.1


def keep_busy(root: str, tables: int, every_s: float, seconds: float) -> dict[str, Any]:
    """Commits in turns on the first `tables` of ours, each once in `every_s`: of each commit the
    seconds until its row stands in the database; and how old the other tables' rows got.
    """
    from controlplane.mirror.models import InstantRecord
    from controlplane.tables.models import Table

    ours = [Path(one) for one in sorted(map(str, Path(root).iterdir()))]
    busy = [one for number, one in enumerate(ours) if number % 4 != 3][:tables]
    opened = [open_table(one) for one in busy]
    quiet = Table.objects.exclude(slug__in=[one.name for one in busy])
    waiting: dict[str, float] = {}
    waits_s: list[float] = []
    ages_s: list[float] = []
    commits, began_s = 0, time.monotonic()
    for table in cycle(opened):
        if time.monotonic() - began_s > seconds and not waiting:
            break
        if time.monotonic() - began_s <= seconds:
            waiting[add_row(table, 10_000 + commits)] = time.monotonic()
            commits += 1
        due_s = began_s + commits * every_s / tables
        while True:
            seen = InstantRecord.objects.filter(requested_at__in=[*waiting], state="completed")
            now_s = time.monotonic()
            instants_seen = set(seen.values_list("requested_at", flat=True))
            waits_s += [now_s - waiting.pop(instant) for instant in instants_seen]
            if time.monotonic() >= due_s:
                break
            time.sleep(min(_POLL_S, max(0.0, due_s - time.monotonic())))
        if commits % tables == 0:
            ages_s += _ages_s(quiet)
    return {"commits": commits, "waits_s": waits_s, "ages_s": ages_s}


def _ages_s(tables: Any) -> list[float]:
    from django.utils import timezone

    now = timezone.now()
    looked = tables.filter(synced_at__isnull=False).values_list("synced_at", flat=True)
    return [(now - at).total_seconds() for at in looked]


def look_at_all(rounds: int) -> dict[str, Any]:
    """A round over tables to which nothing happened: processor ms per table, and queries of it."""
    from django.db import connection

    from controlplane.mirror.models import SyncMark
    from controlplane.mirror.rounds import sync_round

    done = sync_round(budget_s=600)
    per_table_ms, queries = [], 0
    for _ in range(rounds):
        SyncMark.objects.update(look_at=None, compare_at=None)
        queries, count = 0, [0]
        began_s = time.process_time()
        with connection.execute_wrapper(_counting(count)):
            done = sync_round(budget_s=0)
        per_table_ms.append(1_000 * (time.process_time() - began_s) / done.looked_at)
        queries = count[0]
    return {"per_table_ms": per_table_ms, "queries": queries, "tables": done.looked_at}


def _counting(count: list[int]) -> Callable[..., Any]:
    def counted(execute: Callable[..., Any], *arguments: Any) -> Any:
        count[0] += 1
        return execute(*arguments)

    return counted


def mirror_history(folder: str) -> dict[str, Any]:
    """A table with a long history, from nothing: seconds of its first look, which takes names, and
    processor seconds of this process until all contents are there.
    """
    from controlplane.mirror.models import InstantRecord, SyncMark
    from controlplane.mirror.sync import sync_table
    from controlplane.tables.actions import do_register_table

    table = do_register_table(location=folder, slug="long", by=None)
    began_s = time.perf_counter()
    sync_table(table)
    names_s = time.perf_counter() - began_s
    names = InstantRecord.objects.filter(table=table).count()
    left = SyncMark.objects.get(table=table).names_only
    began_s, cpu_s = time.perf_counter(), time.process_time()
    while SyncMark.objects.get(table=table).names_only:
        sync_table(table)
    return {
        "names": names,
        "names_s": names_s,
        "contents": left,
        "contents_s": time.perf_counter() - began_s,
        "contents_cpu_s": time.process_time() - cpu_s,
    }


def add_instants(folder: str, count: int, rounds: int) -> list[float]:
    """Of each round the seconds of the look that follows `count` more commits."""
    from controlplane.mirror.sync import sync_table
    from controlplane.tables.models import Table

    took_s = []
    for _ in range(rounds):
        add_files(Path(folder), instants(count), commit_content())
        table = Table.objects.get(location=folder)
        began_s = time.perf_counter()
        sync_table(table)
        took_s.append(time.perf_counter() - began_s)
    return took_s


def jobs() -> dict[str, Job]:
    django.setup()
    return {
        "register": register,
        "await_synced": await_synced,
        "keep_busy": keep_busy,
        "look_at_all": look_at_all,
        "mirror_history": mirror_history,
        "add_instants": add_instants,
    }


if __name__ == "__main__":
    serve(jobs)
