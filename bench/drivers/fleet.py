"""What a person and a writer do while a node's mirror looks at many tables, in a process of its own
beside it: registers them, writes to one of them, and asks the database what the mirror knows.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import django

from bench.drivers.serving import Job, serve
from bench.support.fleet import add_row
from workers.lakehouse import open_table

_POLL_S = 0.02
_SLUG = "t000"
_NEW = "new-"


def register(root: str) -> int:
    from controlplane.tables.actions import do_register_table

    locations = sorted(Path(root).iterdir())
    for location in locations:
        do_register_table(location=str(location), slug=location.name, by=None)
    return len(locations)


def register_new(root: str) -> int:
    """All at once, so that they wait together."""
    from controlplane.tables.models import Table

    new = sorted(Path(root).glob(f"{_NEW}*"))
    tables = (Table(location=str(one), slug=one.name, name=one.name) for one in new)
    return len(Table.objects.bulk_create(tables))


def count_waiting() -> int:
    from controlplane.tables.models import Table

    return Table.objects.filter(synced_at__isnull=True).count()


def unregister_new() -> None:
    from controlplane.tables.models import Table

    Table.objects.filter(slug__startswith=_NEW).delete()


def await_synced(tables: int, patience_s: float) -> dict[str, Any]:
    """Seconds until so many are synced, and until half of them are."""
    from controlplane.tables.models import Table

    began_s, half_s = time.monotonic(), None
    while True:
        synced = Table.objects.filter(synced_at__isnull=False).count()
        took_s = time.monotonic() - began_s
        if half_s is None and synced * 2 >= tables:
            half_s = took_s
        if synced >= tables or took_s > patience_s:
            refused = Table.objects.exclude(sync_error="").count()
            return {"synced": synced, "half_s": half_s, "all_s": took_s, "refused": refused}
        time.sleep(_POLL_S)


def follow(location: str, commits: int, pause_s: float, patience_s: float) -> list[float]:
    """Of each commit the seconds from its end until its row stands in the database. Raises
    TimeoutError.
    """
    from controlplane.mirror.models import InstantRecord

    table, waits_s = open_table(location), []
    for number in range(commits):
        instant = add_row(table, 1_000 + number)
        ended_s = time.monotonic()
        row = InstantRecord.objects.filter(
            table__slug=_SLUG, requested_at=instant, state="completed"
        )
        while not row.exists():
            if time.monotonic() - ended_s > patience_s:
                raise TimeoutError(f"{instant} is not in the database")
            time.sleep(_POLL_S)
        waits_s.append(time.monotonic() - ended_s)
        time.sleep(pause_s)
    return waits_s


def oldest_look_s() -> float:
    """Of all tables: the longest time since one was looked at."""
    from django.utils import timezone

    from controlplane.tables.models import Table

    looked = Table.objects.order_by("synced_at").values_list("synced_at", flat=True)[0]
    assert looked is not None
    return (timezone.now() - looked).total_seconds()


def jobs() -> dict[str, Job]:
    django.setup()
    return {
        "register": register,
        "register_new": register_new,
        "count_waiting": count_waiting,
        "unregister_new": unregister_new,
        "await_synced": await_synced,
        "follow": follow,
        "oldest_look_s": oldest_look_s,
    }


if __name__ == "__main__":
    serve(jobs)
