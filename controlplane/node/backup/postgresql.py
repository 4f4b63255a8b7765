"""Dump and replace the schema of a PostgreSQL database by PostgreSQL's own programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from django.db import DatabaseError, connection, transaction

from controlplane.node.backup.archive import BackupFailed

_PROGRAMS: Final = Path("/usr/lib/postgresql")
_REPLACED: Final = "sluice_replaced"
"""The schema that holds the former tables while others are restored."""
Say = Callable[[str], object]


def dump(target: Path) -> dict[str, int]:
    """Dump the schema as it is at one moment, next to writers; return its rows by table. Raises
    BackupFailed.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SELECT pg_export_snapshot(), current_schema()")
        snapshot, schema = cursor.fetchone()
        _run(
            "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--schema={schema}",
            f"--snapshot={snapshot}", f"--file={target}", f"--dbname={_address()}",
        )  # fmt: skip
        return _count_rows()


def check(dump_file: Path) -> None:
    """Read the whole dump as `pg_restore` does. Raises BackupFailed if it is damaged."""
    _run("pg_restore", "--file=/dev/null", str(dump_file))


def find_users() -> list[str]:
    """Return the other sessions of this database, on any host."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, COALESCE(host(client_addr), 'a socket') FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' ORDER BY pid"
        )
        return [f"session {pid} from {address}" for pid, address in cursor.fetchall()]


def load(dump_file: Path, _say: Say) -> dict[str, int]:
    """Restore the dump, drop the former tables, and return the rows by table. If that fails, the
    former tables stay. Raises BackupFailed.
    """
    schema = _set_aside()
    try:
        _run(
            "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner",
            "--no-privileges", f"--schema={schema}", f"--dbname={_address()}", str(dump_file),
        )  # fmt: skip
    except BackupFailed:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f'DROP SCHEMA "{schema}" CASCADE')
            cursor.execute(f'ALTER SCHEMA {_REPLACED} RENAME TO "{schema}"')
        raise
    with connection.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA {_REPLACED} CASCADE")
    connection.close()  # Its prepared statements are of tables that are gone.
    return _count_rows()


def _set_aside() -> str:
    """Rename the schema, create an empty one, and return its name. Raises BackupFailed."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT current_schema()")
            [schema] = cursor.fetchone()
            cursor.execute(f'ALTER SCHEMA "{schema}" RENAME TO {_REPLACED}')
            cursor.execute(f'CREATE SCHEMA "{schema}"')
    except DatabaseError as error:
        raise BackupFailed(
            f"the former tables cannot be set aside: {str(error).strip()}. The database's owner "
            f"has to restore. If the schema {_REPLACED} exists, an earlier restore was ended: it "
            f"has the tables from before. Drop the other schema and rename it, or drop it"
        ) from error
    return str(schema)


def _count_rows() -> dict[str, int]:
    rows = {}
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT COUNT(*) FROM "{name}"')  # noqa: S608
            rows[name] = int(cursor.fetchone()[0])
    return rows


def _address() -> str:
    """Return the database's address for libpq, without the password."""
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import Conninfo

    parameters = connection.get_connection_params()
    names = {option.keyword.decode() for option in Conninfo.get_defaults()} - {"password"}
    return make_conninfo(**{name: parameters[name] for name in names & parameters.keys()})


def _run(program: str, *words: str) -> None:
    """Run one of PostgreSQL's programs. Raises BackupFailed with its error."""
    password = connection.settings_dict["PASSWORD"]
    environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    ended = subprocess.run(
        [_find_program(program), *words],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise BackupFailed(f"{program} failed: {ended.stderr.strip() or ended.returncode}")


def _find_program(name: str) -> str:
    """Return the newest one: an older `pg_dump` refuses a newer server."""
    installed = sorted(
        _PROGRAMS.glob(f"[0-9]*/bin/{name}"), key=lambda path: float(path.parts[-3]), reverse=True
    )
    program = str(installed[0]) if installed else shutil.which(name)
    if program is None:
        raise BackupFailed(f"{name} is not installed (Debian: postgresql-client)")
    return program
