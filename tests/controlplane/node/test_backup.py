"""The database is lost: from a backup everything comes back, from storage what storage has."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.connections.models import Connection
from controlplane.encryption import CONNECTIONS
from controlplane.mirror.models import FileGroupRecord, InstantRecord, SchemaRecord
from controlplane.mirror.sync import sync_table
from controlplane.node.identity import Identity, write_identity
from controlplane.node.places import Places
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.support.databases import database_with_tables, templates  # noqa: F401 - fixtures
from workers import create_table

MIRRORED: tuple[Any, ...] = (InstantRecord, SchemaRecord, FileGroupRecord, Conflict)
_HIDDEN = {"id", "table_id", "detected_at", "last_seen"}


@pytest.fixture
def home(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The home of a node that does not run, and its table root."""
    places = Places(tmp_path / "home")
    places.create()
    monkeypatch.setenv("SLUICE_HOME", str(places.home))
    settings.SLUICE_HOME = places.home
    settings.SLUICE_TABLE_ROOTS = (str(places.tables),)
    return places


@pytest.fixture
def node(database_with_tables: str, home: Places) -> Lake:  # noqa: F811
    """A node with one row of much of what it keeps, and a table with a conflict."""
    ada = User.objects.create_user("ada", password="a long password")
    ada.groups.add(Group.objects.get(name="admin"))
    table = create_table(
        home.tables / "shop" / "trips",
        name="trips",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
    )
    location = str(home.tables / "shop" / "trips")
    lake = Lake(table.table, do_register_table(location=location, slug="rides", by=ada))
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    loser = lake.begin({"id": "1", "ts": 2, "city": "Bergen"}, writer="slow", mode=OPTIMISTIC)
    lake.begin({"id": "1", "ts": 3, "city": "Voss"}, writer="quick", mode=OPTIMISTIC).commit()
    loser.commit()
    sync_table(lake.row)
    Operation.objects.create(table=lake.row, kind="service", service="clean", requested_by=ada)
    Connection.objects.create(
        name="broker", kind="kafka", shown_address="a:1", created_by="ada", changed_by="ada",
        changed_at=timezone.now(), sealed_secrets=CONNECTIONS.close('{"password": "opens"}'),
    )  # fmt: skip
    Session.objects.create(session_key="k", session_data="", expire_date=timezone.now())
    return lake


