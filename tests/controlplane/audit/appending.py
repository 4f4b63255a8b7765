"""Threads that append to the audit of one new database at the same time, within transactions that
lock rows of their own before and after; prints what became of the chain, as JSON.

Python's arguments: threads, rounds of each.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import django

django.setup()

from django.db import connection, transaction  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402

from controlplane.audit.actions import do_append_to_chain, do_record  # noqa: E402
from controlplane.audit.chain_walk import Link, walk_chain  # noqa: E402
from controlplane.audit.models import AuditCheck, AuditEvent  # noqa: E402

THREADS, ROUNDS = int(sys.argv[1]), int(sys.argv[2])
CALLERS_ROW = 2
"""A row that callers lock; the check's own is the first."""
begin = Barrier(THREADS)


def append(thread: int) -> None:
    begin.wait()
    for number in range(ROUNDS):
        with transaction.atomic():
            if number % 2:
                lock_callers_row()
            record(thread, number)
            lock_callers_row()
        try:
            with transaction.atomic():
                record(thread, number, what="taken back")
                raise ZeroDivisionError
        except ZeroDivisionError:
            record(thread, number, what="alone")
    connection.close()


def record(thread: int, number: int, *, what: str = "within") -> None:
    do_record(who=f"thread {thread}", what=what, subject=str(number), result="done")


def lock_callers_row() -> None:
    AuditCheck.objects.select_for_update().get(pk=CALLERS_ROW)


executor = MigrationExecutor(connection)
executor.migrate([node for node in executor.loader.graph.leaf_nodes() if node[0] == "audit"])
AuditCheck.objects.create(pk=CALLERS_ROW)
with ThreadPoolExecutor(THREADS) as pool:
    list(pool.map(append, range(THREADS)))
waiting = AuditEvent.objects.filter(sequence=None).count()
do_append_to_chain()
seen = walk_chain(Link())
report = {
    "rows": seen.rows,
    "through": seen.through.sequence,
    "problem": seen.problem.sentence if seen.problem else "",
    "waiting": waiting,
    "what": sorted(set(AuditEvent.objects.values_list("what", flat=True))),
}
sys.stdout.write(json.dumps(report))
