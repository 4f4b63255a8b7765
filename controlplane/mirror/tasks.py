"""Celery's side of the mirror: beat fans out to one task per table, and a table that is being
synced is left alone.
"""

from __future__ import annotations

from controlplane.celery import app
from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table

EXPIRES_S = 4


@app.task(name="controlplane.mirror.sync_tables")
def sync_tables() -> None:
    for slug in Table.objects.values_list("slug", flat=True):
        sync_one.apply_async(args=[slug], expires=EXPIRES_S)


@app.task(name="controlplane.mirror.sync_one")
def sync_one(slug: str) -> None:
    if table := Table.objects.filter(slug=slug).first():
        sync_table(table)


@app.task(name="controlplane.mirror.measure_streams")
def measure_streams() -> None:
    for table in Table.objects.all():
        measure(table)
