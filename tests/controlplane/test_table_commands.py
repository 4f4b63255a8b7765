"""`manage.py table rename|move|relocate|unregister|create`."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import get_shell_user
from controlplane.tables.models import Table
from tests.controlplane.test_commands import run
from workers import open_table


def test_a_table_is_renamed_moved_and_relocated_by_the_shell(root: Path, synced: Table) -> None:
    assert run("table", "rename", "trips", "--slug", "rides", "--reason", "new words") == (
        f"rides\tTrips\tdefault\t{root}/trips\n"
    )
    run("table", "move", "rides", "sales")
    shutil.move(root / "trips", root / "rides")
    run("table", "relocate", "rides", f"{root}/rides")

    assert run("table", "list") == f"rides\tsales\t{root}/rides\n"
    whats = (
        AuditEvent.objects.filter(who=get_shell_user())
        .order_by("id")
        .values_list("what", flat=True)
    )
    assert list(whats) == ["table.rename", "table.move", "table.relocate"]
    with pytest.raises(CommandError, match="its slug is now rides"):
        run("table", "schema", "trips")


def test_a_table_is_unregistered_once_it_was_confirmed(root: Path, synced: Table) -> None:
    shown = run("table", "unregister", "trips")
    assert Table.objects.count() == 1

    done = run("table", "unregister", "trips", "--yes")

    assert "goes\t1\tinstants" in shown or "\tinstants\n" in shown
    assert "--yes unregisters the table" in shown
    assert f"files at {root}/trips kept" in done
    assert not Table.objects.exists()
    assert (root / "trips" / ".hoodie" / "hoodie.properties").exists()


def test_a_table_is_made_of_a_files_columns_once_its_key_is_named(
    root: Path, db: None, tmp_path: Path
) -> None:
    csv = tmp_path / "rides.csv"
    csv.write_text("id,city,fare\n1,Oslo,9\n2,Oslo,8\n")
    words = ("table", "create", f"{root}/rides", "--slug", "rides", "--from", str(csv))

    shown = run(*words)
    assert not Table.objects.exists()
    done = run(*words, "--record-key", "id", "--column", "fare decimal(10,2) not null")

    assert "key\tid\tunique in 2 rows, the whole file" in shown
    assert "choose the key with --record-key" in shown
    assert f"created and registered rides at {root}/rides" in done
    schema = open_table(root / "rides").schema()
    assert schema is not None
    assert schema.field("fare").type == pa.decimal128(10, 2)
    assert not schema.field("fare").nullable


def test_what_is_wrong_with_a_new_table_is_said_field_by_field(root: Path, db: None) -> None:
    said = StringIO()

    with pytest.raises(CommandError, match="cannot be created"):
        call_command(
            "table", "create", "/etc/rides", "--slug", "Rides", "--column", "id float",
            "--record-key", "id", stdout=said,
        )  # fmt: skip

    assert {line.split(":")[0] for line in said.getvalue().splitlines()} == {
        "slug", "location", "record_key",
    }  # fmt: skip
