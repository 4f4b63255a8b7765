"""The readiness checks of a node, behind `/readyz`.

The endpoint needs no authentication. So a cause contains what failed and the kind of error, never
its text, which may contain an address, a password or the name of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps

from django.conf import settings
from django.db import DatabaseError, connection, connections
from django.db.models import Count, Max
from django.utils import timezone

from controlplane.monitoring.check_runner import Answer, CheckRow, CheckRunner
from controlplane.node.migrating import count_missing_migrations
from controlplane.node.readiness import redis_answers
from controlplane.tables.models import Table
from workers.installation import format_command

MIRROR_SILENT_AFTER = timedelta(seconds=60)


def _with_database(probe: Callable[[], Answer]) -> Callable[[], Answer]:
    """Wrap a probe that uses the database in its own thread: close the connection at its end."""

    @wraps(probe)
    def in_a_thread_of_its_own() -> Answer:
        try:
            return probe()
        except DatabaseError as error:
            return Answer(cause=f"no answer from the database: {type(error).__name__}")
        finally:
            connections.close_all()

    return in_a_thread_of_its_own


@_with_database
def probe_database() -> Answer:
    """Run a query without a table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return Answer()


@_with_database
def probe_migrations() -> Answer:
    """Check that all migrations of this code are applied."""
    if missing := count_missing_migrations():
        return Answer(cause=f"{missing} migrations are not applied; run `{format_command('up')}`")
    return Answer()


@_with_database
def probe_mirror() -> Answer:
    """Check that the mirror read a table recently. A node without tables passes."""
    seen = Table.objects.aggregate(
        tables=Count("pk"), synced=Max("synced_at"), tried=Max("sync_mark__tried_at")
    )
    if not seen["tables"]:
        return Answer()
    moments = [moment for moment in (seen["synced"], seen["tried"]) if moment is not None]
    if not moments:
        return Answer(cause="the mirror has not read any table yet; check that mirror and beat run")
    silent_for = timezone.now() - max(moments)
    age_s = max(0.0, silent_for.total_seconds())
    if silent_for > MIRROR_SILENT_AFTER:
        cause = f"the mirror has not read a table for {age_s:.0f} s; check that mirror and beat run"
        return Answer(cause=cause, age_s=age_s)
    return Answer(age_s=age_s)


def probe_redis() -> Answer:
    """Check Redis: the broker of workers, live events, and the counters of logins."""
    if not settings.SLUICE_REDIS_URL:
        return Answer(cause="SLUICE_REDIS_URL is not set")
    return Answer(cause=redis_answers(settings.SLUICE_REDIS_URL) or "")


def create_check_runner() -> CheckRunner:
    """Create a runner of all checks, without answers yet."""
    return CheckRunner(
        {
            "database": probe_database,
            "migrations": probe_migrations,
            "redis": probe_redis,
            "mirror": probe_mirror,
        }
    )


_check_runner = create_check_runner()


def check_readiness() -> list[CheckRow]:
    """Run every check, within three seconds."""
    return _check_runner.run()
