"""Bring the node's database up to date, or say that its home cannot be brought up to date."""

from __future__ import annotations

from functools import cache

from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


class HomeTooOld(Exception):
    """The database was made before migrations were squashed, and was not brought up to date then;
    the text says how to begin anew.
    """


def migrate() -> None:
    """Runs what is missing. Raises HomeTooOld before anything is changed."""
    _refuse_half_way()
    call_command("migrate", interactive=False, verbosity=0)


def count_missing_migrations() -> int:
    """Return how many migrations of this code the database lacks. Raises DatabaseError."""
    applied = set(MigrationRecorder(connection).applied_migrations())
    return sum(
        not ({key} <= applied or (replaced and replaced <= applied))
        for key, replaced in _load_migrations().items()
    )


@cache
def _load_migrations() -> dict[tuple[str, str], frozenset[tuple[str, str]]]:
    """Return each migration of this code, with those that it replaces."""
    loader = MigrationLoader(None)
    return {
        key: frozenset((app, name) for app, name in migration.replaces)
        for key, migration in loader.disk_migrations.items()
    }


def _refuse_half_way() -> None:
    """Each app has one migration, in place of those that came before: all of them or none have run
    where it can go on.
    """
    applied = MigrationRecorder(connection).applied_migrations()
    loader = MigrationLoader(None)
    for (app, name), migration in loader.disk_migrations.items():
        missing = [former for former in migration.replaces if former not in applied]
        if (app, name) not in applied and 0 < len(missing) < len(migration.replaces):
            raise HomeTooOld(
                f"the database was made by an older Sluice ({app} lacks {missing[0][1]}) and cannot"
                " be brought up to date: move the folder SLUICE_HOME (or var/ in this checkout)"
                " away, start again, and register your tables; tables themselves are untouched"
            )
