"""What others change in a table's properties, and commits that met such a change, on its page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from django.test import Client
from django.urls import reverse

from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.foreign_properties import METADATA_OFF, METADATA_ON, change_as_hudi
from workers import create_table
from workers.lakehouse import LakehouseTable
from workers.table.external_changes import find_external_change

DIRECT = {"hoodie.write.markers.type": "direct"}


def mirrored(table: LakehouseTable) -> Table:
    """The mirror's row after one more sync."""
    row = Table.objects.filter(location=table.location).first()
    row = row or do_register_table(location=table.location, slug="ours", by=None)
    sync_table(row)
    row.refresh_from_db()
    return row


def page_of(client: Client) -> str:
    return client.get(reverse("overview", args=["ours"])).content.decode()


def new_table(root: Path, **more: str) -> LakehouseTable:
    types: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64(), "at": pa.int64()}
    return create_table(
        root / "ours", name="ours", schema=pa.schema(types), record_key=["id"], options=more
    )


def test_page_tells_when_somebody_else_changed_the_properties(
    root: Path, as_viewer: Client
) -> None:
    table = new_table(root)
    assert mirrored(table).property_changes == []
    assert "External changes" not in page_of(as_viewer)

    change_as_hudi(root / "ours", METADATA_ON)
    [change] = mirrored(table).property_changes
    page = page_of(as_viewer)
    change_as_hudi(root / "ours", METADATA_OFF)
    back = mirrored(table)

    [(key, value)] = METADATA_ON.items()
    assert (change["key"], change["before"], change["after"]) == (key, "", value)
    assert "External changes" in page
    assert value in page
    assert f"{key} was changed 0 s ago" in page
    assert [one["after"] for one in back.property_changes] == [value, ""]
    assert back.write_refusal == ""


def test_page_names_commits_that_met_the_change(root: Path, as_viewer: Client) -> None:
    table = new_table(root)
    mirrored(table)
    change_as_hudi(root / "ours", METADATA_ON)

    find_external_change(table.table, "20260131120000000")
    mirrored(table)

    page = page_of(as_viewer)
    assert "1 instant met a change of another engine" in page
    assert "<code>20260131120000000</code> was committed while another engine" in page


def test_what_sluice_changes_itself_is_nobody_elses_change(root: Path, db: None) -> None:
    own = {"hoodie.multistream.groups": '[{"name":"a","ordering":["at"],"columns":["n"]}]'}
    table = new_table(root, **own)
    mirrored(table)

    added = {"name": "b", "ordering": ["b_at"], "columns": ["b"]}
    table.add_group(added, {"b_at": pa.int64(), "b": pa.int64()}, options=DIRECT)

    assert mirrored(table).property_changes == []


def test_long_values_are_shortened_and_still_told_apart(root: Path, db: None) -> None:
    table = new_table(root)
    long = "x" * 5_000
    change_as_hudi(root / "ours", {"some.text": long})
    mirrored(table)

    change_as_hudi(root / "ours", {"some.text": f"{long}y"})

    [change] = mirrored(table).property_changes
    assert change["before"] != change["after"]
    assert len(change["after"]) < 300