def run(*words: str) -> str:
    output = StringIO()
    call_command(*words, stdout=output)
    return output.getvalue()


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows by table, but for those that a backup or a restore writes."""
    left_out = ("django_session", "audit_")
    tables = {}
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            if not name.startswith(left_out):
                cursor.execute(f'SELECT * FROM "{name}"')
                tables[name] = sorted(cursor.fetchall(), key=repr)
    return tables


def load_mirror() -> dict[str, list[dict[str, Any]]]:
    return {
        model.__name__: sorted(
            ({k: v for k, v in row.items() if k not in _HIDDEN} for row in model.objects.values()),
            key=repr,
        )
        for model in MIRRORED
    }


def lose_database() -> None:
    """Remove all that the node had: a fresh disk, or a fresh cluster."""
    if connection.vendor == "sqlite":
        place = Path(connection.settings_dict["NAME"])
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            place.with_name(place.name + suffix).unlink(missing_ok=True)
        return
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")
    connection.close()


def test_everything_comes_back_from_a_backup(node: Lake, tmp_path: Path) -> None:
    before, events = rows(), AuditEvent.objects.count()
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    lose_database()

    output = run("restore", str(backup))

    assert rows() == before
    assert backup.stat().st_mode & 0o777 == 0o600
    assert AuditEvent.objects.count() == events + 1  # The restore itself.
    assert AuditEvent.objects.latest("pk").what == "node.restore"
    assert "are unchanged" in run("audit", "verify")
    assert not Session.objects.exists()
    assert "enter the secrets again" not in output
    node.row.refresh_from_db()
    node.commit({"id": "2", "ts": 9, "city": "Moss"})
    assert sync_table(node.row)


def test_backup_is_of_one_moment_and_restores_over_newer_rows(node: Lake, tmp_path: Path) -> None:
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    before = rows()
    User.objects.create_user("mallory", password="a long password")

    with pytest.raises(CommandError, match=r"not empty.*--replace"):
        run("restore", str(backup))
    assert User.objects.filter(username="mallory").exists()

    run("restore", "--replace", str(backup))
    assert rows() == before


def test_backup_never_overwrites_a_file(node: Lake, tmp_path: Path) -> None:
    backup = tmp_path / "node.backup"
    backup.write_text("mine")

    with pytest.raises(CommandError, match="exists already"):
        run("backup", str(backup))

    assert backup.read_text() == "mine"


def damage_dump(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_backup(path: Path) -> None:
    path.write_text("PostgreSQL database dump")


def newer_program(path: Path) -> None:
    change_manifest(path, lambda stored: stored["migrations"].append("tables.9999_future"))


def newer_format(path: Path) -> None:
    change_manifest(path, lambda stored: stored.update(format=2))


def other_vendor(path: Path) -> None:
    change_manifest(path, lambda stored: stored.update(vendor="oracle"))


def change_manifest(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    folder = path.parent / "unpacked"
    with tarfile.open(path) as tar:
        names = tar.getnames()
        tar.extractall(folder, filter="data")
    stored = json.loads((folder / "manifest.json").read_text())
    change(stored)
    (folder / "manifest.json").write_text(json.dumps(stored))
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.add(folder / name, name)


REFUSED: dict[Callable[[Path], None], str] = {
    damage_dump: "damaged",
    cut_off: "damaged|cut off",
    no_backup: "not a backup",
    newer_program: "newer Sluice.*9999_future",
    newer_format: "format 2",
    other_vendor: "of oracle",
}


@pytest.mark.parametrize("spoil", REFUSED)
def test_file_that_cannot_be_restored_is_refused_before_anything_is_touched(
    node: Lake, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    spoil(backup)
    before = rows()

    with pytest.raises(CommandError, match=REFUSED[spoil]):
        run("restore", "--replace", str(backup))

    assert rows() == before


def test_restore_that_fails_leaves_the_former_tables(node: Lake, tmp_path: Path) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite's file is replaced by one rename")
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    before = rows()
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:  # For sessions that begin later, as that of pg_restore.
        cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')

    with pytest.raises(CommandError, match="pg_restore failed"):
        run("restore", "--replace", str(backup))

    assert rows() == before


def test_nothing_is_restored_while_a_process_of_the_node_runs(
    node: Lake, home: Places, tmp_path: Path
) -> None:
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    write_identity(home.identity, Identity("of-a-test", 1, 2, 3, str(tmp_path)))
    environment = {"SLUICE_NODE": "of-a-test", "SLUICE_HOME": str(home.home)}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        try:
            with pytest.raises(CommandError, match="the node runs"):
                run("restore", "--replace", str(backup))
        finally:
            process.kill()


def test_nothing_is_restored_while_another_host_uses_the_database(
    node: Lake, tmp_path: Path
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite is of one host")
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    other = connection.copy()
    try:
        other.ensure_connection()
        with pytest.raises(CommandError, match="the database is in use"):
            run("restore", "--replace", str(backup))
    finally:
        other.close()


def test_another_secret_key_is_named_with_what_it_closes(
    node: Lake, tmp_path: Path, settings: Settings
) -> None:
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    settings.SECRET_KEY = "another key of a test"

    output = run("restore", "--replace", str(backup))

    assert "secret key of this node differs" in output
    assert "connection broker: enter the secrets again" in output


def test_secrets_are_in_a_backup_that_asks_for_them(
    node: Lake, home: Places, tmp_path: Path
) -> None:
    home.secrets.write_text('{"django_secret_key": "k"}')
    without, with_secrets = tmp_path / "without", tmp_path / "with"
    run("backup", str(without))
    run("backup", "--with-secrets", str(with_secrets))
    home.secrets.unlink()

    run("restore", "--replace", str(without))
    assert not home.secrets.exists()
    run("restore", "--replace", str(with_secrets))

    assert home.secrets.read_text() == '{"django_secret_key": "k"}'
    assert home.secrets.stat().st_mode & 0o777 == 0o600
    with tarfile.open(without) as tar:
        assert "secrets.json" not in tar.getnames()


def test_storage_alone_brings_back_tables_and_their_mirror(node: Lake, home: Places) -> None:
    before = load_mirror()
    assert before["Conflict"]
    (home.tables / "shop" / "empty").mkdir()
    damaged = home.tables / "damaged" / ".hoodie"
    damaged.mkdir(parents=True)
    (damaged / "hoodie.properties").write_text("nothing")
    lose_database()

    output = StringIO()
    with pytest.raises(CommandError, match="1 tables were not restored"):
        call_command("restore", "--from-storage", stdout=output)

    assert load_mirror() == before
    [table] = Table.objects.all()
    assert (table.slug, table.location) == ("trips", node.row.location)
    lines = output.getvalue()
    assert "(not registered)" in lines
    assert "users, groups, roles" in lines
    assert not User.objects.filter(username="ada").exists()


def test_restoring_from_storage_again_registers_nothing_twice(node: Lake) -> None:
    run("restore", "--from-storage")

    assert list(Table.objects.values_list("slug", flat=True)) == ["rides"]


def test_sqlite_keeps_the_database_that_it_replaced(node: Lake, tmp_path: Path) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL drops the former tables")
    backup = tmp_path / "node.backup"
    run("backup", str(backup))
    User.objects.create_user("late", password="a long password")

    run("restore", "--replace", str(backup))

    with sqlite3.connect(tmp_path / "own.sqlite3.replaced-1") as former:
        names = former.execute("SELECT username FROM auth_user").fetchall()
    former.close()
    assert ("late",) in names
