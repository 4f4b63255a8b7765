"""`manage.py table rename|move|relocate|unregister`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import shell_user
from controlplane.tables.models import Table
from tests.controlplane.test_commands import run


def test_a_table_is_renamed_moved_and_relocated_by_the_shell(root: Path, synced: Table) -> None:
    assert run("table", "rename", "trips", "--slug", "rides", "--reason", "new words") == (
        f"rides\tTrips\tdefault\t{root}/trips\n"
    )
    run("table", "move", "rides", "sales")
    shutil.move(root / "trips", root / "rides")
    run("table", "relocate", "rides", f"{root}/rides")

    assert run("table", "list") == f"rides\tsales\t{root}/rides\n"
    whats = (
        AuditEvent.objects.filter(who=shell_user()).order_by("id").values_list("what", flat=True)
    )
    assert list(whats) == ["table.rename", "table.move", "table.relocate"]
    with pytest.raises(CommandError, match="it is called rides now"):
        run("table", "schema", "trips")


def test_a_table_is_unregistered_once_it_was_confirmed(root: Path, synced: Table) -> None:
    shown = run("table", "unregister", "trips")
    assert Table.objects.count() == 1

    done = run("table", "unregister", "trips", "--yes")

    assert "goes\t1\tinstants" in shown or "\tinstants\n" in shown
    assert "carry it out with --yes" in shown
    assert f"{root}/trips stays" in done
    assert not Table.objects.exists()
    assert (root / "trips" / ".hoodie" / "hoodie.properties").exists()
