"""Homes that an older Sluice made: `older_home.sql.gz` is the database of one with a table that was
registered and mirrored, as it was before each app's migrations became one.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from workers.processes import find_free_port

REPOSITORY = Path(__file__).resolve().parents[3]
OLDER = Path(__file__).with_name("older_home.sql.gz")
APPS = (
    "accounts", "audit", "connections", "mirror", "monitoring", "operations", "preferences",
    "tables", "uploads", "writers",
)  # fmt: skip
COLUMNS = 'select name, type, "notnull", pk from pragma_table_info'


pytestmark = pytest.mark.slow  # Each migrates a whole database, in processes of their own.


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "db.sqlite3")) as database:
        database.executescript(gzip.decompress(OLDER.read_bytes()).decode())
    return tmp_path


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    ours = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("SLUICE_", "DJANGO_"))
    }
    ports = {
        f"SLUICE_{name}_PORT": str(find_free_port()) for name in ("WEB", "SPARK", "MARKER")
    }  # A node may be running beside the tests.
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "manage.py"), *words],
        check=False,
        capture_output=True,
        text=True,
        env={**ours, **ports, "SLUICE_HOME": str(home), "SLUICE_SECRET_KEY": "of-a-test"},
    )


def query(home: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "db.sqlite3")) as database:
        return database.execute(statement).fetchall()


def test_older_home_goes_on_with_its_tables(home: Path) -> None:
    assert query(home, "select count(*) from django_migrations where app = 'mirror'") == [(12,)]

    migrated = run(home, "migrate", "--verbosity", "0")

    assert migrated.returncode == 0, migrated.stderr
    assert run(home, "table", "list").stdout == "rides\tdefault\t/lake/rides\n"
    chained = "select sequence, what from audit_auditevent order by id"
    assert query(home, chained) == [(1, "table.register"), (2, "audit.chain")]
    assert run(home, "audit", "verify").stdout.startswith("2 rows are unchanged")
    assert query(home, "select count(*) from mirror_instantrecord") == [(2,)]
    ours = "'0001_schema', '0001_groups'"
    applied = query(home, f"select app from django_migrations where name in ({ours}) order by app")
    assert applied == [(app,) for app in APPS]


def test_whoever_had_a_role_keeps_reading_rows(home: Path) -> None:
    holders = {"vic": "viewer", "oda": "operator", "ada": "admin", "nia": ""}
    with closing(sqlite3.connect(home / "db.sqlite3")) as database, database:
        for name, role in holders.items():
            database.execute(
                "insert into auth_user (username, password, is_superuser, first_name, last_name, "
                "email, is_staff, is_active, date_joined) values (?, '', 0, '', '', '', 0, 1, 0)",
                [name],
            )
            database.execute(
                "insert into auth_user_groups (user_id, group_id) select u.id, g.id "
                "from auth_user u, auth_group g where u.username = ? and g.name = ?",
                [name, role],
            )

    assert run(home, "migrate", "--verbosity", "0").returncode == 0

    readers = (
        "select username, right, namespace from tables_rowgrant r join auth_user u "
        "on u.id = r.user_id order by username"
    )
    assert query(home, readers) == [("oda", "rows", ""), ("vic", "rows", "")]


def test_its_tokens_keep_what_their_owners_may(home: Path) -> None:
    columns = "username, password, is_superuser, first_name, last_name, email, is_staff, is_active"
    with closing(sqlite3.connect(home / "db.sqlite3")) as database, database:
        database.execute(
            f"insert into auth_user (id, {columns}, date_joined)"
            " values (7, 'pia', '!', 0, '', '', '', 0, 1, '2026-01-01')"
        )
        database.execute(
            "insert into knox_authtoken (digest, created, user_id, expiry, token_key)"
            " values ('d1', '2026-01-01', 7, '2099-01-01', '3f7868509a0c4d2')"
        )

    assert run(home, "migrate", "--verbosity", "0").returncode == 0

    kept = "select digest, user_id, token_key, scope, namespaces, table_keys from accounts_token"
    assert query(home, kept) == [("d1", 7, "3f7868509a0c4d2", "administer", "[]", "[]")]
    assert query(home, "select name from sqlite_master where name like 'knox%'") == []
    assert run(home, "token", "list", "pia").stdout.startswith("3f7868509a0c4d2  administer every")


def test_its_database_has_what_a_new_one_has(home: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()

    for migrated in (home, fresh):
        assert run(migrated, "migrate", "--verbosity", "0").returncode == 0

    assert shape(home) == shape(fresh)


def shape(home: Path) -> dict[str, set[tuple[object, ...]]]:
    """Each table's columns, and all indexes, in any order."""
    named = query(home, "select name, tbl_name, type from sqlite_master where sql is not null")
    columns = {
        str(name): set(query(home, f"{COLUMNS}('{name}')"))
        for name, _, kind in named
        if kind == "table"
    }
    return columns | {"indexes": {entry for entry in named if entry[2] == "index"}}


def test_home_that_stopped_half_way_is_refused_with_what_to_do(home: Path) -> None:
    with closing(sqlite3.connect(home / "db.sqlite3")) as database, database:
        database.execute("delete from django_migrations where name = '0012_read_otherwise'")

    up = run(home, "up", "--no-demo")

    assert up.returncode != 0
    assert "made by an older Sluice (mirror lacks 0012_read_otherwise)" in up.stderr
    assert "Traceback" not in up.stderr
    assert not list(home.glob("**/*.pid"))
